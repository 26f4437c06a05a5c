"""Solve the decisions of a running simulation as instances, with the ordinary solvers.

Each decision becomes an instance of `lyra_opt.reclaim` or `lyra_opt.allocation`, as a user could
store it in a file, and a solver object answers it. Observers can capture the instances.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from lyra_opt.allocation.heuristics.policy_solver import StepPolicy
from lyra_opt.allocation.instance import ElasticJob, Objective
from lyra_opt.allocation.instance import Instance as AllocationInstance
from lyra_opt.allocation.knapsack.of_instance import JobArrays
from lyra_opt.allocation.knapsack.unique_choice import unique_choice
from lyra_opt.allocation.schedules.evaluator import FluidState
from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Limits
from lyra_opt.core.seeding import derive_seed
from lyra_opt.core.solver import Solver, SolverLike, find_solver, is_built_in
from lyra_opt.reclaim.heuristics.base import QuickChoice
from lyra_opt.reclaim.instance import Instance as ReclaimInstance
from lyra_opt.reclaim.instance import Job, Semantics, Server, WorkerGroup
from lyra_opt.simulation.goodput.tuning import JobTuning
from lyra_opt.simulation.hosts import Group
from lyra_opt.simulation.job_run import JobRun, added
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.view import View

LONGEST_DECISION_S = 10.0
"""Time limit, in seconds, of a solver for one decision; then its incumbent is used."""


LEAST_WORK_WORKER_S = 1e-6
"""Least remaining work of a job in an instance, which must be above 0. A job with less completes at
the next event anyway.
"""


class DecisionError(Exception):
    """A solver found no solution for a decision of the simulation."""


class ReclaimRule:
    """Chooses which servers on loan to give back, by means of a reclaim solver.

    Parameters
    ----------
    solver
        A reclaim solver that takes rigid instances.
    weighs_lost_work
        Whether a preemption counts as the GPU-seconds that it loses, rather than as 1 as in Lyra.
    seed
        Random seed for solvers that use random numbers.
    """

    def __init__(
        self, solver: SolverLike, *, weighs_lost_work: bool = False, seed: int = 0
    ) -> None:
        self._solver = solver_of("reclaim", Semantics.RIGID, solver)
        self._weighs_lost_work = weighs_lost_work
        self._rng = np.random.default_rng(
            derive_seed(simulation="reclaim", solver=self._solver.name, seed=seed)
        )

    def choose(
        self, view: View, count: int, hosts: Sequence[int], runs: Sequence[JobRun]
    ) -> list[int]:
        """Return the `count` hosts that should be vacated.

        Parameters
        ----------
        hosts, runs
            The hosts among which to choose, and the jobs that may be stopped.

        Raises
        ------
        DecisionError
            If the solver finds no solution.
        """
        for run in runs:
            view.account(run)
        solver = self._solver
        if isinstance(solver, QuickChoice) and is_built_in(solver) and not view.captures("reclaim"):
            in_use = {host for run in runs for part in run.parts for host in part.gpus[Group.BASE]}
            idle = [place for place, host in enumerate(hosts) if host not in in_use]
            if len(idle) >= count:
                places = solver.quick_choice(len(hosts), idle, count, self._rng)
                return [hosts[place] for place in sorted(places)]
        instance = reclaim_instance(
            view, count, hosts, runs, weighs_lost_work=self._weighs_lost_work
        )
        view.observed("reclaim", instance)
        result = self._solver.solve(
            instance, limits=Limits(time_s=LONGEST_DECISION_S), rng=self._rng
        )
        if result.solution is None:
            raise DecisionError(f"{self._solver.name} chose no servers: {result.message}")
        host_of = dict(zip((server.id for server in instance.servers), hosts, strict=True))
        chosen = [host_of[server] for server in result.solution.servers]
        if len(set(chosen)) != count:
            raise DecisionError(
                f"{self._solver.name} had to choose {count} different servers, but chose "
                f"{len(set(chosen))}"
            )
        return chosen


def reclaim_instance(
    view: View,
    count: int,
    hosts: Sequence[int],
    runs: Sequence[JobRun],
    *,
    weighs_lost_work: bool = False,
) -> ReclaimInstance:
    """Return the reclaim instance of choosing `count` of some hosts to vacate now.

    Parameters
    ----------
    hosts, runs
        The hosts, and the jobs that run on them, accounted for until now.
    weighs_lost_work
        Whether a preemption counts as the GPU-seconds that it loses, rather than as 1.
    """
    name_of, size = view.cluster.name_of_host, view.hosts.size
    among = set(hosts)
    jobs = []
    for run in runs:
        gpus_per_worker = run.job.gpus_per_worker
        base, flexible = (
            {
                host: gpus
                for host, gpus in added(part.gpus[group] for part in run.parts).items()
                if host in among
            }
            for group in Group
        )
        weight = 1 + int(view.lost_gpu_s(run)) if weighs_lost_work else 1
        groups = (
            (
                name_of[host],
                base.get(host, 0) // gpus_per_worker,
                flexible.get(host, 0) // gpus_per_worker,
            )
            for host in sorted(base.keys() | flexible.keys())
        )
        jobs.append(_job(run.order, weight, gpus_per_worker, *groups))
    return ReclaimInstance(
        name=f"reclaim-at-{view.now_s:.0f}-s",
        semantics=Semantics.RIGID,
        reclaim_servers=count,
        servers=tuple(_server(name_of[host], size[host]) for host in hosts),
        jobs=tuple(jobs),
    )


# Servers and jobs recur in most reclaims of a simulation. Checking their fields anew took two
# thirds of the time to make an instance.
@lru_cache(maxsize=2**13)
def _server(name: str, gpus: int) -> Server:
    return Server(id=name, gpus=gpus)


@lru_cache(maxsize=2**13)
def _job(order: int, weight: int, gpus_per_worker: int, *groups: tuple[str, int, int]) -> Job:
    return Job(
        id=str(order),
        workers=tuple(_group(*group) for group in groups),
        weight=weight,
        gpus_per_worker=gpus_per_worker,
    )


@lru_cache(maxsize=2**13)
def _group(server: str, base: int, flexible: int) -> WorkerGroup:
    return WorkerGroup(server=server, base=base, flexible=flexible)


class ScalingRule(ABC):
    """Decides how many workers beyond their base demand the running elastic jobs get."""

    tuned: JobTuning | None = None
    """Speed model of jobs that the rule tunes; None for jobs that run as their users set them
    up.
    """

    @abstractmethod
    def extra_workers(
        self, view: View, runs: Sequence[JobRun], free_gpus: int, *, name: str
    ) -> list[int]:
        """Return how many workers above its base demand each job gets.

        Parameters
        ----------
        runs
            Running elastic jobs of one pool, in the order of the workload, accounted for until now.
        free_gpus
            GPUs beyond the base demands, counted as reference GPUs.
        name
            Name of the instance, if the rule builds one.
        """


class KnapsackScaling(ScalingRule):
    """Sizes elastic jobs as in Lyra's phase 2: a knapsack maximises the reduction of JCTs.

    Source: Lyra (EuroSys 2023), section 5.2. Values use the remaining work, which the paper leaves
    open.
    """

    def __init__(self, solver: SolverLike) -> None:
        self._solver = solver_of("allocation", Objective.JCT_REDUCTION, solver)
        is_exact = Objective.JCT_REDUCTION in self._solver.exact_variants
        self._proves = is_exact and is_built_in(self._solver)
        self._jobs = _ElasticJobs()

    def extra_workers(
        self, view: View, runs: Sequence[JobRun], free_gpus: int, *, name: str
    ) -> list[int]:
        """Return each job's workers above its base demand; raise `DecisionError` if unsolved."""
        every_worker_helps = all(run.job.scaling_loss < 1 for run in runs)
        if every_worker_helps and _is_enough(view, runs, free_gpus):
            return [run.job.max_workers - run.job.min_workers for run in runs]
        # Making an instance and solving it takes 30 times as long.
        if self._proves and not view.captures("allocation"):
            chosen = _unique_choice(view.speed, runs, free_gpus)
            if chosen is not None:
                return chosen
        instance = AllocationInstance(
            name=name,
            objective=Objective.JCT_REDUCTION,
            gpus=free_gpus,
            jobs=tuple(self._jobs.of(view.speed, run) for run in runs),
        )
        view.observed("allocation", instance)
        result = self._solver.solve(
            instance, limits=Limits(time_s=LONGEST_DECISION_S), rng=np.random.default_rng(0)
        )
        if result.solution is None:
            raise DecisionError(f"{self._solver.name} found no allocation: {result.message}")
        return [
            workers - run.job.min_workers
            for workers, run in zip(result.solution.workers, runs, strict=True)
        ]


