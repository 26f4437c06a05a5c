"""Recompute, in exact integers, the bound that the prices of a certificate prove.

The checker is independent of the search for prices.

All inputs are floats, and thus multiples of powers of two. So times, prices, weights and rates are
counted in units in which they are integers. Sums and products are exact, and quotients are rounded
down, so the proved value is never too large. The code is short rather than fast.

Source: this project.
"""

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

from lyra_opt.pricing.kernel import PricedJobs
from lyra_opt.simulation.cluster import Cluster, LoanPlan

FINEST = 64
"""Least number of binary digits after the point for times, so that run times are hardly rounded."""


class _Mode(NamedTuple):
    pool: int
    gpus: int
    rate: int


class _Work(NamedTuple):
    """An offer of work to a job: price per unit, amount, and price of the whole amount."""

    each: Fraction
    amount: int
    cost: int


def _digits(values: Iterable[float]) -> int:
    """Return the largest number of binary digits after the point of any value."""
    return max((value.as_integer_ratio()[1].bit_length() - 1 for value in values), default=0)


def _whole(value: float, digits: int) -> int:
    """Return a value as an integer multiple of 2**-digits, rounded down."""
    over, under = value.as_integer_ratio()
    return (over << digits) // under


class Checker:
    """Recomputes, in exact integers, the lower bound on JCT or queuing time that GPU prices prove.

    Parameters
    ----------
    jobs
        The jobs, each with at least one execution mode; the modes are not checked.
    border_s : list of cells + 1
        Begins of the time intervals (cells) and the horizon, increasing from 0.
    price : list of lists of cells
        Price of a GPU-second by pool and cell, at least 0.
    is_queue
        Whether the bound is on queuing time rather than on JCT.
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
        # The price of GPU time after the horizon is 0.
        self._price = [[*(_whole(each, self._money) for each in row), 0] for row in price]
        self._paid = [self._integral(row) for row in self._price]
        self._release = [_whole(release, self._time) for release in releases]
        self._weight = [_whole(weight, self._money) for weight in weights]
        self._rate = [_whole(rate, self._work) for rate in rates]
        self._idle: dict[object, tuple[list[int], list[int]]] = {}
        self._offers: dict[object, list[tuple[int, int]]] = {}

    def proved(self, cluster: Cluster, plan: LoanPlan | None) -> Fraction:
        """Return the proved lower bound on the weighted sum of JCTs or queuing times, in seconds.

        O(jobs * cells that a job looks at * cells that it would use).
        """
        paid = sum(self.least_paid(job) for job in range(len(self._release)))
        return Fraction(paid, 1 << (self._time + self._money)) - self._rent(cluster, plan)

    def _rent(self, cluster: Cluster, plan: LoanPlan | None) -> Fraction:
        """Return the total price of all GPU-seconds of the cluster."""
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
        """Return the integral, up to each border, of a function with one value per interval."""
        lengths = [end - begin for begin, end in pairwise(self._border)]
        return [0, *accumulate(each * length for each, length in zip(row, lengths, strict=False))]

    def _cell(self, moment: int | Fraction) -> int:
        """Return the index of the time interval that contains a given time; the last has no end."""
        return bisect_right(self._border, moment) - 1

    def _at(self, pool: int, moment: int | Fraction) -> int | Fraction:
        """Return the integral of a pool's price up to a time."""
        cell = self._cell(moment)
        return self._paid[pool][cell] + (moment - self._border[cell]) * self._price[pool][cell]

    def _modes(self, job: int) -> tuple[_Mode, ...]:
        jobs = self._jobs
        modes = range(jobs.first[job], jobs.first[job + 1])
        return tuple(_Mode(int(jobs.pool[k]), int(jobs.gpus[k]), self._rate[k]) for k in modes)

    def least_paid(self, job: int) -> int:
        """Return the least cost of a job at the prices (delay plus GPU time), in integer units."""
        if self._jobs.is_contiguous[job]:
            return self._least_of_runs(job)
        return self._least_of_parts(job)

    def _waiting(self, job: int) -> tuple[list[int], list[int]]:
        """Return a job's waiting cost per second in each time interval, and its integrals.

        For queuing time, a job may also hold GPUs in vain if that costs less than waiting.
        """
        weight = self._weight[job]
        held = {(mode.pool, mode.gpus) for mode in self._modes(job)} if self._is_queue else set()
        key = weight, frozenset(held)
        if key not in self._idle:
            row = [
                min(weight, *(gpus * self._price[pool][cell] for pool, gpus in held), weight)
                for cell in range(len(self._border))
            ]
            self._idle[key] = row, self._integral(row)
        return self._idle[key]

    def _least_of_runs(self, job: int) -> int:
        """Return the least cost of a job that runs uninterrupted, over candidate start times."""
        release = self._release[job]
        row, until = self._waiting(job)
        first = self._cell(release)

        def waited(moment: int) -> int:
            cell = self._cell(moment)
            return until[cell] + (moment - self._border[cell]) * row[cell]

        best: float = math.inf
        for mode in self._modes(job):
            length = (1 << (self._time + self._work)) // mode.rate
            running = 0 if self._is_queue else self._weight[job] * length
            for border in (release, *self._border[first + 1 :]):
                for start in {border, border - length}:
                    if start >= release:
                        paid = self._at(mode.pool, start + length) - self._at(mode.pool, start)
                        cost = waited(start) - waited(release) + mode.gpus * int(paid)
                        best = min(best, cost + running)
                if waited(max(release, border - length)) - waited(release) + running >= best:
                    break
        assert best < math.inf, "a job may always start at its release"
        return int(best)

    def _least_of_parts(self, job: int) -> int:
        """Return the least cost of an interruptible job over all intervals in which it can end."""
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
                assert best is not None, "a job may always complete after the horizon"
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
        """Return the steps (rate, cost) of the convex hull of a job's modes in a time interval."""
        modes, adds = self._modes(job), bool(self._jobs.adds[job])
        key = modes, adds, cell, extra
        if key not in self._offers:
            points = [(mode.rate, mode.gpus * self._price[mode.pool][cell]) for mode in modes]
            if adds:  # copies are held together, cheapest work first, or one alone
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
    """Return the least cost of buying `needed` work, rounded down; None if too little is sold."""
    total = 0
    for work in works:
        if work.amount >= needed:
            return total + work.cost * needed // work.amount
        total += work.cost
        needed -= work.amount
    return None
