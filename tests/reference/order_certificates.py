"""A second reader of certificates of mean JCT: fractions, no module of the package.

Written from the README of allocation, sections 8 and 13. Events are ``("C", job)``, ``("S", job)``
and ``("R", time)``, jobs by their place in the file.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

Event = tuple[str, Any]


class RefutedError(Exception):
    """The certificate does not prove what it should."""


@dataclass
class Job:
    """A job in GPU-seconds of base demand: its work, GPUs, and what a GPU beyond these does."""

    area: Fraction
    base: int
    extra: int
    gain: Fraction
    release: Fraction
    running: bool

    @property
    def top_rate(self) -> Fraction:
        return self.base + self.gain * self.extra

    def comes_before(self, other: Self, *, is_first: bool) -> bool:
        """Whether it may be taken to complete before one that is like it."""
        mine, its = (
            (job.base, job.extra, job.gain, job.release, job.running) for job in (self, other)
        )
        if mine != its:
            return False
        return is_first if self.area == other.area else self.running and self.area < other.area


class Checker:
    """Recomputes what a certificate proves of the document of an instance."""

    def __init__(self, instance: dict[str, Any], denominator: int, ticks: int) -> None:
        self.gpus, self.denominator, self.ticks = instance["gpus"], denominator, ticks
        self.jobs = []
        for each in instance["jobs"]:
            wide = each.get("gpus_per_worker", 1)
            base = wide * each["min_workers"]
            self.jobs.append(
                Job(
                    area=Fraction(each["work_worker_s"]) * wide,
                    base=base,
                    extra=min(wide * each["max_workers"], self.gpus) - base,
                    gain=1 - Fraction(each.get("scaling_loss", 0)),
                    release=Fraction(each.get("release_s", 0)),
                    running=each.get("running", False),
                )
            )
        self.releases = sorted({job.release for job in self.jobs if job.release > 0})

    def earned(self, price: list[Fraction], forced: list[int], allowed: list[int]) -> Fraction:
        """Return the most that all GPUs earn at once."""
        room, value, items = self.gpus, Fraction(0), []
        for j in forced:
            value += price[j] * self.jobs[j].base
            room -= self.jobs[j].base
        for j in allowed:
            items.append((price[j], self.jobs[j].base))
        for j in (*forced, *allowed):
            items.append((price[j] * self.jobs[j].gain, self.jobs[j].extra))
        for density, gpus in sorted(items, reverse=True):
            taken = min(room, gpus)
            value, room = value + density * taken, room - taken
        return value

    def ends(self, events: tuple[Event, ...]) -> list[int]:
        """Return the place of each completion, behind the last event for jobs that follow."""
        places = {event: place for place, event in enumerate(events)}
        return [places.get(("C", j), len(events)) for j in range(len(self.jobs))]

    def begin(self, events: tuple[Event, ...], j: int) -> tuple[int, bool]:
        """Return the first interval in which a job may run, and whether it must from then on."""
        job, done = self.jobs[j], self.ends(events)
        if job.running:
            return 0, True
        if ("S", j) in events:
            return events.index(("S", j)) + 1, True
        if job.release > 0 and ("R", job.release) not in events:
            return len(events), False
        first = events.index(("R", job.release)) + 1 if job.release > 0 else 0
        for place, (kind, i) in enumerate(events[: done[j]]):
            if kind != "C":
                continue
            others = (
                other.base
                for k, other in enumerate(self.jobs)
                if k not in (i, j)
                and done[k] > place
                and (other.running or ("S", k) in events[:place])
            )
            if job.base + self.jobs[i].base + sum(others) > self.gpus:
                first = max(first, place + 1)
        return first, False

    def intervals(self, events: tuple[Event, ...]) -> list[tuple[int, list[int], list[int]]]:
        """Return how many jobs have not completed in each interval, who must and who may run."""
        done = self.ends(events)
        begin = [self.begin(events, j) for j in range(len(self.jobs))]

        def present(place: int, *, must: bool) -> list[int]:
            return [
                j
                for j, (first, forced) in enumerate(begin)
                if first <= place <= done[j] and forced is must
            ]

        return [
            (sum(end >= k for end in done), present(k, must=True), present(k, must=False))
            for k in range(len(events))
        ]

    def can_be(self, events: tuple[Event, ...]) -> bool:
        fits = all(
            sum(self.jobs[j].base for j in must) <= self.gpus
            for _, must, _ in self.intervals(events)
        )
        return fits and all(
            self.begin(events, j)[0] <= end or end == len(events)
            for j, end in enumerate(self.ends(events))
        )

    def leaf(self, events: tuple[Event, ...], said: dict[str, list[int]]) -> Fraction:
        """Return what the sum of completions is at least by the prices of a leaf."""
        jobs, done = range(len(self.jobs)), self.ends(events)
        follow = [j for j in jobs if done[j] == len(events)]
        work, busy, height, after = (
            [Fraction(each, self.denominator) for each in said.get(name, [0] * len(jobs))]
            for name in ("work", "busy", "height", "after")
        )
        for j in jobs:
            shares = busy[j] + height[j] + after[j]
            if min(work[j], busy[j], height[j], after[j]) < 0 or shares > (j in follow):
                raise RefutedError(f"leaf {events}: the prices of job {j}")
        rest = [(busy[j] / 2 + height[j]) / self.jobs[j].top_rate for j in jobs]
        price = [work[j] + rest[j] for j in jobs]
        value = Fraction(0)
        for j, job in enumerate(self.jobs):
            value += price[j] * job.area
            value += after[j] * (job.release + job.area / job.top_rate)
        slack = [
            unfinished - sum(after) - self.earned(price, must, may)
            for unfinished, must, may in self.intervals(events)
        ]
        since, group = Fraction(0), []
        for (kind, which), each in zip(events, slack, strict=True):
            group.append(each)
            if kind == "R":
                value += (which - since) * min(group)
                since, group = which, []
        ahead = [time for time in self.releases if ("R", time) not in events]
        if ahead:
            value += (ahead[0] - since) * min([Fraction(0), *group])
        elif group and min(group) < 0:
            raise RefutedError(f"leaf {events}: an interval without end does not bear its prices")
        if not follow:
            return value
        wait = {
            j: self.jobs[j].release - ahead[0] if self.jobs[j].release in ahead else Fraction(0)
            for j in follow
        }
        times = [Fraction(time, self.ticks) for time in said.get("times", [])]
        if times != sorted(set(times)) or times[:1] != [0] or not set(wait.values()) <= set(times):
            raise RefutedError(f"leaf {events}: times")
        decay = [busy[j] / self.jobs[j].area for j in jobs]
        if any(work[j] > decay[j] * times[-1] for j in follow):
            raise RefutedError(f"leaf {events}: something is earned after the last time")
        for left, right in pairwise(times):
            present = [j for j in follow if wait[j] <= left]
            ends = [
                self.earned([max(Fraction(0), work[j] - decay[j] * t) for j in jobs], [], present)
                for t in (left, right)
            ]
            value -= (right - left) * sum(ends) / 2
        return value

    def children(self, events: tuple[Event, ...], said: dict[str, Any]) -> list[tuple[Event, ...]]:
        """Return orders of which every schedule that is to be looked at has one."""
        done = self.ends(events)
        follow = [j for j, end in enumerate(done) if end == len(events)]
        if "start" in said:
            first, is_known = self.begin(events, said["start"])
            if is_known or follow:
                raise RefutedError(f"{events}: no start to decide")
            return [
                (*events[:place], ("S", said["start"]), *events[place:])
                for place in range(first, done[said["start"]] + 1)
            ]
        if not follow:
            raise RefutedError(f"{events}: nothing follows")
        ahead = [time for time in self.releases if ("R", time) not in events]
        found = [(*events, ("R", ahead[0]))] if ahead else []
        for j in follow:
            is_late = any(
                self.jobs[i].comes_before(self.jobs[j], is_first=i < j) for i in follow if i != j
            )
            if self.jobs[j].release not in ahead and not is_late:
                found.append((*events, ("C", j)))
        return found

    def proved(self, nodes: list[dict[str, Any]]) -> Fraction:
        """Return what mean JCT is at least by a tree."""
        least: Fraction | None = None
        unread, waiting = iter(nodes), [()]
        while waiting:
            events = waiting.pop()
            if not self.can_be(events):
                continue
            said = next(unread, None)
            if said is None:
                raise RefutedError("the tree ends before all branches do")
            if "work" in said:
                value = self.leaf(events, said)
                least = value if least is None else min(least, value)
            else:
                waiting.extend(reversed(self.children(events, said)))
        if next(unread, None) is not None or least is None:
            raise RefutedError("the tree has nodes that no branch leads to")
        return (least - sum(job.release for job in self.jobs)) / len(self.jobs)
