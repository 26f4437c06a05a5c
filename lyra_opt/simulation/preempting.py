"""Choose which running jobs give way to a waiting gang, with a solver of the preemption problem.

A solver of the reclaim problem can do it too: it empties whole servers, on which the gang starts.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from lyra_opt.core.result import Limits, SolveResult, Status
from lyra_opt.core.seeding import derive_seed
from lyra_opt.core.solver import SolverLike
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.instance import (
    GPU,
    Demand,
    Gang,
    Instance,
    Moves,
    Node,
    PodGroup,
    Shape,
    Solution,
)
from lyra_opt.simulation.decisions import LONGEST_DECISION_S, DecisionError, ReclaimRule, solver_of
from lyra_opt.simulation.hosts import PoolRoom
from lyra_opt.simulation.job_run import JobRun, Part
from lyra_opt.simulation.policies.composition import RECLAIMING
from lyra_opt.simulation.view import View


class Pending(NamedTuple):
    """A waiting job, and the GPUs that its base demand needs in one pool.

    Parameters
    ----------
    run, room
        The waiting job, and the pool in which it would start.
    pods, gpus_per_pod
        Number of pods, each of which needs all its GPUs on one host, and GPUs of each pod.
    """

    run: JobRun
    room: PoolRoom
    pods: int
    gpus_per_pod: int


class Preemption(NamedTuple):
    """The jobs that give way to a waiting gang, and the GPUs on which the gang starts.

    Parameters
    ----------
    stopped
        The jobs that lose all their GPUs.
    shrunk
        The jobs that lose only flexible workers, and the GPUs that each of them loses, by host.
    gpus
        The GPUs of the gang, by host.
    """

    stopped: list[JobRun]
    shrunk: list[tuple[JobRun, dict[int, int]]]
    gpus: dict[int, int]


Kind = tuple[int, int, int]
"""Jobs that are interchangeable victims where GPUs are only counted: their priority, the GPUs that
each holds in the pool, and the GPUs of these that it may lose and run on.
"""


def most_needed(kinds: Iterable[Kind], missing: int) -> dict[Kind, int]:
    """Return how many jobs of each kind a best choice that frees `missing` GPUs needs at most.

    If jobs shrink, the GPUs that they lose together can be taken from as few of them as possible at
    the same cost. Then the choice frees too little without any one of its jobs. Of the rigid jobs
    of one priority that suffice alone, a smallest one replaces any larger one.
    """
    found: dict[Kind, int] = {}
    enough: dict[int, int] = {}
    for kind in sorted(kinds):
        priority, gpus, flexible_gpus = kind
        if not flexible_gpus and gpus > enough.get(priority, gpus):
            continue
        found[kind] = -(-missing // (flexible_gpus or gpus))
        if not flexible_gpus and gpus >= missing:
            enough[priority] = gpus
    return found


class PreemptionRule:
    """Chooses the running jobs that give way to a waiting gang, with a preemption solver.

    Where GPUs are only counted, the victims of a `Kind` are interchangeable. The solver gets only
    as many of them as can be needed, and those that started last give way. A proved answer is kept
    for decisions with equally many missing GPUs and victims of the same kinds. Their instances
    differ only in names, start times, and GPUs that are free anyway.

    Parameters
    ----------
    solver
        A preemption solver for instances in which no pod moves.
    weighs_lost_work
        Whether the lost GPU-seconds of work are minimised first. If not, the number of stopped jobs
        is minimised first: at the highest priority, then at the next lower priority, and so on.
    seed
        Random seed for solvers that use random numbers.
    """

    def __init__(
        self, solver: SolverLike, *, weighs_lost_work: bool = False, seed: int = 0
    ) -> None:
        self._solver = solver_of("preemption", Moves.NONE, solver)
        self._weighs_lost_work = weighs_lost_work
        self._rng = np.random.default_rng(
            derive_seed(simulation="preemption", solver=self._solver.name, seed=seed)
        )
        # The victims that are stopped (0), or the flexible workers that they lose, by position.
        self._kept: dict[tuple[int | Kind, ...], list[tuple[int, int]]] = {}

    def choose(
        self, view: View, pending: Pending, victims: Sequence[JobRun] | None = None
    ) -> Preemption | None:
        """Return the jobs that give way, and the GPUs of the gang; None if the gang has to wait.

        The solver is not called if the gang would not fit even without all jobs that may give way.

        Parameters
        ----------
        victims
            The running jobs that may give way, whatever their priority; None for all jobs of lower
            priority.

        Raises
        ------
        DecisionError
            If the solver fails, or breaks a rule of the problem.
        """
        room = pending.room
        if room.is_counted and victims is not None and not self._weighs_lost_work:
            return self._choose_by_kind(view, pending, victims)
        able = lower_jobs(view, pending.run) if victims is None else victims
        leaving = [part.by_host() for _, part in _parts_in(able, room)]
        if not leaving or room.fit.room_after(leaving, pending.gpus_per_pod) < pending.pods:
            return None
        if victims is not None:
            victims = sorted(victims, key=attrgetter("order"))
        instance = preemption_instance(
            view, pending, victims, weighs_lost_work=self._weighs_lost_work
        )
        solution = self._result(view, instance).solution
        return None if solution is None else _preemption(view, pending, solution)

    def _result(self, view: View, instance: Instance) -> SolveResult[Solution]:
        """Return the solver's answer to an instance, after a check.

        Raises
        ------
        DecisionError
            If the solver fails, or breaks a rule of the problem.
        """
        view.observed("preemption", instance)
        result = self._solver.solve(
            instance, limits=Limits(time_s=LONGEST_DECISION_S), rng=self._rng
        )
        name, solution = self._solver.name, result.solution
        if result.status in (Status.ERROR, Status.UNSUPPORTED):
            raise DecisionError(f"{name} failed to choose victims: {result.message}")
        if solution is not None and (violations := check(instance, solution).violations):
            raise DecisionError(f"{name} chose invalid victims: {violations[0]}")
        return result

    def _choose_by_kind(
        self, view: View, pending: Pending, victims: Sequence[JobRun]
    ) -> Preemption | None:
        """Return the answer of `choose` where GPUs are only counted."""
        pool = pending.room.number
        wanted = pending.pods * pending.gpus_per_pod
        missing = wanted - view.hosts.free_of_pool[pool]
        of_kind: dict[Kind, list[JobRun]] = {}
        able = 0
        for run, part in _parts_in(victims, pending.room):
            may_shrink = part.flexible and len(run.parts) == 1
            flexible_gpus = sum(part.gpus[1].values()) if may_shrink else 0
            of_kind.setdefault((run.job.priority, part.held, flexible_gpus), []).append(run)
            able += part.held
        if able < missing:
            return None
        kept, kinds = [], []
        for kind, most in most_needed(of_kind, missing).items():
            latest = of_kind[kind][:most]
            kept += latest[::-1]
            kinds += [kind] * len(latest)
        losses = self._kept.get((missing, *kinds))
        if losses is None or view.captures("preemption"):
            instance = preemption_instance(view, pending, kept)
            if losses is None:
                result = self._result(view, instance)
                if result.solution is None:
                    return None
                place = {run.order: place for place, run in enumerate(kept)}
                losses = [(place[int(gang)], 0) for gang in result.solution.lost_gangs]
                losses += [(place[int(p.gang)], p.count) for p in result.solution.lost_pods]
                if result.status is Status.OPTIMAL:
                    self._kept[missing, *kinds] = losses
            else:
                view.observed("preemption", instance)
        host = view.cluster.pools[pool].hosts.start
        return Preemption(
            stopped=[kept[place] for place, lost in losses if not lost],
            shrunk=[(kept[place], {host: lost}) for place, lost in losses if lost],
            gpus={host: wanted},
        )


def lower_jobs(view: View, run: JobRun) -> list[JobRun]:
    """Return the running jobs with a lower priority than a job."""
    return [other for other in view.running.values() if other.job.priority < run.job.priority]


def preemption_instance(
    view: View,
    pending: Pending,
    victims: Sequence[JobRun] | None = None,
    *,
    weighs_lost_work: bool = False,
) -> Instance:
    """Return the preemption instance of making room for a waiting gang in one pool.

    The nodes are the hosts of the pool. The gangs are the jobs that run in the pool, and their pods
    are the workers. A job that runs only in this pool can shrink to its base demand, and other jobs
    cannot shrink. Jobs of lower priority may lose pods, and no pod moves.

    Parameters
    ----------
    victims
        The jobs that may lose pods, whatever their priority, in the order of the gangs. What other
        jobs hold is then subtracted from the capacity of the nodes, and these jobs are left out.
        None for all jobs of lower priority.
    weighs_lost_work
        Whether the lost GPU-seconds of work are minimised before the number of lost gangs by
        priority, highest first. The number of lost GPUs only breaks ties.
    """
    hosts, name_of = view.hosts, view.cluster.name_of_host
    among = sorted(view.running.values(), key=attrgetter("order")) if victims is None else victims
    capacity = hosts.size if victims is None else _free_without(view, victims, pending.room)
    gangs = []
    for run, part in _parts_in(among, pending.room):
        view.account(run)
        gpus, held = run.job.gpus_per_worker, part.by_host()
        least = part.gpus[0] if len(run.parts) == 1 else held
        gangs.append(
            Gang(
                id=str(run.order),
                priority=run.job.priority,
                pods=[
                    PodGroup(node=name_of[host], request={GPU: gpus}, count=count // gpus)
                    for host, count in sorted(held.items())
                ],
                min_pods=sum(least.values()) // gpus,
                weight=int(view.lost_gpu_s(run)) if weighs_lost_work else 1,
                start_s=run.began_s,
            )
        )
    lost_work = ("weighted_gangs",) if weighs_lost_work else ()
    return Instance(
        name=f"preemption-at-{view.now_s:.0f}-s",
        nodes=[
            Node(id=name_of[host], capacity={GPU: capacity[host]})
            for host in view.cluster.pools[pending.room.number].hosts
            if capacity[host]
        ],
        gangs=gangs,
        demand=Demand(
            priority=pending.run.job.priority,
            shapes=[Shape(count=pending.pods, request={GPU: pending.gpus_per_pod})],
        ),
        victims="lower" if victims is None else "any",
        objective=(*lost_work, "lost_gangs_by_priority", "lost:gpu"),
    )


def _parts_in(runs: Iterable[JobRun], room: PoolRoom) -> Iterator[tuple[JobRun, Part]]:
    """Yield the running jobs that hold GPUs of a pool, each with its part in the pool."""
    for run in runs:
        for part in run.parts:
            if part.pool == room.number:
                yield run, part


def _free_without(view: View, victims: Iterable[JobRun], room: PoolRoom) -> list[int]:
    """Return the GPUs of each host that would be free if jobs left a pool."""
    free = list(view.hosts.free)
    for _, part in _parts_in(victims, room):
        for host, count in part.by_host().items():
            free[host] += count
    return free


def _preemption(view: View, pending: Pending, solution: Solution) -> Preemption:
    """Convert a solution of the preemption instance to jobs and hosts."""
    pool = view.cluster.pools[pending.room.number]
    host_of = {view.cluster.name_of_host[host]: host for host in pool.hosts}
    lost: dict[int, Counter[int]] = defaultdict(Counter)
    for pods in solution.lost_pods:
        run = view.runs[int(pods.gang)]
        lost[run.order][sorted(run.gpus)[pods.group]] += pods.count * run.job.gpus_per_worker
    gpus = Counter[int]()
    for placed in solution.placements:
        gpus[host_of[placed.node]] += placed.count * pending.gpus_per_pod
    return Preemption(
        stopped=[view.runs[int(gang)] for gang in solution.lost_gangs],
        shrunk=[(view.runs[order], dict(by_host)) for order, by_host in lost.items()],
        gpus=dict(gpus),
    )


class EmptiedServers:
    """Chooses whole servers to empty for a waiting gang, with a reclaim solver.

    Parameters
    ----------
    solver
        A reclaim solver that takes rigid instances.
    weighs_lost_work, seed
        See `PreemptionRule`.
    """

    def __init__(
        self, solver: SolverLike, *, weighs_lost_work: bool = False, seed: int = 0
    ) -> None:
        self._rule = ReclaimRule(solver, weighs_lost_work=weighs_lost_work, seed=seed)

    def choose(self, view: View, pending: Pending, victims: Sequence[JobRun]) -> Preemption | None:
        """Return the jobs that give way, and the GPUs of the gang; None if the gang has to wait.

        Only servers without other jobs are emptied, and as few as hold the gang wherever they are.

        Parameters
        ----------
        victims
            The running jobs that may give way.

        Raises
        ------
        DecisionError
            If the solver finds no solution.
        """
        free = _free_without(view, victims, pending.room)
        width, size = pending.gpus_per_pod, view.hosts.size
        hosts = [
            host
            for host in view.cluster.pools[pending.room.number].hosts
            if free[host] == size[host] >= width
        ]
        per_server = min((size[host] // width for host in hosts), default=1)
        count = -(-pending.pods // per_server)
        if count > len(hosts):
            return None
        chosen = self._rule.choose(view, count, hosts, victims)
        found = Preemption([], [], {})
        left = pending.pods
        for host in chosen:
            if pods := min(left, size[host] // width):
                found.gpus[host] = pods * width
                left -= pods
        for run, part in _parts_in(victims, pending.room):
            base, flexible = part.gpus
            if not base.keys().isdisjoint(chosen):
                found.stopped.append(run)
            elif lost := {host: flexible[host] for host in chosen if host in flexible}:
                found.shrunk.append((run, lost))
        return found


def taking_back(
    given: SolverLike, *, weighs_lost_work: bool = False, seed: int = 0
) -> PreemptionRule | EmptiedServers:
    """Return the rule for a preemption solver, or for ``reclaim:SOLVER``.

    Raises
    ------
    UserError
        If there is no such solver, or it solves another problem or variant.
    """
    if isinstance(given, str) and given.startswith(RECLAIMING):
        name = given.removeprefix(RECLAIMING)
        return EmptiedServers(name, weighs_lost_work=weighs_lost_work, seed=seed)
    return PreemptionRule(given, weighs_lost_work=weighs_lost_work, seed=seed)
