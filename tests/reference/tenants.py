"""A second, naive implementation of replays with quotas of tenants, on GPUs that are only counted.

It keeps lists, recomputes everything at every step, and shares no code with the simulation.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product


@dataclass
class Member:
    """A tenant or a group: its quota, its limit (None for none) and the name of its group."""

    name: str
    gpus: int
    most: int | None = None
    group: str | None = None


@dataclass
class Work:
    """A job of one-GPU workers without checkpoints, and what becomes of it."""

    order: int
    tenant: str
    submit_s: int
    gpus: int
    duration_s: int
    began_s: int | None = None
    ends_s: int | None = None
    completed_s: int | None = None
    stops: int = 0


@dataclass
class Replay:
    """A cluster of `gpus` GPUs with tenants.

    ``queue`` is ``first-come`` (nobody overtakes within a tenant) or ``first-come-overtaking``;
    ``mode`` is borrow or partition; ``takes_back`` says whether jobs are stopped for quotas, and
    ``pause_s`` how long a job that was stopped pauses when it starts again.
    """

    gpus: int
    members: Sequence[Member]
    jobs: Sequence[Work]
    queue: str
    mode: str
    takes_back: bool
    pause_s: int
    now_s: int = 0
    taken_back: dict[str, int] = field(default_factory=dict)
    above_gpu_s: dict[str, int] = field(default_factory=dict)
    below_s: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Replay all jobs to their end."""
        self.now_s = min(job.submit_s for job in self.jobs)
        while any(job.completed_s is None for job in self.jobs):
            for job in self.jobs:
                if job.ends_s == self.now_s:
                    job.completed_s, job.ends_s = job.ends_s, None
            self._decide()
            later = [job.ends_s for job in self.jobs if job.ends_s is not None]
            later += [job.submit_s for job in self.jobs if job.submit_s > self.now_s]
            if any(job.completed_s is None for job in self.jobs):
                self._count(min(later) - self.now_s)
                self.now_s = min(later)

    def _count(self, elapsed_s: int) -> None:
        for member in self.members:
            held = self._held(member.name)
            above = max(0, held - member.gpus)
            sums = self.above_gpu_s
            sums[member.name] = sums.get(member.name, 0) + above * elapsed_s
            if held < member.gpus and any(self._is_under(j, member) for j in self._waiting()):
                self.below_s[member.name] = self.below_s.get(member.name, 0) + elapsed_s

    def _member(self, name: str) -> Member:
        return next(member for member in self.members if member.name == name)

    def _above(self, tenant: str) -> Iterator[Member]:
        """Yield a tenant, its group, and so on."""
        name: str | None = tenant
        while name is not None:
            member = self._member(name)
            yield member
            name = member.group

    def _is_under(self, job: Work, member: Member) -> bool:
        return member in list(self._above(job.tenant))

    def _running(self) -> list[Work]:
        return [job for job in self.jobs if job.ends_s is not None]

    def _waiting(self) -> list[Work]:
        return [
            job
            for job in self.jobs
            if job.submit_s <= self.now_s and job.ends_s is None and job.completed_s is None
        ]

    def _held(self, name: str, without: Sequence[Work] = ()) -> int:
        member = self._member(name)
        return sum(
            job.gpus
            for job in self._running()
            if job not in without and self._is_under(job, member)
        )

    def _free(self) -> int:
        return self.gpus - sum(job.gpus for job in self._running())

    def _use(self, name: str) -> tuple[Fraction | float, Fraction]:
        held, quota = Fraction(self._held(name), self.gpus), self._member(name).gpus
        return (held / Fraction(quota, self.gpus) if quota else math.inf), held

    def _next(self, blocked: set[tuple[str, int | None]]) -> Work | None:
        """Return the job to try next: group by group, of who uses least of its quota."""
        waiting = [job for job in self._waiting() if self._kind(job) not in blocked]
        group: str | None = None
        while True:
            choices = [
                member
                for member in self.members
                if member.group == group and any(self._is_under(job, member) for job in waiting)
            ]
            if not choices:
                return None
            chosen = min(choices, key=lambda m: (self._use(m.name), self.members.index(m)))
            waiting = [job for job in waiting if self._is_under(job, chosen)]
            group = chosen.name
            if not any(member.group == group for member in self.members):
                return min(waiting, key=lambda job: job.order)

    def _kind(self, job: Work) -> tuple[str, int | None]:
        return job.tenant, None if self.queue == "first-come" else job.gpus

    def _decide(self) -> None:
        blocked: set[tuple[str, int | None]] = set()
        refused: set[int] = set()
        while (job := self._next(blocked)) is not None:
            if self._is_admitted(job) and job.gpus <= self._free():
                self._start(job)
                continue
            victims = None
            if self._is_admitted(job) and self.takes_back and job.order not in refused:
                victims = self._victims(job)
            if victims is None:
                refused.add(job.order)
                blocked.add(self._kind(job))
                continue
            for victim in victims:
                for member in self._above(victim.tenant):
                    self.taken_back[member.name] = self.taken_back.get(member.name, 0) + 1
                victim.began_s = victim.ends_s = None
                victim.stops += 1
            self._start(job)
            blocked = set()

    def _is_admitted(self, job: Work) -> bool:
        for member in self._above(job.tenant):
            most = member.most if self.mode == "borrow" else member.gpus
            if most is not None and self._held(member.name) + job.gpus > most:
                return False
        return True

    def _start(self, job: Work) -> None:
        job.began_s = self.now_s
        job.ends_s = self.now_s + job.duration_s + (self.pause_s if job.stops else 0)

    def _may_lose(self, job: Work, other: Work, gone: Sequence[Work]) -> bool:
        """Whether a running job may be stopped for a waiting one, after those in `gone`."""
        own = list(self._above(job.tenant))
        for member in self._above(other.tenant):
            if member in own or self._held(member.name, gone) <= member.gpus:
                return False
            side = [each for each in own if each.group == member.group]
            if side and self._held(side[0].name) + job.gpus <= side[0].gpus:
                return True
        return False

    def _victims(self, job: Work) -> list[Work] | None:
        able: list[Work] = []
        for other in sorted(self._running(), key=lambda each: (each.began_s, each.order))[::-1]:
            if self._may_lose(job, other, able):
                able.append(other)
        # Of equally large jobs, which are interchangeable, those that started last give way.
        able.reverse()
        able.sort(key=lambda each: each.gpus)
        choices = [
            [other for other, is_lost in zip(able, lost, strict=True) if is_lost]
            for lost in product((False, True), repeat=len(able))
        ]
        enough = [
            chosen
            for chosen in choices
            if self._free() + sum(other.gpus for other in chosen) >= job.gpus
        ]
        if not enough:
            return None
        return min(enough, key=lambda each: (len(each), sum(other.gpus for other in each)))
