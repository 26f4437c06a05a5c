"""How an order of events begins, in whole numbers: who may hold GPUs in which interval.

Symbols: see the README of allocation, sections 8 to 10 and 13. Amounts are whole multiples of one
tick of time, of which a second has so many (a power of two) that none is rounded: works are
GPU-ticks, ``A_j = g_j W_j``, what ``w_min`` workers hold while they do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.allocation.exact.mean_jct.orders import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.allocation.instance import Instance


class WholeNumbers:
    """An instance in whole numbers.

    Parameters
    ----------
    instance
        The instance.

    Attributes
    ----------
    ticks : int
        In a second.
    base, extra : list[int]
        GPUs of the base demand, and beyond it as many as fit into the cluster.
    yield_bits : int
        Yields are multiples of ``2**-yield_bits``.
    yields : list[int]
        What a GPU beyond the base demand does, in such multiples of what one within it does.
    area, release : list[int]
        Work in GPU-ticks, and release in ticks.
    top_rate : list[int]
        The most work a tick, in the multiples of the yields.
    height : list[int]
        The least time that each job takes, in ticks, rounded down.
    releases : list[int]
        The distinct releases after 0, increasing.
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
        """Whether orders in which `longer` completes before `shorter` may be left out.

        Of jobs equal in all data the first in the file; of two that run at 0 and are equal but for
        work, the one with less of it.
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
    """The time from one event to the next.

    Parameters
    ----------
    unfinished
        How many jobs have not completed when it begins.
    forced, allowed
        Jobs that run all through it, and jobs that may run in it.
    """

    unfinished: int
    forced: tuple[int, ...]
    allowed: tuple[int, ...]


class PartialOrder:
    """The first events of an order, and what they say of the intervals that they end.

    Starts that are no event are open: the job may run, or not, from the first interval in which it
    can until it completes. That is a relaxation, by which a job may be interrupted.

    Parameters
    ----------
    numbers
        The instance.
    events
        Completions and releases from the first one on, and starts of some jobs among them.

    Attributes
    ----------
    first, last : list[int]
        The intervals in which each job may run first and last; none if `first` is the greater.
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
        """Whether the start of a job is known."""
        return self.numbers.running[job] or self.start[job] is not None

    def _excludes(self, place: int, job: int) -> bool:
        """Whether `job`, which completes later, cannot run just before the completion at `place`.

        Nor can it have started before, then.
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
        """The intervals, each of which ends with the event of the same place."""
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
        """Whether each job can run before it completes, and base demands fit.

        Orders in which, of events at one time, completions come first and starts last fit in
        intervals of no length too, and each schedule has such an order.
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
        """The jobs that do not complete in it, but later."""
        size = len(self.events)
        return tuple(job for job in range(self.numbers.jobs) if self.completion[job] == size)

    @property
    def released(self) -> int:
        """How many of the releases have happened."""
        return sum(event.kind is Kind.RELEASE for event in self.events)

    @property
    def next_release(self) -> int | None:
        """The first release that has not, in ticks; None if all have."""
        releases = self.numbers.releases
        return releases[self.released] if self.released < len(releases) else None

    def waits_for_release(self, job: int) -> bool:
        """Whether a job is released after the events only."""
        return self.numbers.release[job] > 0 and (self.numbers.release_event[job] not in self.place)

    @property
    def spans(self) -> list[tuple[int | None, range]]:
        """Stretches from one release to the next: how long in ticks, None without end; intervals.

        The last one is as long at most.
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
        """Jobs whose start is not known."""
        return tuple(job for job in range(self.numbers.jobs) if not self.is_forced(job))
