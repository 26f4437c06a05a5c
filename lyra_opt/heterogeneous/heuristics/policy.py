"""Round-based policies: their interface, their input and helpers that place gangs.

A policy receives a `RoundState` and returns the placement of each gang in the round that begins.
The same policy objects solve standalone instances (`RoundPolicySolver` in
`lyra_opt.heterogeneous.heuristics.policy_solver`) and run the simulated cluster
(`lyra_opt.simulation.policies.round_by_round`), so each rule is written once.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np

from lyra_opt.core.solver import Answering
from lyra_opt.core.stopwatch import within_time
from lyra_opt.heterogeneous.instance import (
    MOST_ELAPSED_S,
    GangJob,
    GpuServer,
    GpuType,
    Instance,
    Objective,
    PackedRate,
    Placement,
)

NEVER = -1.0
ACTIVE_IDS = "ids of active jobs, not positions"
"""Rule for the keys of a decision, used in error messages."""

Decision = dict[str, tuple[Placement, ...]]
"""Placements by job id, one per running copy; jobs that are left out do not run."""


@dataclass(slots=True, kw_only=True)
class ActiveJob:
    """A submitted, incomplete job at the start of a round.

    Parameters
    ----------
    job
        The job as submitted; `GangJob.steps` is its total number of steps.
    order
        Rank by submission among all jobs; breaks ties.
    steps_left
        Number of remaining steps, above 0.
    submitted_s
        Time of submission, in seconds.
    attained_gpu_s
        GPU-seconds received so far.
    executed_s
        Seconds that the job has run.
    waiting_since_s
        Time since which the job has not run; NEVER while it runs.
    started_s
        Time of the first start; NEVER before it.
    placements
        Placement of each copy in the round before; empty if the job did not run.
    shares_gpus
        Whether another job shares these GPUs.
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
        """GPUs of the job's only copy, if no other job shares them; else empty."""
        is_alone = len(self.placements) == 1 and not self.shares_gpus
        return self.placements[0] if is_alone else {}


@dataclass(slots=True, kw_only=True)
class RoundState:
    """The cluster and its active jobs, as a policy sees them at the start of a round.

    Parameters
    ----------
    gpu_types, servers
        GPU types and servers of the cluster.
    now_s
        Start of the round, in seconds.
    round_s
        Length of the round, in seconds.
    horizon_s
        Time by which all jobs should complete, used for Hadar's prices; None if unknown.
    jobs
        Active jobs, sorted by `ActiveJob.order`.
    is_changed
        Whether a job has been submitted or completed since the last decision.
    kept_rounds
        Rounds after the round of the last decision that were skipped because this decision held;
        see `RoundPolicy.unchanged_for_s`.
    packed
        Known rates of pairs of job kinds that share GPUs.
    """

    gpu_types: Sequence[GpuType]
    servers: Sequence[GpuServer]
    now_s: float
    round_s: float
    horizon_s: float | None = None
    jobs: list[ActiveJob] = field(default_factory=list)
    is_changed: bool = True
    kept_rounds: int = 0
    packed: Sequence[PackedRate] = ()

    def instance(self, objective: Objective, *, name: str = "round") -> Instance:
        """Return a standalone instance with the active jobs.

        Steps are the remaining steps, time 0 is the start of the round, and all jobs are released.
        No jobs share GPUs.
        """
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
    """A policy that decides the placement of every gang at the start of each round.

    An object serves one run, so it may remember earlier decisions. `prepare` is called before the
    first round, and again when servers are added or removed.
    """

    problem = "heterogeneous"

    name: str
    forks = False
    """Whether the policy runs several copies of a job at once."""
    takes_gangs = True
    """Whether the policy runs jobs with more than one GPU."""
    packs = False
    """Whether the policy lets two jobs share GPUs."""
    most_idle_s = 0.0
    """Most seconds for which GPUs may idle although a waiting job could use them."""

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:
        """Read the cluster before the first round, and again when servers are added or removed.

        Before the first round `state` contains no jobs.
        """

    def unchanged_for_s(self, state: RoundState) -> float:  # noqa: ARG002
        """Return for how many seconds the last decision holds if no job arrives or completes.

        Called after `decide`, with the same state, in which the jobs have their new placements. A
        simulation skips rounds that begin within this time.
        """
        return 0.0

    def pairs(self) -> Sequence[tuple[str, str]]:
        """Return the pairs of jobs that share GPUs in the last decision.

        Called after `decide` if the policy `packs`. Both jobs of a pair have the same single
        placement, and each has a rate beside the other on all of its types. A job is in at most one
        pair.
        """
        return ()

    @abstractmethod
    def decide(self, state: RoundState) -> Decision:
        """Return the placement of each gang in the round that begins.

        A placement has as many GPUs as the job's gang, all of types on which the job can run. Each
        GPU is given to one job, or to both jobs of one of the `pairs`. Without `forks` a job has at
        most one placement.
        """


