"""The small reclaim instances among which `lyra_opt.testing.counterexamples` searches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement, product
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import LARGEST_INTEGER, require_choice, require_integer
from lyra_opt.reclaim.instance import Job, ReclaimInstance, Semantics, Server, WorkerGroup
from lyra_opt.reclaim.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

MOST_SERVERS = 16
MOST_JOBS = 16
DEFAULT_MAX_SERVERS = 6
DEFAULT_MAX_JOBS = 6
DEFAULT_MAX_WEIGHT = 3

MOST_WORKERS = 2
"""Most base workers that a drawn job has on one server; flexible ones at most one."""

MOST_GPUS_PER_WORKER = 3
LARGEST_PLAIN_WEIGHT = 2
DENSITIES = (0.25, 0.5, 0.75)
"""How likely a drawn job is to be on a server."""

Group = tuple[int, int]
"""Base and flexible workers of a job on one server."""


@dataclass(frozen=True, slots=True)
class JobSketch:
    """A job: its workers on each server, by position, (0, 0) where it has none.

    `slack` is how many workers it can lose (interchangeable); 0 in rigid instances.
    """

    groups: tuple[Group, ...]
    weight: int = 1
    gpus_per_worker: int = 1
    slack: int = 0

    @property
    def workers(self) -> int:
        """All its workers."""
        return sum(base + flexible for base, flexible in self.groups)


@dataclass(frozen=True, slots=True)
class ReclaimSketch:
    """A reclaim instance without names, on servers that are all of one size."""

    on_loan: tuple[bool, ...]
    reclaim_servers: int
    jobs: tuple[JobSketch, ...]

    @property
    def gpus(self) -> int:
        """GPUs of each server: as many as the fullest one needs."""
        held = [0] * len(self.on_loan)
        for job in self.jobs:
            for server, (base, flexible) in enumerate(job.groups):
                held[server] += (base + flexible) * job.gpus_per_worker
        return max(1, *held)


class ReclaimSpace:
    """Small reclaim instances; implements `lyra_opt.testing.counterexamples.InstanceSpace`.

    An instance is smaller than another if it has fewer servers, or as many and fewer jobs, then
    fewer workers, less weight, fewer GPUs, a smaller N_R, fewer servers that are not on loan,
    fewer flexible workers, less slack. An instance has at least two servers and a job: with
    fewer there is no choice, or nothing to preempt.

    In *plain* instances all servers are on loan, a job has at most one worker on a server, a
    base worker of one GPU, and weight 1 or 2. All placements are among them, and all slacks;
    of instances that differ in the order of their jobs one is. Drawn instances may have servers
    not on loan, more and flexible workers, more GPUs per worker and larger weights.

    Parameters
    ----------
    semantics
        Of all instances.
    max_servers, max_jobs
        From 1 to 16 each.
    max_weight
        Largest weight of a job.
    """

    problem = PROBLEM
    prover = "exact"
    size_names = ("servers", "jobs")

    def __init__(
        self,
        semantics: Semantics | str = Semantics.RIGID,
        *,
        max_servers: int = DEFAULT_MAX_SERVERS,
        max_jobs: int = DEFAULT_MAX_JOBS,
        max_weight: int = DEFAULT_MAX_WEIGHT,
    ) -> None:
        self._semantics = Semantics(
            require_choice("semantics", semantics, list(map(str, Semantics)))
        )
        self._max_servers = _at_most("max_servers", max_servers, MOST_SERVERS)
        self._max_jobs = _at_most("max_jobs", max_jobs, MOST_JOBS)
        self._max_weight = require_integer("max_weight", max_weight, minimum=1)
        if max_weight * max_jobs > LARGEST_INTEGER:
            raise FieldError(
                "max_weight", max_weight, f"must be at most {LARGEST_INTEGER // max_jobs}"
            )
        self._plain_weights = range(1, min(LARGEST_PLAIN_WEIGHT, max_weight) + 1)
        self._is_rigid = self._semantics is Semantics.RIGID

    @property
    def variant(self) -> str:
        """The semantics."""
        return str(self._semantics)

    @property
    def plain(self) -> str:
        """Which instances are plain."""
        largest = self._plain_weights[-1]
        return (
            "all servers on loan, at most one worker of a job on a server, one GPU a worker, "
            f"{'weight 1' if largest == 1 else f'weights up to {largest}'}, jobs in one order"
        )

    @property
    def extent(self) -> str:
        """The most servers and jobs."""
        return f"{_count(self._max_servers, 'server')} and {_count(self._max_jobs, 'job')}"

    def sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the numbers of servers and jobs."""
        yield from product(range(2, self._max_servers + 1), range(1, self._max_jobs + 1))

    def count_plain(self, size: tuple[int, ...]) -> int:
        """Return how many plain instances have that many servers and jobs."""
        servers, jobs = size
        slacks = sum(
            math.comb(servers, span) * (1 if self._is_rigid else span + 1)
            for span in range(1, servers + 1)
        )
        kinds = slacks * len(self._plain_weights)
        return math.comb(kinds + jobs - 1, jobs) * (servers - 1)

    def plain_of(self, size: tuple[int, ...]) -> list[ReclaimSketch]:
        """Return all plain instances of that many servers and jobs, the smallest first."""
        servers, jobs = size
        kinds = [
            JobSketch(
                tuple((int(server in hosts), 0) for server in range(servers)), weight, slack=slack
            )
            for span in range(1, servers + 1)
            for hosts in combinations(range(servers), span)
            for weight in self._plain_weights
            for slack in range(1 if self._is_rigid else span + 1)
        ]
        found = [
            ReclaimSketch((True,) * servers, reclaim_servers, chosen)
            for chosen in combinations_with_replacement(kinds, jobs)
            for reclaim_servers in range(1, servers)
        ]
        return sorted(found, key=lambda sketch: tuple(self.measures(sketch).values()))

    def draw(self, size: tuple[int, ...], rng: np.random.Generator) -> ReclaimSketch:
        """Return an instance at random; most are plain but for their weights."""
        servers, jobs = size
        on_loan = _drawn_loans(servers, rng) if rng.integers(4) == 0 else (True,) * servers
        style = self._style(rng)
        return ReclaimSketch(
            on_loan,
            int(rng.integers(1, sum(on_loan))),
            tuple(style.draw(servers, rng) for _ in range(jobs)),
        )

    def vary(
        self, sketch: ReclaimSketch, size: tuple[int, ...], rng: np.random.Generator
    ) -> ReclaimSketch:
        """Return an instance of `size` with one to three random changes to `sketch`."""
        servers, jobs = size
        sketch = self._resized(sketch, servers, jobs, rng)
        for _ in range(int(rng.integers(1, 4))):
            sketch = self._changed(sketch, rng)
        return sketch

    def reductions(self, sketch: ReclaimSketch) -> Iterator[ReclaimSketch]:
        """Yield what is left without a server, a job, workers, weight or a peculiarity."""
        for server in range(len(sketch.on_loan)):
            smaller = _without_server(sketch, server)
            if smaller.jobs and len(smaller.on_loan) > 1:
                yield smaller
                yield replace(smaller, reclaim_servers=max(1, smaller.reclaim_servers - 1))
        if len(sketch.jobs) > 1:
            for number in range(len(sketch.jobs)):
                yield replace(sketch, jobs=sketch.jobs[:number] + sketch.jobs[number + 1 :])
        for number, job in enumerate(sketch.jobs):
            for smaller_job in _smaller_jobs(job):
                yield _with_job(sketch, number, smaller_job)
        for first, second in combinations(range(len(sketch.jobs)), 2):
            lighter = (_lighter(sketch.jobs[first]), _lighter(sketch.jobs[second]))
            yield _with_job(_with_job(sketch, first, lighter[0]), second, lighter[1])
        yield replace(sketch, jobs=tuple(map(_lighter, sketch.jobs)))
        if sketch.reclaim_servers > 1:
            yield replace(sketch, reclaim_servers=sketch.reclaim_servers - 1)
        yield replace(sketch, on_loan=(True,) * len(sketch.on_loan))

    def measures(self, sketch: ReclaimSketch) -> Mapping[str, int]:
        """Return what is counted, most important first."""
        return {
            "servers": len(sketch.on_loan),
            "jobs": len(sketch.jobs),
            "workers": sum(job.workers for job in sketch.jobs),
            "weight": sum(job.weight for job in sketch.jobs),
            "gpus": sketch.gpus * len(sketch.on_loan),
            "reclaim_servers": sketch.reclaim_servers,
            "servers_not_on_loan": sketch.on_loan.count(False),
            "flexible_workers": sum(flexible for job in sketch.jobs for _, flexible in job.groups),
            "slack_workers": sum(job.slack for job in sketch.jobs),
        }

    def instance(self, sketch: ReclaimSketch, name: str) -> ReclaimInstance:
        """Return the instance, with servers s1, s2, ... and jobs j1, j2, ..."""
        return ReclaimInstance(
            name=name,
            semantics=self._semantics,
            reclaim_servers=sketch.reclaim_servers,
            servers=tuple(
                Server(id=f"s{number}", gpus=sketch.gpus, on_loan=on_loan)
                for number, on_loan in enumerate(sketch.on_loan, start=1)
            ),
            jobs=tuple(
                self._job(f"j{number}", job) for number, job in enumerate(sketch.jobs, start=1)
            ),
        )

    def _job(self, job_id: str, job: JobSketch) -> Job:
        return Job(
            id=job_id,
            workers=tuple(
                WorkerGroup(server=f"s{number}", base=base, flexible=flexible)
                for number, (base, flexible) in enumerate(job.groups, start=1)
                if base or flexible
            ),
            weight=job.weight,
            gpus_per_worker=job.gpus_per_worker,
            **({} if self._is_rigid else {"min_workers": job.workers - job.slack}),
        )

    def _style(self, rng: np.random.Generator) -> _JobStyle:
        """Return one style for all jobs: what makes an instance hard is rarely mixed."""
        return _JobStyle(
            density=DENSITIES[int(rng.integers(len(DENSITIES)))],
            max_weight=(1, self._max_weight)[int(rng.integers(2))],
            has_counts=bool(rng.integers(3) == 0),
            has_slack=not self._is_rigid,
        )

    def _resized(
        self, sketch: ReclaimSketch, servers: int, jobs: int, rng: np.random.Generator
    ) -> ReclaimSketch:
        """Return `sketch` with as many servers and jobs: some removed or added at random."""
        while len(sketch.on_loan) > servers:
            sketch = _without_server(sketch, int(rng.integers(len(sketch.on_loan))))
        kept = list(sketch.jobs)
        for _ in range(servers - len(sketch.on_loan)):
            # An empty server is chosen by anybody: one of the jobs is put on the new one.
            chosen = int(rng.integers(len(kept)))
            kept = [
                replace(job, groups=(*job.groups, (int(number == chosen), 0)))
                for number, job in enumerate(kept)
            ]
        on_loan = sketch.on_loan + (True,) * (servers - len(sketch.on_loan))
        while len(kept) > jobs:
            del kept[int(rng.integers(len(kept)))]
        style = self._style(rng)
        while len(kept) < jobs:
            kept.insert(int(rng.integers(len(kept) + 1)), style.draw(servers, rng))
        return _mended(replace(sketch, on_loan=on_loan, jobs=tuple(kept)))

    def _changed(self, sketch: ReclaimSketch, rng: np.random.Generator) -> ReclaimSketch:
        """Return `sketch` with one thing changed at random: a job, its place, weight, N_R."""
        servers = len(sketch.on_loan)
        number = int(rng.integers(len(sketch.jobs)))
        job = sketch.jobs[number]
        kind = int(rng.integers(6))
        if kind == 0:
            return _with_job(sketch, number, self._style(rng).draw(servers, rng))
        if kind == 1:
            return _mended(replace(sketch, reclaim_servers=int(rng.integers(1, servers))))
        if kind == 2:
            step = (-1, 1)[int(rng.integers(2))]
            weight = min(max(1, job.weight + step), self._max_weight)
            return _with_job(sketch, number, replace(job, weight=weight))
        if kind == 3 and not self._is_rigid:
            return _with_job(sketch, number, replace(job, slack=int(rng.integers(job.workers + 1))))
        server = int(rng.integers(servers))
        group = (1, 0) if job.groups[server] == (0, 0) else (0, 0)
        moved = _with_group(job, server, group)
        return _with_job(sketch, number, moved) if moved.workers else sketch


