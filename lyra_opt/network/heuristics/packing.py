"""Pack gangs by GPU prices that balance demand and supply."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.core.kernels import kernel
from lyra_opt.network.heuristics.free_machines import BestFit
from lyra_opt.network.heuristics.packing_kernel import Exchange, Gangs, Packing, Tree, best_packing
from lyra_opt.network.heuristics.policy import Grant, MachineState
from lyra_opt.network.links import Tier


class Market(NamedTuple):
    """Gangs that demand GPUs, machines that supply GPUs, and prices.

    Gangs: ``gang`` is their number of GPUs, ``value`` their value at ``3 gang + tier``, 0 or less
    where they must not start, and ``kind_of`` their index in ``sizes``, the increasing distinct
    sizes. ``machines[f]`` is the number of machines with f free GPUs. ``prices`` are per GPU: one
    for gangs of each size on one machine, and a last one for gangs on several machines.
    ``best_prices`` receives the prices with the least bound. The rest is scratch: excess demand per
    price, best income of a machine by number of GPUs, and the size that it serves first.
    """

    gang: Any
    value: Any
    kind_of: Any
    sizes: Any
    machines: Any
    prices: Any
    best_prices: Any
    excess: Any
    fill: Any
    fill_kind: Any


@kernel
def demand(market: Any) -> Any:
    """Add the GPUs that gangs demand at current prices to ``excess``; return the total gain."""
    prices = market.prices
    value = market.value
    excess = market.excess
    kinds = len(market.sizes)
    total = 0.0
    for job in range(len(market.gang)):
        kind = market.kind_of[job]
        gang = market.gang[job]
        near = value[3 * job]
        if near > 0.0:
            near -= prices[kind] * gang
        far = value[3 * job + 1]
        if value[3 * job + 2] > far:
            far = value[3 * job + 2]
        if far > 0.0:
            far -= prices[kinds] * gang
        if near > 0.0 and near >= far:
            total += near
            excess[kind] += gang
        elif far > 0.0:
            total += far
            excess[kinds] += gang
    return total


@kernel
def supply(total: Any, market: Any) -> Any:
    """Subtract the machines' supply of GPUs from ``excess``; return ``total`` plus their income."""
    prices = market.prices
    sizes = market.sizes
    machines = market.machines
    excess = market.excess
    fill = market.fill
    fill_kind = market.fill_kind
    kinds = len(sizes)
    price = prices[kinds]
    # `fill[n]` is the most that gangs on n GPUs of a machine pay above `price` per GPU.
    fill[0] = 0.0
    for used in range(1, len(machines)):
        fill[used] = fill[used - 1]
        fill_kind[used] = -1
        for kind in range(kinds):
            size = sizes[kind]
            if size > used:
                break
            found = fill[used - size] + size * (prices[kind] - price)
            if found > fill[used]:
                fill[used] = found
                fill_kind[used] = kind
    for free in range(1, len(machines)):
        if machines[free] == 0:
            continue
        total += machines[free] * (fill[free] + free * price)
        used = free
        while used > 0:
            kind = fill_kind[used]
            if kind < 0:
                excess[kinds] -= machines[free]
                used -= 1
            else:
                excess[kind] -= machines[free] * sizes[kind]
                used -= sizes[kind]
    return total


@kernel
def clear_market(steps: Any, market: Any) -> Any:
    """Move GPU prices by subgradient steps towards equal demand and supply of GPUs.

    The prices with the least bound are kept in the market.

    Subgradient steps of Polyak's length, with 0.95 of the initial bound as the target. They
    minimise the bound of `lyra_opt.network.bounds.dual_bound` with each machine as a rack.
    """
    prices = market.prices
    excess = market.excess
    kinds = len(market.sizes)
    best = -1.0
    target = 0.0
    stretch = 1.5
    stalled = 0
    for _ in range(steps):
        for kind in range(kinds + 1):
            excess[kind] = 0.0
        total = supply(demand(market), market)
        if best < 0.0:
            target = 0.95 * total
        if best < 0.0 or total < best:
            best = total
            stalled = 0
            for kind in range(kinds + 1):
                market.best_prices[kind] = prices[kind]
        else:
            stalled += 1
            if stalled == 5:
                stalled = 0
                stretch *= 0.5
        norm = 0.0
        for kind in range(kinds + 1):
            norm += excess[kind] * excess[kind]
        if norm == 0.0 or total <= target:
            break
        step = stretch * (total - target) / norm
        for kind in range(kinds + 1):
            prices[kind] = max(0.0, prices[kind] + step * excess[kind])
    return market