class PolicyScaling(ScalingRule):
    """Lets an allocation policy decide how many workers the running jobs get.

    Parameters
    ----------
    policy
        An allocation policy whose decisions depend only on the current state.
    """

    def __init__(self, policy: SolverLike) -> None:
        solver = find_solver("allocation", policy)
        if not isinstance(solver, StepPolicy):
            raise UserError(
                f"scaling: {solver.name!r} must be a policy that makes one decision per step"
            )
        self._policy = solver
        self._jobs = _ElasticJobs(running=True)

    def extra_workers(
        self, view: View, runs: Sequence[JobRun], free_gpus: int, *, name: str
    ) -> list[int]:
        """Return how many workers above its base demand the policy allocates to each job."""
        if self._policy.leaves_no_wish and _is_enough(view, runs, free_gpus):
            return [run.job.max_workers - run.job.min_workers for run in runs]
        instance = AllocationInstance(
            name=name,
            objective=Objective.MEAN_JCT,
            gpus=free_gpus + sum(run.job.min_gpus for run in runs),
            jobs=tuple(self._jobs.of(view.speed, run) for run in runs),
        )
        view.observed("allocation", instance)
        state = FluidState(instance, logs=False)
        self._policy.prepare(state)
        state.advance()
        self._policy.decide(state)
        return [state.target(job) - run.job.min_workers for job, run in enumerate(runs)]