@dataclass(frozen=True, slots=True, kw_only=True)
class _JobStyle:
    """How the jobs of one drawn instance look."""

    density: float
    max_weight: int
    has_counts: bool
    has_slack: bool

    def draw(self, servers: int, rng: np.random.Generator) -> JobSketch:
        """Return a job at random."""
        is_host = (rng.random(servers) < self.density).tolist()
        if not any(is_host):
            is_host[int(rng.integers(servers))] = True
        groups = tuple(self._group(rng) if hosts else (0, 0) for hosts in is_host)
        job = JobSketch(
            groups,
            int(rng.integers(1, self.max_weight + 1)),
            int(rng.integers(1, MOST_GPUS_PER_WORKER + 1)) if self.has_counts else 1,
        )
        return replace(job, slack=int(rng.integers(job.workers + 1))) if self.has_slack else job

    def _group(self, rng: np.random.Generator) -> Group:
        if not self.has_counts:
            return (1, 0)
        base, flexible = int(rng.integers(MOST_WORKERS + 1)), int(rng.integers(2))
        return (base, flexible) if base or flexible else (1, 0)


def _drawn_loans(servers: int, rng: np.random.Generator) -> tuple[bool, ...]:
    """Return which servers are on loan, at least two of them."""
    on_loan = [bool(rng.integers(3)) for _ in range(servers)]
    for server in rng.permutation(servers)[:2]:
        on_loan[server] = True
    return tuple(on_loan)