PRICE_STEPS = 40
DEFAULT_BUDGET = 3_000
"""Most units searched while improving packings; about 1 ms of machine code."""
NEAR_ZERO = 1e-3
"""Gains below this fraction of the highest price count as 0."""


def pack(
    machines: MachineState,
    gang: IntArray,
    value: FloatArray,
    *,
    orders: Sequence[IntArray] = (),
    budget: int = DEFAULT_BUDGET,
) -> list[Grant]:
    """Choose which gangs start, and where, by GPU prices that balance demand and supply.

    One GPU price for gangs of each size on one machine, and one for gangs on several machines, are
    found by steps on the dual of the relaxed problem (`clear_market`). Gangs choose by their gain
    per GPU at these prices. A second order sorts gangs with a positive gain by size, largest first.
    Each gang takes the tightest room at the tier where it is worth most. Finally gangs that do not
    start, or not at their best tier, may replace gangs of lower value.

    Parameters
    ----------
    machines
        State of the machines, with their free GPUs.
    gang
        Number of GPUs of each gang, int64, shape (jobs,).
    value
        Value of each gang at each tier, 0 or less where it must not start, shape (jobs, 3).
    orders
        Further orders in which gangs choose. The result is at least as good as their packings,
        except for gangs that cannot be split as their tier demands.
    budget
        Most units searched while improving packings.

    Notes
    -----
    O(jobs log jobs + 40 (jobs + sizes machine-GPUs) + orders jobs machines + budget gangs-a-unit).
    Deterministic; ties are broken by position. Guarantee: none beyond that of `orders`.
    """
    worth_placing = np.flatnonzero(
        (value > 0).any(axis=1) & (gang <= int(machines.free_gpus.sum()))
    )
    if not len(worth_placing):
        return []
    gang, value = gang[worth_placing], np.maximum(value[worth_placing], 0.0)
    value[gang == 1, Tier.RACK :] = 0.0
    if len(gang) == 1:
        # A single gang, the usual case in a cluster with free GPUs, is placed without prices.
        tier, gpus = _place_anywhere(BestFit(machines), int(gang[0]), value[0])
        return [Grant(int(worth_placing[0]), tier, gpus)] if gpus else []
    all_orders = [_among(order, worth_placing) for order in orders]
    all_orders += _priced_orders(machines, gang, value)
    units = _Units(machines)
    unit_of = units.pack(gang, value, all_orders, budget)
    return [
        Grant(job, tier, gpus)
        for job, (tier, gpus) in zip(
            worth_placing.tolist(), units.split(gang, value, unit_of), strict=True
        )
        if gpus
    ]


def _among(order: IntArray, chosen: IntArray) -> IntArray:
    """Restrict an order to the chosen gangs, and renumber them."""
    place = np.full(int(order.max()) + 1, -1)
    place[chosen] = np.arange(len(chosen))
    return place[order][place[order] >= 0]


