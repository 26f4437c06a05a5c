"""A bound on all schedules of an order of events, in whole numbers, from prices of work.

The bound holds for *any* prices: proof in the README of allocation, section 13. So it does not
matter who says them, and nothing here is rounded but to the safe side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.formulations.allocation.mean_jct.partial_orders import (
        PartialOrder,
        WholeNumbers,
    )

PRICE_BITS = 60
"""Of prices, beside those of the amounts that they are multiplied by."""
NODES_OF_TAIL = (0, 4, 10, 18, 28, 40, 55, 75, 100, 130, 180, 270, 450, 800)
"""In percent of what the jobs that follow take if they fill the cluster."""
NODES_BETWEEN_RELEASES = 3


class Prices(NamedTuple):
    """What is charged, in multiples of ``2**-PriceScale.bits``.

    Parameters
    ----------
    work
        Of a GPU-tick of work of each job, in ticks of completion.
    rest
        Of a job that follows: how much more its work costs before the tail.
    decay
        Of a job that follows: by how much the price of its work falls a tick in the tail.
    after_release
        The share of the completion of a job that is charged by its release and height.
    """

    work: list[int]
    rest: list[int]
    decay: list[int]
    after_release: list[int]


class Shares(NamedTuple):
    """Multipliers in floats, as a linear programme says them, by job.

    Parameters
    ----------
    work
        Of a GPU-tick of work.
    busy, height, after_release
        Of the three bounds on the completion of a job that follows.
    """

    work: Sequence[Fraction]
    busy: Sequence[float]
    height: Sequence[float]
    after_release: Sequence[float]


class Tail(NamedTuple):
    """Times after the last event at which prices are held against the GPUs.

    Parameters
    ----------
    stretches
        Times in ticks, increasing, between two releases that follow, and the jobs that may run.
    end
        The last time.
    """

    stretches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    end: int


def tail_of(order: PartialOrder) -> Tail:
    """Return the times for the jobs that follow an order of events."""
    numbers, ahead = order.numbers, order.next_release
    wait = {
        job: max(0, numbers.release[job] - (ahead or 0)) if order.waits_for_release(job) else 0
        for job in order.following
    }
    length = max(
        sum(numbers.area[job] for job in order.following) // numbers.gpus,
        max(numbers.height[job] for job in order.following),
        1,
    )
    begins = sorted({0, *wait.values()})
    stretches = []
    for place, begin in enumerate(begins):
        if place + 1 < len(begins):
            span, parts = begins[place + 1] - begin, NODES_BETWEEN_RELEASES
            points = {begin + span * part // parts for part in range(parts + 1)}
        else:
            points = {begin + length * percent // 100 for percent in NODES_OF_TAIL}
        present = tuple(job for job in order.following if wait[job] <= begin)
        stretches.append((tuple(sorted(points)), present))
    return Tail(tuple(stretches), stretches[-1][0][-1])


class PriceBound:
    """Evaluates prices on orders of events of one instance.

    Parameters
    ----------
    numbers
        The instance.

    Attributes
    ----------
    bits : int
        Prices are multiples of ``2**-bits``.
    """

    def __init__(self, numbers: WholeNumbers) -> None:
        self.numbers = numbers
        amounts = max(*numbers.area, numbers.gpus, *numbers.release)
        self.bits = PRICE_BITS + amounts.bit_length()

    def prices(self, order: PartialOrder, shares: Shares, tail: Tail | None) -> Prices:
        """Return multipliers as prices that keep the rules of their proof.

        None is negative, and of the completion of a job no more than all is charged.
        """
        numbers, one = self.numbers, 1 << self.bits
        work = [max(0, math.floor(each * one)) for each in shares.work]
        zero = [0] * numbers.jobs
        found = Prices(work, zero, list(zero), list(zero))
        if tail is None:
            return found
        for job in order.following:
            after = shares.after_release[job] if order.waits_for_release(job) else 0.0
            parts = [max(0.0, each) for each in (shares.busy[job], shares.height[job], after)]
            total = max(1.0, math.fsum(parts))
            busy, height, after_release = (math.floor(Fraction(each) * one) for each in parts)
            if total > 1:
                whole = busy + height + after_release
                busy, height, after_release = (
                    each * one // whole for each in (busy, height, after_release)
                )
            decay = busy // numbers.area[job]
            charged = decay * numbers.area[job] + 2 * height  # of twice the height
            found.decay[job] = decay
            found.rest[job] = (charged << numbers.yield_bits) // (2 * numbers.top_rate[job])
            found.after_release[job] = after_release
        return found

    def most_earned(
        self, price: Sequence[int], forced: Iterable[int], allowed: Iterable[int]
    ) -> int:
        """Return the most that GPUs earn at once: a knapsack that is filled by price a GPU.

        In multiples of ``2**-(bits + yield_bits)``.
        """
        numbers = self.numbers
        room, earned = numbers.gpus, 0
        items = []
        for job in forced:
            earned += (price[job] << numbers.yield_bits) * numbers.base[job]
            room -= numbers.base[job]
            items.append((price[job] * numbers.yields[job], numbers.extra[job]))
        for job in allowed:
            items.append((price[job] << numbers.yield_bits, numbers.base[job]))
            items.append((price[job] * numbers.yields[job], numbers.extra[job]))
        items.sort(reverse=True)
        for density, gpus in items:
            taken = min(room, gpus)
            earned += density * taken
            room -= taken
        return earned

    def bound(self, order: PartialOrder, prices: Prices, tail: Tail | None) -> Fraction:
        """Return a lower bound on the sum of completions, in ticks, of all schedules of the order.

        They may be those of an order that begins it; and prices that an interval without end cannot
        bear are lowered first.
        """
        unit = 1 << (self.bits + self.numbers.yield_bits)
        prices = self.borne(order, prices, tail)
        slack = self._slack(order, prices)
        *between, (length, endless) = order.spans
        total = self._charged(prices)
        for span, places in between:
            assert span is not None, "only the last one may be without end"
            total += span * min(slack[place] for place in places)
        if length is not None and len(endless):
            total += length * min(0, min(slack[place] for place in endless))
        if tail is not None:
            total -= self._earned_in_tail(prices, tail)
        return Fraction(total, unit)

    def borne(self, order: PartialOrder, prices: Prices, tail: Tail | None) -> Prices:
        """Return prices as they apply to an order, so low that intervals without end bear them."""
        prices = _fitted(order, prices, tail)
        length, endless = order.spans[-1]
        if length is not None:
            return prices
        unit, slack = 1 << (self.bits + self.numbers.yield_bits), self._slack(order, prices)
        factors = [
            Fraction(cost, cost - slack[place])
            for place in endless
            if slack[place] < 0
            for cost in (order.intervals[place].unfinished * unit,)
        ]
        if not factors:
            return prices
        factor = min(factors)
        lowered = Prices(
            *([each * factor.numerator // factor.denominator for each in of] for of in prices)
        )
        return _fitted(order, lowered, tail)

    def _slack(self, order: PartialOrder, prices: Prices) -> list[int]:
        """Return for each interval what a tick of it costs less the most that GPUs earn in it."""
        bits = self.numbers.yield_bits
        price = [work + rest for work, rest in zip(prices.work, prices.rest, strict=True)]
        unit = 1 << (self.bits + bits)
        from_release = sum(prices.after_release) << bits
        return [
            interval.unfinished * unit
            - from_release
            - self.most_earned(price, interval.forced, interval.allowed)
            for interval in order.intervals
        ]

    def _charged(self, prices: Prices) -> int:
        """Return what all work costs, and the shares of completions after a release."""
        numbers = self.numbers
        total = 0
        for job in range(numbers.jobs):
            total += (prices.work[job] + prices.rest[job]) * numbers.area[job]
            earliest = numbers.release[job] + numbers.height[job]
            total += prices.after_release[job] * earliest
        return total << numbers.yield_bits

    def _earned_in_tail(self, prices: Prices, tail: Tail) -> int:
        """Return the most that GPUs earn after the last event, by trapezoids, rounded up."""
        twice = 0
        for times, jobs in tail.stretches:
            earned = []
            for time in times:
                price = [
                    max(0, work - time * decay)
                    for work, decay in zip(prices.work, prices.decay, strict=True)
                ]
                earned.append(self.most_earned(price, (), jobs))
            twice += sum(
                (after - before) * (left + right)
                for (before, after), (left, right) in zip(
                    pairwise(times), pairwise(earned), strict=True
                )
            )
        return (twice + 1) // 2


def _fitted(order: PartialOrder, prices: Prices, tail: Tail | None) -> Prices:
    """Return prices, maybe of an order that begins as this one does, as they apply to it.

    Work of jobs that complete in the order has one price; work after the last time of the tail is
    worth nothing.
    """
    work, rest = list(prices.work), [0] * len(prices.work)
    decay, after_release = list(rest), list(rest)
    following = frozenset(order.following)
    for job, more in enumerate(prices.rest):
        if job not in following:
            work[job] += more
            continue
        assert tail is not None, "there are jobs that follow"
        work[job] = min(work[job], prices.decay[job] * tail.end)
        rest[job], decay[job] = more, prices.decay[job]
        after_release[job] = prices.after_release[job]
    return Prices(work, rest, decay, after_release)
