"""The first events of a schedule in a fixed order, and a dual bound in exact integer arithmetic.

Sections 8 to 10 and 13 of the allocation README define the symbols. Amounts are integer multiples
of a tick. The number of ticks per second is a power of two, chosen so that no amount is rounded.
Work is in GPU-ticks, ``A_j = g_j W_j``: the GPU-time that ``w_min`` workers hold while they do it.

The bound holds for *any* prices of work, as section 13 proves. The prices may therefore come from
any source. All rounding in this module is to the safe side.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from lyra_opt.allocation.exact.mean_jct.orders import Event, Kind
from lyra_opt.allocation.instance import Instance


class WholeNumbers:
    """An allocation instance whose times and amounts of work are integers.

    Parameters
    ----------
    instance
        The instance.

    Attributes
    ----------
    ticks : int
        Ticks per second.
    base, extra : list[int]
        GPUs of each job's base demand, and further GPUs that it can use in this cluster.
    yield_bits : int
        Yields are multiples of ``2**-yield_bits``.
    yields : list[int]
        The rate of a GPU beyond the base demand, relative to a GPU within it, in multiples of
        ``2**-yield_bits``.
    area, release : list[int]
        Work in GPU-ticks, and release time in ticks.
    top_rate : list[int]
        The highest rate of work per tick, in multiples of ``2**-yield_bits``.
    height : list[int]
        The shortest run time of each job in ticks, rounded down.
    releases : list[int]
        The distinct release times after 0, in increasing order.
    """

    def __init__(self, instance: Instance) -> None:
        jobs = instance.jobs
        self.jobs, self.gpus = len(jobs), instance.gpus
        areas = [Fraction(job.work_worker_s) * job.gpus_per_worker for job in jobs]
        releases = [Fraction(job.release_s) for job in jobs]
        yields = [1 - Fraction(job.scaling_loss) for job in jobs]
        self.ticks = max(each.denominator for each in (*areas, *releases))
        self.yield_bits = max(each.denominator for each in yields).bit_length() - 1
        one = 1 << self.yield_bits
        self.base = [job.min_gpus for job in jobs]
        self.extra = [min(job.max_gpus, self.gpus) - job.min_gpus for job in jobs]
        self.yields = [int(each * one) for each in yields]
        self.area = [int(each * self.ticks) for each in areas]
        self.release = [int(each * self.ticks) for each in releases]
        self.running = [job.running for job in jobs]
        self.top_rate = [
            base * one + gained * extra
            for base, gained, extra in zip(self.base, self.yields, self.extra, strict=True)
        ]
        self.height = [
            area * one // rate for area, rate in zip(self.area, self.top_rate, strict=True)
        ]
        self.releases = sorted({each for each in self.release if each > 0})
        place = {each: index for index, each in enumerate(self.releases)}
        self.release_event = [
            Event(Kind.RELEASE, place[each]) if each > 0 else None for each in self.release
        ]

    def yields_to(self, shorter: int, longer: int) -> bool:
        """Whether orders in which `longer` completes before `shorter` can be skipped by symmetry.

        Some optimal schedule completes jobs with equal data in file order. If two jobs that run at
        time 0 differ only in work, some optimal schedule completes the job with less work first.
        """
        first, second = (
            (
                self.base[job],
                self.extra[job],
                self.yields[job],
                self.release[job],
                self.running[job],
            )
            for job in (shorter, longer)
        )
        if first != second:
            return False
        if self.area[shorter] == self.area[longer]:
            return shorter < longer
        return self.running[shorter] and self.area[shorter] < self.area[longer]


@dataclass(frozen=True, slots=True)
class Interval:
    """The time between two consecutive events, with the jobs that run or may run in it.

    Parameters
    ----------
    unfinished
        The number of jobs that have not completed when the interval begins.
    forced, allowed
        The jobs that run during the whole interval, and the jobs that may run in it.
    """

    unfinished: int
    forced: tuple[int, ...]
    allowed: tuple[int, ...]


class PartialOrder:
    """The first events of a schedule in a fixed order, and the time intervals between them.

    A job whose start is not an event has an open start. It may run or pause from the first interval
    in which it can run until it completes. This is a relaxation, because real jobs are not
    interrupted.

    Parameters
    ----------
    numbers
        The instance in integers.
    events
        Completions and releases from the first on, and the starts of some jobs.

    Attributes
    ----------
    first, last : list[int]
        The first and the last interval in which each job may run; none if `first` exceeds `last`.
    """

    def __init__(self, numbers: WholeNumbers, events: Sequence[Event]) -> None:
        self.numbers, self.events = numbers, tuple(events)
        self.place = {event: place for place, event in enumerate(self.events)}
        size = len(self.events)
        jobs = range(numbers.jobs)
        self.completion = [self.place.get(Event(Kind.COMPLETION, job), size) for job in jobs]
        self.start = [self.place.get(Event(Kind.START, job)) for job in jobs]
        self.last = [min(completion, size - 1) for completion in self.completion]
        self.first = [self._first(job) for job in jobs]

    def _first(self, job: int) -> int:
        if self.numbers.running[job]:
            return 0
        start = self.start[job]
        if start is not None:
            return start + 1
        released = self.numbers.release_event[job]
        first = 0 if released is None else self.place.get(released, len(self.events)) + 1
        for place in range(self.completion[job] - 1, first - 1, -1):
            event = self.events[place] if place < len(self.events) else None
            if event is not None and event.kind is Kind.COMPLETION and self._excludes(place, job):
                return place + 1
        return first

    def is_forced(self, job: int) -> bool:
        """Whether the order fixes the start of the job, so that the job runs until it completes."""
        return self.numbers.running[job] or self.start[job] is not None

    def _excludes(self, place: int, job: int) -> bool:
        """Whether too few GPUs are free for `job` just before the completion event at `place`.

        In that case the job cannot have started before that completion either.
        """
        base = self.numbers.base
        completing = self.events[place].which
        held = base[job] + base[completing]
        for other in range(self.numbers.jobs):
            if other in (job, completing) or self.completion[other] < place:
                continue
            start = self.start[other]
            if self.numbers.running[other] or (start is not None and start < place):
                held += base[other]
        return held > self.numbers.gpus

    @cached_property
    def intervals(self) -> tuple[Interval, ...]:
        """The time intervals between events, in order; interval k ends with event k."""
        found, unfinished = [], self.numbers.jobs
        jobs = range(self.numbers.jobs)
        for place, event in enumerate(self.events):
            present = [job for job in jobs if self.first[job] <= place <= self.last[job]]
            found.append(
                Interval(
                    unfinished,
                    tuple(job for job in present if self.is_forced(job)),
                    tuple(job for job in present if not self.is_forced(job)),
                )
            )
            unfinished -= event.kind is Kind.COMPLETION
        return tuple(found)

    @property
    def is_possible(self) -> bool:
        """Whether each job can run before it completes, and the base demands fit in each interval.

        Among simultaneous events, completions can be ordered first and starts last. Every schedule
        has such an order, and in it the base demands fit even in intervals of length 0.
        """
        runs = all(
            first <= last or completion == len(self.events)
            for first, last, completion in zip(self.first, self.last, self.completion, strict=True)
        )
        base = self.numbers.base
        return runs and all(
            sum(base[job] for job in interval.forced) <= self.numbers.gpus
            for interval in self.intervals
        )

    @cached_property
    def following(self) -> tuple[int, ...]:
        """The jobs that complete after the last event of the order."""
        size = len(self.events)
        return tuple(job for job in range(self.numbers.jobs) if self.completion[job] == size)

    @property
    def released(self) -> int:
        """The number of release events in the order."""
        return sum(event.kind is Kind.RELEASE for event in self.events)

    @property
    def next_release(self) -> int | None:
        """The time, in ticks, of the first release that is not in the order; None if all are."""
        releases = self.numbers.releases
        return releases[self.released] if self.released < len(releases) else None

    def waits_for_release(self, job: int) -> bool:
        """Whether the job is released only after the last event of the order."""
        return self.numbers.release[job] > 0 and (self.numbers.release_event[job] not in self.place)

    @property
    def spans(self) -> list[tuple[int | None, range]]:
        """The spans between releases: length in ticks (None if unlimited) and range of intervals.

        The length of the last span is an upper limit.
        """
        found: list[tuple[int | None, range]] = []
        begin, since = 0, 0
        for place, event in enumerate(self.events):
            if event.kind is Kind.RELEASE:
                due = self.numbers.releases[event.which]
                found.append((due - since, range(begin, place + 1)))
                begin, since = place + 1, due
        ahead = self.next_release
        found.append((None if ahead is None else ahead - since, range(begin, len(self.events))))
        return found

    @cached_property
    def open_jobs(self) -> tuple[int, ...]:
        """The jobs whose start the order does not fix."""
        return tuple(job for job in range(self.numbers.jobs) if not self.is_forced(job))


PRICE_BITS = 60
"""Bits of the prices, besides those of the amounts that the prices are multiplied by."""
NODES_OF_TAIL = (0, 4, 10, 18, 28, 40, 55, 75, 100, 130, 180, 270, 450, 800)
"""Times of the tail, in % of the time in which the remaining jobs would fill the cluster."""
NODES_BETWEEN_RELEASES = 3


class Prices(NamedTuple):
    """Integer dual prices, one per job, from which a lower bound on completion times follows.

    They are multiples of ``2**-OrderPriceBound.bits``.

    Parameters
    ----------
    work
        The price of a GPU-tick of work, in ticks of completion time.
    rest
        For a job that completes after the events, the surcharge on work before the tail.
    decay
        For a job that completes after the events, how much the price of work falls per tick in the
        tail.
    after_release
        The share of the completion time that is bounded by release plus shortest run time.
    """

    work: list[int]
    rest: list[int]
    decay: list[int]
    after_release: list[int]


class Shares(NamedTuple):
    """Dual values of the linear relaxation of an order, one per job.

    Parameters
    ----------
    work
        The dual value of a GPU-tick of work.
    busy, height, after_release
        The dual values of the three lower bounds on the completion time of a job that completes
        after the events.
    """

    work: Sequence[Fraction]
    busy: Sequence[float]
    height: Sequence[float]
    after_release: Sequence[float]


class Tail(NamedTuple):
    """The time grid after the last event of an order, on which a dual bound is evaluated.

    Parameters
    ----------
    stretches
        For each span between later releases, its times in ticks (increasing) and the jobs that may
        run.
    end
        The last time, in ticks.
    """

    stretches: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    end: int


def tail_of(order: PartialOrder) -> Tail:
    """Return the time grid after the last event of an order, with the jobs that may run then."""
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


class OrderPriceBound:
    """Computes dual bounds on the sum of completion times, for orders of events of an instance.

    Parameters
    ----------
    numbers
        The instance in integers.

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
        """Convert dual values of an LP into integer prices for which the dual bound is valid.

        No price is negative, and the shares of a job's completion time sum to at most 1.
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
            busy, height, after_release = (math.floor(Fraction(each) * one) for each in parts)
            whole = busy + height + after_release
            if whole > one:  # a sum of floats could round down to 1
                busy, height, after_release = (
                    each * one // whole for each in (busy, height, after_release)
                )
            decay = busy // numbers.area[job]
            charged = decay * numbers.area[job] + 2 * height  # alpha_j + 2 beta_j
            found.decay[job] = decay
            found.rest[job] = (charged << numbers.yield_bits) // (2 * numbers.top_rate[job])
            found.after_release[job] = after_release
        return found

    def most_earned(
        self, price: Sequence[int], forced: Iterable[int], allowed: Iterable[int]
    ) -> int:
        """Return the largest value of the work that the GPUs can do per tick, at given prices.

        This is a fractional knapsack.

        The value is in multiples of ``2**-(bits + yield_bits)``.
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
        """Return a lower bound, in ticks, on the sum of completion times of the order's schedules.

        The prices may come from a shorter order that this order extends. Prices that are too high
        for an interval without a length limit are lowered first.
        """
        unit = 1 << (self.bits + self.numbers.yield_bits)
        prices = self.applied(order, prices, tail)
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

    def applied(self, order: PartialOrder, prices: Prices, tail: Tail | None) -> Prices:
        """Adapt prices to an order, and lower them where its last, unlimited period requires it."""
        return _fitted(order, self.lowered(order, prices, tail), tail)

    def lowered(self, order: PartialOrder, prices: Prices, tail: Tail | None) -> Prices:
        """Lower prices where the last, unlimited period of an order requires it."""
        if order.spans[-1][0] is not None:
            return prices
        unit = 1 << (self.bits + self.numbers.yield_bits)
        slack, endless = self._slack(order, _fitted(order, prices, tail)), order.spans[-1][1]
        factors = [
            Fraction(cost, cost - slack[place])
            for place in endless
            if slack[place] < 0
            for cost in (order.intervals[place].unfinished * unit,)
        ]
        if not factors:
            return prices
        factor = min(factors)
        return Prices(
            *([each * factor.numerator // factor.denominator for each in of] for of in prices)
        )

    def _slack(self, order: PartialOrder, prices: Prices) -> list[int]:
        """Return, per interval, the cost of one tick minus the largest value of the work in it."""
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
        """Return the value of all work, plus the shares of completion times that releases bound."""
        numbers = self.numbers
        total = 0
        for job in range(numbers.jobs):
            total += (prices.work[job] + prices.rest[job]) * numbers.area[job]
            earliest = numbers.release[job] + numbers.height[job]
            total += prices.after_release[job] * earliest
        return total << numbers.yield_bits

    def _earned_in_tail(self, prices: Prices, tail: Tail) -> int:
        """Return the largest value of work after the last event, by the trapezoidal rule.

        The value is rounded up.
        """
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
    """Adapt prices that were computed for an order to a longer order with the same first events.

    The work of jobs that complete within the order has one price. Work after the last time of the
    tail earns nothing.
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