class FreeGpus:
    """The free GPUs of each server while a round is planned.

    Parameters
    ----------
    servers
        All servers, in file order.
    """

    def __init__(self, servers: Sequence[GpuServer]) -> None:
        self.by_server: dict[str, dict[str, int]] = {
            server.id: {**server.gpus} for server in servers
        }
        self.of_type: dict[str, int] = {}
        for server in servers:
            for name, count in server.gpus.items():
                self.of_type[name] = self.of_type.get(name, 0) + count
        # For each type that `of_one_type` has searched: the positions of servers by free GPUs, as
        # heaps. Entries that no longer match `by_server` are dropped when they come first.
        self._heaps: dict[str, dict[int, list[int]]] = {}
        self._servers = list(self.by_server)
        self._place = dict(zip(self._servers, range(len(servers)), strict=True))

    def holds(self, placement: Mapping[str, Mapping[str, int]]) -> bool:
        """Return whether all GPUs of a placement are free."""
        return all(
            self.by_server[server].get(name, 0) >= count
            for server, types in placement.items()
            for name, count in types.items()
        )

    def take(self, placement: Mapping[str, Mapping[str, int]]) -> None:
        """Mark the GPUs of a placement, which must be free, as used."""
        self._change(placement, -1)

    def give_back(self, placement: Mapping[str, Mapping[str, int]]) -> None:
        """Mark the GPUs of a placement as free again."""
        self._change(placement, 1)

    def _change(self, placement: Mapping[str, Mapping[str, int]], sign: int) -> None:
        for server, types in placement.items():
            counts = self.by_server[server]
            for name, count in types.items():
                counts[name] += sign * count
                self.of_type[name] += sign * count
                if name in self._heaps:
                    heap = self._heaps[name].setdefault(counts[name], [])
                    heappush(heap, self._place[server])

    def of_one_type(self, gpu_type: str, gpus: int) -> Placement | None:
        """Return a placement on as few servers as possible; None if too few GPUs are free.

        If one server suffices, the sufficient server with the fewest free GPUs is taken. Otherwise
        servers with the most free GPUs come first. Ties are broken by file order. O(GPUs of a
        server * log servers) amortised on one server, else O(servers log servers).
        """
        if self.of_type.get(gpu_type, 0) < gpus:
            return None
        heaps = self._heaps.get(gpu_type)
        if heaps is None:
            heaps = self._heaps[gpu_type] = {}
            for place, types in enumerate(self.by_server.values()):
                heaps.setdefault(types.get(gpu_type, 0), []).append(place)
        for count in sorted(heaps):
            heap = heaps[count]
            while count >= gpus and heap:
                if self.by_server[self._servers[heap[0]]].get(gpu_type, 0) == count:
                    return {self._servers[heap[0]]: {gpu_type: gpus}}
                heappop(heap)
        free = [
            (types[gpu_type], server)
            for server, types in self.by_server.items()
            if types.get(gpu_type, 0)
        ]
        placement: Placement = {}
        for count, server in sorted(free, key=lambda entry: -entry[0]):
            taken = min(count, gpus)
            placement[server] = {gpu_type: taken}
            gpus -= taken
            if not gpus:
                break
        return placement