def _priced_orders(machines: MachineState, gang: IntArray, value: FloatArray) -> list[IntArray]:
    sizes, size_of = np.unique(gang, return_inverse=True)
    near, far = value[:, Tier.MACHINE], value[:, Tier.RACK :].max(axis=1)
    best = np.maximum(near, far) / gang
    by_worth = np.argsort(-best, kind="stable")
    demanded = np.cumsum(gang[by_worth])
    if demanded[-1] <= machines.free_gpus.sum():
        # There are enough GPUs for all gangs, so only their packing matters.
        return [np.lexsort((-best, -gang)), by_worth]
    start = best[by_worth[np.searchsorted(demanded, machines.free_gpus.sum())]]
    prices = clear_price_of_gpus(machines, gang, value, sizes, size_of, float(start))
    gain = np.maximum(
        np.where(near > 0, near / gang - prices[size_of], -np.inf),
        np.where(far > 0, far / gang - prices[-1], -np.inf),
    )
    by_gain = np.argsort(-gain, kind="stable")
    sign = np.sign(np.where(np.abs(gain) <= NEAR_ZERO * prices.max(), 0.0, gain))
    by_size = np.lexsort((-gain, np.where(sign > 0, -gang, 0), -sign))
    return [by_gain, by_size]


def clear_price_of_gpus(
    machines: MachineState,
    gang: IntArray,
    value: FloatArray,
    sizes: IntArray,
    size_of: IntArray,
    start: float,
) -> FloatArray:
    """Return GPU prices at which the demand of gangs nearly equals the free GPUs.

    Parameters
    ----------
    machines, gang, value
        As for `pack`.
    sizes, size_of
        The increasing distinct gang sizes, and the index of each gang's size.
    start
        Initial price of a GPU.

    Returns
    -------
    ndarray
        Price per GPU for gangs on one machine, by size, then for gangs on several machines; at
        least 0.
    """
    kinds = len(sizes)
    counts = np.bincount(machines.free_gpus)
    market = clear_market.run(
        PRICE_STEPS,
        Market(
            gang=gang,
            value=value.ravel(),
            kind_of=size_of,
            sizes=sizes,
            machines=counts,
            prices=np.full(kinds + 1, start),
            best_prices=np.zeros(kinds + 1),
            excess=np.zeros(kinds + 1),
            fill=np.zeros(len(counts)),
            fill_kind=np.zeros(len(counts), np.int64),
        ),
        work=PRICE_STEPS * (len(gang) + kinds * len(counts)),
        largest=int(counts.sum()) * len(counts),
    )
    return np.asarray(market.best_prices, float)