def _mended(sketch: ReclaimSketch) -> ReclaimSketch:
    """Return `sketch` with an N_R that its servers on loan allow."""
    most = max(1, sum(sketch.on_loan) - 1)
    return replace(sketch, reclaim_servers=min(sketch.reclaim_servers, most))


def _without_server(sketch: ReclaimSketch, server: int) -> ReclaimSketch:
    """Return `sketch` without a server, its workers and the jobs that have no others."""
    jobs = []
    for job in sketch.jobs:
        groups = job.groups[:server] + job.groups[server + 1 :]
        if any(map(any, groups)):
            kept = replace(job, groups=groups)
            jobs.append(replace(kept, slack=min(job.slack, kept.workers)))
    on_loan = sketch.on_loan[:server] + sketch.on_loan[server + 1 :]
    return _mended(replace(sketch, on_loan=on_loan, jobs=tuple(jobs)))


def _with_job(sketch: ReclaimSketch, number: int, job: JobSketch) -> ReclaimSketch:
    return replace(sketch, jobs=(*sketch.jobs[:number], job, *sketch.jobs[number + 1 :]))


def _with_group(job: JobSketch, server: int, group: Group) -> JobSketch:
    """Return `job` with other workers on one server, and slack for no more than it has."""
    changed = replace(job, groups=(*job.groups[:server], group, *job.groups[server + 1 :]))
    return replace(changed, slack=min(job.slack, changed.workers))


def _smaller_jobs(job: JobSketch) -> Iterator[JobSketch]:
    """Yield `job` with fewer workers, less weight, fewer GPUs, fewer peculiarities."""
    for server, (base, flexible) in enumerate(job.groups):
        fewer = [(0, 0), (1, 0), (base - 1, flexible), (base, flexible - 1), (base + flexible, 0)]
        for group in fewer:
            if min(group) >= 0 and sum(group) <= base + flexible:
                changed = _with_group(job, server, group)
                if changed.workers:
                    yield changed
    step = job.weight // 2
    while step:
        yield replace(job, weight=job.weight - step)
        step //= 2
    for gpus in range(1, job.gpus_per_worker):
        yield replace(job, gpus_per_worker=gpus)
    for slack in range(job.slack):
        yield replace(job, slack=slack)


def _lighter(job: JobSketch) -> JobSketch:
    return replace(job, weight=max(1, job.weight - 1))


def _at_most(field: str, value: int, most: int) -> int:
    if require_integer(field, value, minimum=1) > most:
        raise FieldError(field, value, f"must be at most {most}")
    return value


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
