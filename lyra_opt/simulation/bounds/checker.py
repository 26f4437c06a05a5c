"""What prices prove, in integers: a checker that shares no code with the kernel.

All that it is given are floats, and so whole multiples of powers of two: times, prices, weights and
rates are counted in units in which they are whole numbers. Sums and products are exact, and
quotients are rounded down, so that what is proved is never too much. It is short rather than quick.

Source: this project.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.pricing.kernel import PricedJobs
    from lyra_opt.simulation.cluster import Cluster, LoanPlan

FINEST = 64
"""Binary digits of times after the point, at least: so run times are rounded by little."""


class _Way(NamedTuple):
    pool: int
    gpus: int
    rate: int


class _Work(NamedTuple):
    """Work on sale: the price of a unit, how much there is, and what all of it costs."""

    each: Fraction
    amount: int
    cost: int


def _digits(values: Iterable[float]) -> int:
    """Return the most binary digits after the point that any of the values has."""
    return max((value.as_integer_ratio()[1].bit_length() - 1 for value in values), default=0)


def _whole(value: float, digits: int) -> int:
    """Return a value of at most so many binary digits after the point, times 2 to that power."""
    over, under = value.as_integer_ratio()
    return (over << digits) // under


class Checker:
    """Recomputes what prices prove.

    Parameters
    ----------
    jobs
        With their ways, at least one each, which are taken for granted.
    border_s : list of cells + 1
        Begins of cells and the horizon, rising, from 0 on.
    price : list of lists of cells
        Of a GPU-second, at least 0, by pool.
    is_queue
        Whether jobs are to wait little, rather than to complete soon.
    """

    def __init__(
        self,
        jobs: PricedJobs,
        border_s: Sequence[float],
        price: Sequence[Sequence[float]],
        *,
        is_queue: bool,
    ) -> None:
        self._jobs, self._is_queue = jobs, is_queue
        releases, weights = jobs.release_s.tolist(), jobs.weight.tolist()
        rates = jobs.rate.tolist()
        self._time = max(FINEST, _digits(border_s), _digits(releases))
        self._money = max(_digits(weights), *(_digits(row) for row in price))
        self._work = _digits(rates)
        self._border = [_whole(border, self._time) for border in border_s]
        # What comes after the horizon is free of charge.
        self._price = [[*(_whole(each, self._money) for each in row), 0] for row in price]
        self._paid = [self._integral(row) for row in self._price]
        self._release = [_whole(release, self._time) for release in releases]
        self._weight = [_whole(weight, self._money) for weight in weights]
        self._rate = [_whole(rate, self._work) for rate in rates]
        self._idle: dict[object, tuple[list[int], list[int]]] = {}
        self._offers: dict[object, list[tuple[int, int]]] = {}

    def proved(self, cluster: Cluster, plan: LoanPlan | None) -> Fraction:
        """Return what no schedule can beat on a cluster, in weighted seconds over all jobs.

        O(jobs * cells that a job looks at * cells that it would use).
        """
        paid = sum(self.least_paid(job) for job in range(len(self._release)))
        return Fraction(paid, 1 << (self._time + self._money)) - self._rent(cluster, plan)

    def _rent(self, cluster: Cluster, plan: LoanPlan | None) -> Fraction:
        """Return the price of all GPUs that there are."""
        total = Fraction(0)
        for pool in cluster.pools:
            on_loan = (0,) if plan is None else plan.on_loan
            since_s = [Fraction(0)]
            if pool.is_lent and plan is not None:
                since_s = [place * Fraction(plan.interval_s) for place in range(len(on_loan))]
            largest = sorted(pool.gpus, reverse=True)
            until_s = [*since_s[1:], None]
            for since, until, servers in zip(since_s, until_s, on_loan, strict=False):
                gpus = sum(largest[:servers] if pool.is_lent else largest)
                begin, end = (
                    self._border[-1] if moment is None else moment * (1 << self._time)
                    for moment in (since, until)
                )
                total += gpus * (self._at(pool.number, end) - self._at(pool.number, begin))
        return total / (1 << (self._time + self._money))

    def _integral(self, row: Sequence[int]) -> list[int]:
        """Return the integral up to each border of what is constant in cells."""
        lengths = [end - begin for begin, end in pairwise(self._border)]
        return [0, *accumulate(each * length for each, length in zip(row, lengths, strict=False))]

    def _cell(self, moment: int | Fraction) -> int:
        """Return the cell of a moment; that after the horizon has no end."""
        return bisect_right(self._border, moment) - 1

    def _at(self, pool: int, moment: int | Fraction) -> int | Fraction:
        """Return the integral of a pool's price up to a moment."""
        cell = self._cell(moment)
        return self._paid[pool][cell] + (moment - self._border[cell]) * self._price[pool][cell]

    # Of a job.

    def _ways(self, job: int) -> tuple[_Way, ...]:
        jobs = self._jobs
        ways = range(jobs.first[job], jobs.first[job + 1])
        return tuple(_Way(int(jobs.pool[k]), int(jobs.gpus[k]), self._rate[k]) for k in ways)

    def least_paid(self, job: int) -> int:
        """Return what a job pays at least, rounded down, in the checker's unit of weighted time."""
        if self._jobs.is_contiguous[job]:
            return self._least_of_runs(job)
        return self._least_of_parts(job)

    def _waiting(self, job: int) -> tuple[list[int], list[int]]:
        """Return what a second costs in each cell in which a job does not work, and its integral.

        Where queuing counts, whatever it may hold in vain costs less, perhaps.
        """
        weight = self._weight[job]
        held = {(way.pool, way.gpus) for way in self._ways(job)} if self._is_queue else set()
        key = weight, frozenset(held)
        if key not in self._idle:
            row = [
                min(weight, *(gpus * self._price[pool][cell] for pool, gpus in held), weight)
                for cell in range(len(self._border))
            ]
            self._idle[key] = row, self._integral(row)
        return self._idle[key]

    def _least_of_runs(self, job: int) -> int:
        """Try each start at which it, or its end, is at a border, and the release."""
        release = self._release[job]
        row, until = self._waiting(job)
        first = self._cell(release)

        def waited(moment: int) -> int:
            cell = self._cell(moment)
            return until[cell] + (moment - self._border[cell]) * row[cell]

        best: float = math.inf
        for way in self._ways(job):
            length = (1 << (self._time + self._work)) // way.rate
            running = 0 if self._is_queue else self._weight[job] * length
            for border in (release, *self._border[first + 1 :]):
                for start in {border, border - length}:
                    if start >= release:
                        paid = self._at(way.pool, start + length) - self._at(way.pool, start)
                        cost = waited(start) - waited(release) + way.gpus * int(paid)
                        best = min(best, cost + running)
                if waited(max(release, border - length)) - waited(release) + running >= best:
                    break
        assert best < math.inf, "it may run at once"
        return int(best)

    def _least_of_parts(self, job: int) -> int:
        """Let it complete in each cell, and buy the cheapest work up to there."""
        begin, weight = self._release[job], self._weight[job]
        row, _ = self._waiting(job)
        cell = self._cell(begin)
        waited = 0
        needed = 1 << (self._work + self._time)
        kept: list[_Work] = []
        best: int | None = None
        while True:
            is_last = cell == len(self._border) - 1
            length = needed if is_last else self._border[cell + 1] - begin
            extra = 0 if self._is_queue else weight
            last = [self._on_sale(*offer, length) for offer in self._offer(job, cell, extra)]
            cost = _cheapest(sorted((*kept, *last)), needed)
            if cost is not None and (best is None or waited + cost < best):
                best = waited + cost
            waited += row[cell] * length
            if is_last or (best is not None and waited >= best):
                assert best is not None, "it completes after the horizon"
                return best
            for offer in self._offer(job, cell, -row[cell] if self._is_queue else 0):
                insort(kept, self._on_sale(*offer, length))
            there = 0
            for place, work in enumerate(kept):
                there += work.amount
                if there >= needed:
                    del kept[place + 1 :]
                    break
            cell += 1
            begin = self._border[cell]

    @staticmethod
    def _on_sale(rate: int, cost: int, length: int) -> _Work:
        return _Work(Fraction(cost, rate), rate * length, cost * length)

    def _offer(self, job: int, cell: int, extra: int) -> list[tuple[int, int]]:
        """Return steps (rate, cost) of the lower hull of all that a job may hold in a cell."""
        ways, adds = self._ways(job), bool(self._jobs.adds[job])
        key = ways, adds, cell, extra
        if key not in self._offers:
            points = [(way.rate, way.gpus * self._price[way.pool][cell]) for way in ways]
            if adds:  # all up to some price of work are held together, or one alone
                by_price = sorted(points, key=lambda point: Fraction(point[1], point[0]))
                points += accumulate(by_price, lambda a, b: (a[0] + b[0], a[1] + b[1]))
            hull = [(0, 0)]
            for rate, cost in sorted((rate, cost + extra) for rate, cost in points):
                if rate == hull[-1][0]:
                    continue
                while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (rate - hull[-1][0]) >= (
                    cost - hull[-1][1]
                ) * (hull[-1][0] - hull[-2][0]):
                    del hull[-1]
                hull.append((rate, cost))
            self._offers[key] = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(hull)]
        return self._offers[key]


def _cheapest(works: Sequence[_Work], needed: int) -> int | None:
    """Return what so much work costs at least, rounded down; None if there is too little."""
    total = 0
    for work in works:
        if work.amount >= needed:
            return total + work.cost * needed // work.amount
        total += work.cost
        needed -= work.amount
    return None