class _Units:
    """Machines, racks and the network as a tree, for the packing kernel."""

    def __init__(self, machines: MachineState) -> None:
        self._machines = machines
        first, free = machines.first_machine_of_rack, machines.free_gpus
        first_unit = np.cumsum([0, len(free), len(first) - 1, 1])
        racks, network = first_unit[1], first_unit[2]
        rack_of = np.repeat(np.arange(racks, network), np.diff(first))
        of_rack = np.add.reduceat(free, first[:-1])
        open_machines = np.add.reduceat((free > 0).astype(np.int64), first[:-1])
        self._tree = Tree(
            first_unit=first_unit,
            parent=np.concatenate((rack_of, np.full(network - racks, network), [-1])),
            parts=np.concatenate((np.ones_like(free), open_machines, [(of_rack > 0).sum()])),
            first_machine=first,
            capacity=np.concatenate((free, of_rack, [of_rack.sum()])),
        )
        self._first_rack, self._network = int(racks), int(network)

    def pack(
        self, gang: IntArray, value: FloatArray, orders: Sequence[IntArray], budget: int
    ) -> IntArray:
        """Return the machine, rack or network (as unit) of each gang in the best packing.

        The unit is -1 for gangs that do not start.
        """
        jobs, units = len(gang), len(self._tree.parent)

        def scratch(length: int) -> IntArray:
            return np.zeros(length, np.int64)

        unit_of = best_packing.run(
            np.concatenate(orders),
            budget,
            Gangs(size=gang, value=value.ravel()),
            self._tree,
            Packing(
                left=scratch(units),
                head=scratch(units),
                following=scratch(jobs),
                previous=scratch(jobs),
                unit_of=scratch(jobs),
                too_large=scratch(len(Tier)),
            ),
            Exchange(
                leaving=scratch(jobs + 1),
                chosen=scratch(jobs + 1),
                came_from=scratch(jobs),
                marked=scratch(jobs),
            ),
            scratch(jobs),
            # Packing visits each machine and rack (unit) once per gang. Improving a packing
            # visits few gangs per unit.
            work=len(orders) * (jobs * units + min(budget, 8 * jobs * units)),
            largest=int(gang.sum()),
        )
        return np.asarray(unit_of, np.int64)

    def split(
        self, gang: IntArray, value: FloatArray, unit_of: IntArray
    ) -> list[tuple[Tier, dict[int, int]]]:
        """Return the tier and GPUs of each gang of a packing; no GPUs if it does not start.

        Gangs on several machines use as few machines as possible, the largest gang first. Gangs
        that cannot be split as their tier demands get any suitable GPUs left, or nothing.
        """
        first_rack, network = self._first_rack, self._network
        unit_of = self._leave_two_racks(gang, unit_of)
        given: list[tuple[Tier, dict[int, int]]] = [
            (Tier.MACHINE, {unit: size} if 0 <= unit < first_rack else {})
            for unit, size in zip(unit_of.tolist(), gang.tolist(), strict=True)
        ]
        across = np.flatnonzero(unit_of >= first_rack)
        if not len(across):
            return given
        near = np.flatnonzero((unit_of >= 0) & (unit_of < first_rack))
        left = self._machines.free_gpus.copy()
        np.subtract.at(left, unit_of[near], gang[near])
        free = BestFit(replace(self._machines, free_gpus=left))
        # Gangs in racks are placed first, because gangs on the network can use any free GPUs.
        for job in across[np.lexsort((-gang[across], unit_of[across] == network))].tolist():
            size, unit = int(gang[job]), int(unit_of[job])
            if unit == network:
                tier, gpus = Tier.NETWORK, free.place(size, Tier.NETWORK)
            else:
                tier, gpus = Tier.RACK, free.place_in_rack(size, unit - first_rack)
            if gpus is None:
                tier, gpus = _place_anywhere(free, size, value[job])
            given[job] = tier, gpus
        return given

    def _leave_two_racks(self, gang: IntArray, unit_of: IntArray) -> IntArray:
        """Move gangs between racks until each network gang can find GPUs in two racks.

        No gang changes its tier. This is needed if nearly all free GPUs are in one rack.
        """
        first_rack, network = self._first_rack, self._network
        spanning = int((unit_of == network).sum())
        if not spanning:
            return unit_of
        left = self._tree.capacity.copy()
        inside = np.flatnonzero((unit_of >= 0) & (unit_of < network))
        np.subtract.at(left, unit_of[inside], gang[inside])
        on_machine = inside[unit_of[inside] < first_rack]
        np.subtract.at(left, self._tree.parent[unit_of[on_machine]], gang[on_machine])
        unit_of = unit_of.copy()
        racks = left[first_rack:network]
        smallest_first = inside[np.argsort(gang[inside], kind="stable")]
        for job in smallest_first.tolist():
            rack = first_rack + int(racks.argmax())
            if racks.sum() - left[rack] >= spanning:
                break
            size, old = int(gang[job]), int(unit_of[job])
            old_rack = old if old >= first_rack else int(self._tree.parent[old])
            if old_rack == rack or size >= left[rack]:
                continue
            new = rack
            if old < first_rack:
                fitting = np.flatnonzero((self._tree.parent == rack) & (left >= size))
                if not len(fitting):
                    continue
                new = int(fitting[left[fitting].argmin()])
                left[old] += size
                left[new] -= size
            left[old_rack] += size
            left[rack] -= size
            unit_of[job] = new
        return unit_of


def _place_anywhere(free: BestFit, size: int, value: FloatArray) -> tuple[Tier, dict[int, int]]:
    """Take GPUs for a gang at its best tier with room; no GPUs if no tier has room."""
    for tier in sorted(Tier, key=lambda tier: -value[tier]):
        gpus = free.place(size, tier) if value[tier] > 0 else None
        if gpus is not None:
            return tier, gpus
    return Tier.MACHINE, {}
