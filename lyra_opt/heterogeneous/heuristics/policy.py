"""Rules that decide round by round which gang runs where, and what they decide on.

A policy sees a `RoundState` and says where each gang runs in the round that begins. The same
objects answer standalone instances (`RoundPolicySolver` in
`lyra_opt.heterogeneous.heuristics.policy_solver`) and run the simulated cluster
(`lyra_opt.simulation.policies.round_by_round`): no rule is written twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lyra_opt.core.solver import Answering
from lyra_opt.core.stopwatch import within_time
from lyra_opt.heterogeneous.instance import MOST_ELAPSED_S, Instance, Objective, Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from lyra_opt.heterogeneous.instance import GangJob, GpuServer, GpuType, PackedRate


NEVER = -1.0
ACTIVE_IDS = "ids of active jobs, not positions"
"""The rule for the keys of a decision, for messages."""

Decision = dict[str, tuple[Placement, ...]]
"""By job, where it runs: one placement, or one for each copy; jobs left out do not run."""


@dataclass(slots=True, kw_only=True)
class ActiveJob:
    """A job that is submitted and not complete, as a round begins.

    Parameters
    ----------
    job
        As submitted; `GangJob.steps` are all its steps.
    order
        Its place among all jobs, by submission; breaks ties.
    steps_left
        Above 0.
    submitted_s
        When it was submitted.
    attained_gpu_s
        GPU-seconds that it has had.
    executed_s
        Seconds in which it has run.
    waiting_since_s
        Since when it has not run; NEVER while it runs.
    started_s
        When it first ran; NEVER if it has not.
    placements
        Where it ran in the round before, a placement for each copy; empty if it did not.
    shares_gpus
        Whether another job runs there too.
    """

    job: GangJob
    order: int
    steps_left: float
    submitted_s: float
    attained_gpu_s: float = 0.0
    executed_s: float = 0.0
    waiting_since_s: float = NEVER
    started_s: float = NEVER
    placements: tuple[Placement, ...] = ()
    shares_gpus: bool = False

    @property
    def current(self) -> Placement:
        """GPUs that are its alone, of its only copy."""
        is_alone = len(self.placements) == 1 and not self.shares_gpus
        return self.placements[0] if is_alone else {}


@dataclass(slots=True, kw_only=True)
class RoundState:
    """What a policy decides on.

    Parameters
    ----------
    gpu_types, servers
        The cluster.
    now_s
        When the round begins.
    round_s
        How long it is.
    horizon_s
        By when all should be done, for prices of Hadar; None where nothing is known.
    jobs
        Active jobs by order.
    is_changed
        Whether a job has been submitted or completed since the last decision.
    packed
        How fast kinds of jobs are beside one another on the same GPUs, where that is known.
    """

    gpu_types: Sequence[GpuType]
    servers: Sequence[GpuServer]
    now_s: float
    round_s: float
    horizon_s: float | None = None
    jobs: list[ActiveJob] = field(default_factory=list)
    is_changed: bool = True
    packed: Sequence[PackedRate] = ()

    def instance(self, objective: Objective, *, name: str = "round") -> Instance:
        """Return the question about the active jobs as a standalone instance.

        Steps are those that are left, time 0 is now, and all jobs are released. Nobody shares GPUs.
        """
        from dataclasses import replace

        jobs = tuple(
            replace(
                active.job,
                steps=active.steps_left,
                release_s=0.0,
                elapsed_s=min(MOST_ELAPSED_S, max(0.0, self.now_s - active.submitted_s)),
                current=active.current,
            )
            for active in within_time(self.jobs)
        )
        return Instance(
            name=name,
            objective=objective,
            gpu_types=tuple(self.gpu_types),
            servers=tuple(self.servers),
            jobs=jobs,
            round_s=self.round_s,
        )


class RoundPolicy(Answering, ABC):
    """A rule that decides as each round begins.

    An object is for one run: it may remember what it has decided. `prepare` is called once,
    before the first round.
    """

    problem = "heterogeneous"

    name: str
    forks = False
    """Whether it runs copies of a job at once."""
    takes_gangs = True
    """Whether it runs jobs of more than one GPU."""
    packs = False
    """Whether it lets two jobs share GPUs."""
    most_idle_s = 0.0
    """For how many seconds at most it lets GPUs idle although a waiting job could use them."""

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:
        """Look at the cluster before the first round, and again when servers came or went.

        Before the first round `state` holds no jobs yet.
        """

    def unchanged_for_s(self, state: RoundState) -> float:  # noqa: ARG002
        """Return for how long it would decide as it has just decided, if no job comes or goes.

        Asked after `decide`, of the state that it saw. A simulation passes over rounds that begin
        within that time.
        """
        return 0.0

    def pairs(self) -> Sequence[tuple[str, str]]:
        """Return who shares GPUs with whom in the decision that was made last.

        Asked after `decide` of a policy that `packs`. Both jobs of a pair have one placement there,
        and each a rate beside the other on all of its types; a job is in one pair at most.
        """
        return ()

    @abstractmethod
    def decide(self, state: RoundState) -> Decision:
        """Return where each gang runs in the round that begins.

        A placement has as many GPUs as the job's gang, all of types on which the job can run; no
        GPU is given twice, but to the two jobs of each of the `pairs`; without `forks` a job has
        one placement at most.
        """


class FreeGpus:
    """GPUs that nobody has been given yet in a round.

    Parameters
    ----------
    servers
        All of them, in file order.
    """

    def __init__(self, servers: Sequence[GpuServer]) -> None:
        self.by_server: dict[str, dict[str, int]] = {
            server.id: dict(server.gpus) for server in servers
        }
        self.of_type: dict[str, int] = {}
        for server in servers:
            for name, count in server.gpus.items():
                self.of_type[name] = self.of_type.get(name, 0) + count

    def holds(self, placement: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether all GPUs of a placement are free."""
        return all(
            self.by_server[server].get(name, 0) >= count
            for server, types in placement.items()
            for name, count in types.items()
        )

    def take(self, placement: Mapping[str, Mapping[str, int]]) -> None:
        """Give the GPUs of a placement, which must be free, to somebody."""
        self._change(placement, -1)

    def give_back(self, placement: Mapping[str, Mapping[str, int]]) -> None:
        """Take back the GPUs of a placement."""
        self._change(placement, 1)

    def _change(self, placement: Mapping[str, Mapping[str, int]], sign: int) -> None:
        for server, types in placement.items():
            there = self.by_server[server]
            for name, count in types.items():
                there[name] += sign * count
                self.of_type[name] += sign * count

    def of_one_type(self, gpu_type: str, gpus: int) -> Placement | None:
        """Return a placement on as few servers as possible, or None if there are too few GPUs.

        On one server if one suffices, that with the fewest free GPUs that do; else on those with
        most free GPUs first; ties in file order. O(servers log servers).
        """
        if self.of_type.get(gpu_type, 0) < gpus:
            return None
        free = [
            (types[gpu_type], server)
            for server, types in self.by_server.items()
            if types.get(gpu_type, 0)
        ]
        fitting = [(count, place) for place, (count, _) in enumerate(free) if count >= gpus]
        if fitting:
            return {free[min(fitting)[1]][1]: {gpu_type: gpus}}
        placement: Placement = {}
        for count, server in sorted(free, key=lambda entry: -entry[0]):
            taken = min(count, gpus)
            placement[server] = {gpu_type: taken}
            gpus -= taken
            if not gpus:
                break
        return placement