class RoundDraft:
    """A partial decision for a round, with the GPUs that are still free."""

    def __init__(self, servers: Sequence[GpuServer]) -> None:
        self.free = FreeGpus(servers)
        self.decision: Decision = {}

    def give(self, job: GangJob, placement: Placement | None) -> bool:
        """Place a job or another copy of it; return False if `placement` is None."""
        if placement is None:
            return False
        self.free.take(placement)
        self.decision[job.id] = (*self.decision.get(job.id, ()), placement)
        return True

    def share(self, job: GangJob, placement: Placement) -> None:
        """Place a job on GPUs that another job already uses."""
        self.decision[job.id] = (placement,)

    def keep_running(self, jobs: Sequence[ActiveJob]) -> list[ActiveJob]:
        """Leave running jobs where they are, and return the waiting jobs."""
        for active in jobs:
            self.give(active.job, active.placements[0] if active.placements else None)
        return [active for active in jobs if not active.placements]


def place_on_type(free: FreeGpus, job: GangJob, gpu_type: str) -> Placement | None:
    """Return free GPUs of one type on which the gang can run; None if no such GPUs exist.

    As few servers as possible are used (`FreeGpus.of_one_type`). Several servers are used if the
    gang can run only on several.
    """
    placement = free.of_one_type(gpu_type, job.gang)
    if placement is None:
        return None
    if not job.rate_of(placement) and len(placement) == 1:
        placement = _on_several(free, job, gpu_type)
    return placement if placement and job.rate_of(placement) else None


def place_on_mixed(free: FreeGpus, job: GangJob) -> Placement | None:
    """Return free GPUs of any types on which the gang can run; None if no such GPUs exist.

    If one server suffices, the first such server in file order is taken. Otherwise servers with the
    most usable GPUs come first. Faster types are taken first. O(servers log servers).
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
    """Return GPUs of the first type on which the gang can run; None if no type works.

    Parameters
    ----------
    free
        The free GPUs.
    job
        The job to place.
    types
        GPU types, in the order in which they are tried.
    """
    for gpu_type in types:
        placement = place_on_type(free, job, gpu_type)
        if placement is not None:
            return placement
    return None


class GangPlacer:
    """Places gangs for policies that treat all GPU types alike.

    Parameters
    ----------
    servers
        All servers of the cluster.
    """

    def __init__(self, servers: Sequence[GpuServer]) -> None:
        self._empty = FreeGpus(servers)
        self._is_mixed: dict[str, bool] = {}

    def place(self, free: FreeGpus, job: GangJob) -> Placement | None:
        """Return a placement of the gang on free GPUs; None if the gang must wait.

        The type with the most free GPUs is tried first (ties in file order). Types are mixed only
        if no single type of the whole cluster can hold the gang.
        """
        if self.must_mix(job):
            return place_on_mixed(free, job)
        types = sorted(free.of_type, key=lambda name: -free.of_type[name])
        return place_on_first_type(free, job, types)

    def must_mix(self, job: GangJob) -> bool:
        """Return whether no single type of the empty cluster can hold the gang."""
        if job.id not in self._is_mixed:
            types = list(self._empty.of_type)
            self._is_mixed[job.id] = place_on_first_type(self._empty, job, types) is None
        return self._is_mixed[job.id]

    def can_ever_run(self, job: GangJob) -> bool:
        """Return whether the empty cluster can hold the gang."""
        return not self.must_mix(job) or place_on_mixed(self._empty, job) is not None


def _on_several(free: FreeGpus, job: GangJob, gpu_type: str) -> Placement | None:
    """Return GPUs of one type for a gang on at least two servers; None if that is impossible.

    The server with the most free GPUs gives at most gang - 1 of them.
    """
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