def _is_enough(view: View, runs: Sequence[JobRun], free_gpus: int) -> bool:
    """Return whether the GPUs suffice for all workers of every job, and no observer captures."""
    wanted = 0
    for run in runs:
        job = run.job
        wanted += (job.max_workers - job.min_workers) * job.gpus_per_worker
    return wanted <= free_gpus and not view.captures("allocation")


def _left_worker_s(speed: Speed, run: JobRun) -> float:
    """Return the believed remaining work of a job, which instances require to be above 0."""
    return max(speed.believed_left_worker_s(run), LEAST_WORK_WORKER_S)


def _unique_choice(speed: Speed, runs: Sequence[JobRun], gpus: int) -> list[int] | None:
    """Return the extra workers of jobs if only one choice is optimal; None if unknown."""
    jobs = [run.job for run in runs]
    arrays = JobArrays(
        np.array([_left_worker_s(speed, run) for run in runs]),
        np.array([job.min_workers for job in jobs]),
        np.array([job.max_workers for job in jobs]),
        np.array([job.gpus_per_worker for job in jobs]),
        np.array([1.0 - job.scaling_loss for job in jobs]),
        np.zeros(len(jobs), dtype=np.bool_),
    )
    chosen = unique_choice(arrays, gpus)
    return None if chosen is None else chosen.tolist()


def scaling_rule(scaling: SolverLike) -> ScalingRule:
    """Return the scaling rule for ``knapsack:SOLVER``, ``policy:POLICY`` or a solver object.

    Raises
    ------
    UserError
        If there is no such solver, or it solves another problem or variant.
    """
    if isinstance(scaling, str):
        kind, _, name = scaling.partition(":")
        if kind in _SCALINGS:
            return _SCALINGS[kind](name)
    solver = find_solver("allocation", scaling)
    return PolicyScaling(solver) if isinstance(solver, StepPolicy) else KnapsackScaling(solver)


_SCALINGS: Mapping[str, Callable[[SolverLike], ScalingRule]] = {
    "knapsack": KnapsackScaling,
    "policy": PolicyScaling,
}


def solver_of(problem: str, variant: str, given: SolverLike) -> Solver:
    """Return a solver of a problem; raise `UserError` if it does not solve the given variant."""
    solver = find_solver(problem, given)
    if variant not in solver.variants:
        takes = " and ".join(map(str, solver.variants))
        raise UserError(
            f"{problem} solver {solver.name!r} solves {takes} instances, but a simulation needs "
            f"{variant} instances"
        )
    return solver


class _ElasticJobs:
    """Converts running jobs to the jobs of allocation instances; caches fields other than work."""

    def __init__(self, *, running: bool = False) -> None:
        self._running = running
        self._known: dict[int, ElasticJob] = {}

    def of(self, speed: Speed, run: JobRun) -> ElasticJob:
        work_worker_s = _left_worker_s(speed, run)
        known = self._known.get(run.order)
        if known is not None:
            return known.with_work(work_worker_s)
        job = run.job
        self._known[run.order] = made = ElasticJob(
            id=str(run.order),
            min_workers=job.min_workers,
            max_workers=job.max_workers,
            work_worker_s=work_worker_s,
            gpus_per_worker=job.gpus_per_worker,
            running=self._running,
            scaling_loss=job.scaling_loss,
        )
        return made