class RoundDraft:
    """Who runs where in a round, and what is free yet of all servers."""

    def __init__(self, servers: Sequence[GpuServer]) -> None:
        self.free = FreeGpus(servers)
        self.decision: Decision = {}

    def give(self, job: GangJob, placement: Placement | None) -> bool:
        """Let a job, or one more copy of it, run on free GPUs; return whether there are any."""
        if placement is None:
            return False
        self.free.take(placement)
        self.decision[job.id] = (*self.decision.get(job.id, ()), placement)
        return True

    def share(self, job: GangJob, placement: Placement) -> None:
        """Let a job run on GPUs that another one was given."""
        self.decision[job.id] = (placement,)

    def keep_running(self, jobs: Sequence[ActiveJob]) -> list[ActiveJob]:
        """Let those that run do so where they are; return those that wait."""
        for active in jobs:
            self.give(active.job, active.placements[0] if active.placements else None)
        return [active for active in jobs if not active.placements]


def place_on_type(free: FreeGpus, job: GangJob, gpu_type: str) -> Placement | None:
    """Return free GPUs of one type on which the gang can run, None if there are none.

    On as few servers as possible (`FreeGpus.of_one_type`); on several where it can run on several
    only.
    """
    placement = free.of_one_type(gpu_type, job.gang)
    if placement is None:
        return None
    if not job.rate_of(placement) and len(placement) == 1:
        placement = _on_several(free, job, gpu_type)
    return placement if placement and job.rate_of(placement) else None


