"""The tree of orders as data: what a checker needs to prove a bound on mean JCT again.

Nodes stand in the order in which they are met from the root down, each before its children; orders
that cannot be have none. A node is

``{"next": true}``
    the order goes on with the next release or a completion: a child for each that the rules allow;
``{"start": j}``
    a child for each interval in which the job at that place of the file may start;
``{"work": [...], "busy": [...], "height": [...], "after": [...], "times": [...]}``
    a leaf: ``p_j``, ``alpha_j``, ``beta_j``, ``gamma_j`` of each job, as multiples of
    ``1 / denominator``, and the times of the tail in ticks, of which a second has ``ticks``; of a
    complete order ``work`` alone.

Mathematics: the README of allocation, section 13.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from lyra_opt.formulations.allocation.mean_jct.order_tree import Branched, OrderSearch
from lyra_opt.formulations.allocation.mean_jct.partial_orders import PartialOrder
from lyra_opt.formulations.allocation.mean_jct.price_bound import PriceBound, tail_of

if TYPE_CHECKING:
    from lyra_opt.allocation.exact.mean_jct.orders import Event
    from lyra_opt.allocation.instance import Instance, Schedule
    from lyra_opt.formulations.allocation.mean_jct.price_bound import Prices

FRACTION_BITS = 44
"""Of numbers in leaves, beside those of the number of GPUs."""


class OrderCertificate(NamedTuple):
    """A tree of orders that proves a bound.

    Parameters
    ----------
    denominator, ticks
        Units of the numbers in leaves and of their times.
    nodes
        As the module says.
    """

    denominator: int
    ticks: int
    nodes: list[dict[str, Any]]


def order_certificate(instance: Instance, schedule: Schedule | None = None) -> OrderCertificate:
    """Return the tree by which `order-tree` proves its optimum, without limits but that of time.

    Parameters
    ----------
    schedule
        To start from; the tree is smaller with a better one.
    """
    search = OrderSearch(instance, schedule, None)
    search.tree = {}
    search.run()
    numbers, priced = search.numbers, search.priced
    denominator = 1 << (FRACTION_BITS + numbers.gpus.bit_length())
    nodes: list[dict[str, Any]] = []
    waiting: list[tuple[Event, ...]] = [()]
    while waiting:
        events = waiting.pop()
        order = PartialOrder(numbers, events)
        if not order.is_possible:
            continue
        said = search.tree[events]
        if isinstance(said, Branched):
            nodes.append({"next": True} if said.job is None else {"start": said.job})
            waiting.extend(reversed(said.children))
        else:
            nodes.append(_leaf(priced, order, said, denominator))
    return OrderCertificate(denominator, numbers.ticks, nodes)


def _leaf(
    priced: PriceBound, order: PartialOrder, prices: Prices, denominator: int
) -> dict[str, Any]:
    """Return the prices of a leaf as they are borne, in fractions rounded down."""
    numbers = order.numbers
    tail = tail_of(order) if order.following else None
    prices = priced.borne(order, prices, tail)
    one = 1 << priced.bits

    def rounded(values: list[Fraction]) -> list[int]:
        return [int(each * denominator) for each in values]

    if tail is None:
        return {"work": rounded([Fraction(each, one) for each in prices.work])}
    jobs = range(numbers.jobs)
    busy = [Fraction(prices.decay[job] * numbers.area[job], one) for job in jobs]
    top = [Fraction(rate, 1 << numbers.yield_bits) for rate in numbers.top_rate]
    height = [
        max(Fraction(0), Fraction(prices.rest[job], one) * top[job] - busy[job] / 2) for job in jobs
    ]
    leaf = {
        "busy": rounded(busy),
        "height": rounded(height),
        "after": rounded([Fraction(each, one) for each in prices.after_release]),
        "times": sorted({time for times, _ in tail.stretches for time in times}),
    }
    # After the last time nothing may be earned, with the rounded numbers either.
    most = [Fraction(leaf["busy"][job] * tail.end, numbers.area[job] * denominator) for job in jobs]
    following = frozenset(order.following)
    leaf["work"] = rounded(
        [
            min(Fraction(price, one), most[job]) if job in following else Fraction(price, one)
            for job, price in enumerate(prices.work)
        ]
    )
    return leaf