def place_on_mixed(free: FreeGpus, job: GangJob) -> Placement | None:
    """Return free GPUs of any types on which the gang can run, None if there are none.

    On one server if one suffices, the first in file order; else on servers with most usable GPUs
    first. Fast types are taken first. O(servers log servers).
    """
    for is_spread in (False, True):
        speeds = {name: job.rate((name,), is_spread=is_spread) for name in free.of_type}
        types = sorted((name for name in speeds if speeds[name]), key=lambda name: -speeds[name])
        usable = {
            server: sum(counts.get(name, 0) for name in types)
            for server, counts in free.by_server.items()
        }
        if is_spread:
            servers: Iterable[str] = sorted(usable, key=lambda server: -usable[server])
        else:
            servers = [server for server in usable if usable[server] >= job.gang][:1]
        placement = _take_in_order(free, job.gang, servers, types)
        if placement is not None and job.rate_of(placement):
            return placement
    return None


def place_on_first_type(free: FreeGpus, job: GangJob, types: Sequence[str]) -> Placement | None:
    """Return GPUs of the first type that will do, None if none will.

    Parameters
    ----------
    free
        What is left.
    job
        Whose gang is placed.
    types
        In the order in which they are tried.
    """
    for gpu_type in types:
        placement = place_on_type(free, job, gpu_type)
        if placement is not None:
            return placement
    return None


class GangPlacer:
    """Places gangs for schedulers that take all GPUs for equal.

    Parameters
    ----------
    servers
        The cluster.
    """

    def __init__(self, servers: Sequence[GpuServer]) -> None:
        self._empty = FreeGpus(servers)
        self._is_mixed: dict[str, bool] = {}

    def place(self, free: FreeGpus, job: GangJob) -> Placement | None:
        """Return where the gang may run on what is free, None if it has to wait.

        On one type, that with most free GPUs first (ties in file order); on mixed types only if
        the whole cluster has no type that would do.
        """
        if self.must_mix(job):
            return place_on_mixed(free, job)
        types = sorted(free.of_type, key=lambda name: -free.of_type[name])
        return place_on_first_type(free, job, types)

    def must_mix(self, job: GangJob) -> bool:
        """Whether no single type of the empty cluster can hold the gang."""
        if job.id not in self._is_mixed:
            types = list(self._empty.of_type)
            self._is_mixed[job.id] = place_on_first_type(self._empty, job, types) is None
        return self._is_mixed[job.id]

    def can_ever_run(self, job: GangJob) -> bool:
        """Whether the empty cluster can hold the gang."""
        return not self.must_mix(job) or place_on_mixed(self._empty, job) is not None


def _on_several(free: FreeGpus, job: GangJob, gpu_type: str) -> Placement | None:
    """Return GPUs of a type on at least two servers: all but one of them on the fullest."""
    counts = {
        server: types[gpu_type]
        for server, types in free.by_server.items()
        if types.get(gpu_type, 0)
    }
    if job.gang < 2 or len(counts) < 2:
        return None
    first = max(counts, key=lambda server: counts[server])
    placement: Placement = {first: {gpu_type: min(counts.pop(first), job.gang - 1)}}
    missing = job.gang - placement[first][gpu_type]
    for server in sorted(counts, key=lambda server: -counts[server]):
        taken = min(counts[server], missing)
        if taken:
            placement[server] = {gpu_type: taken}
            missing -= taken
    return None if missing else placement


def _take_in_order(
    free: FreeGpus, gpus: int, servers: Iterable[str], types: Sequence[str]
) -> Placement | None:
    placement: Placement = {}
    for server in servers:
        for name in types:
            taken = min(gpus, free.by_server[server].get(name, 0))
            if taken:
                placement.setdefault(server, {})[name] = taken
                gpus -= taken
    return None if gpus else placement
