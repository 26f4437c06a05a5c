"""Gavel: shares of time from a linear programme, and rounds that come near them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lyra_opt.core.stopwatch import require_time
from lyra_opt.core.validation import require_number
from lyra_opt.heterogeneous.heuristics.placing import place_on_type
from lyra_opt.heterogeneous.heuristics.policy import FreeGpus, Plan, RoundPolicy
from lyra_opt.heterogeneous.instance import Objective, TimeShares
from lyra_opt.heterogeneous.utility import Deadline, InverseJct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, RoundState
    from lyra_opt.heterogeneous.instance import GangJob, Instance

    Shares = Mapping[str, Mapping[str, float]]
    """By job and type."""

NAMES = {
    Objective.MAX_MIN_SHARE: "gavel-las",
    Objective.FINISH_TIME_FAIRNESS: "gavel-ftf",
    Objective.THROUGHPUT: "gavel-throughput",
    Objective.COST: "gavel-cost",
    Objective.MAKESPAN: "gavel-makespan",
}

LEAST_RESET_S = 1_920.0
SHARE_SOLVER = "lp-highs"


def solver_shares(instance: Instance, solver: str = SHARE_SOLVER) -> Shares | None:
    """Return the best shares of a share instance, None if there are none.

    Parameters
    ----------
    instance
        With an objective whose answer is shares.
    solver
        The name of the solver, found through its entry point.

    Raises
    ------
    RuntimeError
        If the solver returns neither shares nor a proof that there are none.
    """
    import numpy as np

    from lyra_opt.core.result import Limits, Status
    from lyra_opt.core.solver import find_solver

    result = find_solver("heterogeneous", solver).solve(
        instance, limits=Limits(), rng=np.random.default_rng(0)
    )
    require_time()  # what a stopped solver returns is not the best
    is_undecided = result.solution is None and instance.objective is Objective.COST
    if result.status is Status.INFEASIBLE or is_undecided:
        # Deadlines that cannot be kept, or only within tolerances.
        return None
    if not isinstance(result.solution, TimeShares):
        raise RuntimeError(f"{solver} on {instance.name}: {result.status}, {result.message}")
    return result.solution.shares


@dataclass(slots=True)
class _Isolated:
    """How long a job would have been there on an equal part of the cluster.

    Parameters
    ----------
    steps_left
        As the last round began.
    steps_per_s
        On that part, as it was then.
    elapsed_s
        So far.
    """

    steps_left: float
    steps_per_s: float
    elapsed_s: float


class GavelRounds(RoundPolicy):
    """Runs each job on each type for about the share of time that a linear programme gives it.

    Source: Gavel (OSDI 2020), the round mechanism of its code (stanford-futuredata/gavel); that
    jobs of priority 0 fill what others leave, and that a round counts once for a job whatever its
    gang, is from memory. Shares are computed anew when a job has been submitted or completed, but
    at most every 1920 s; jobs that come in between have none until then. The priority of a job on
    a type is X / f: X its share, f its part of the time that all jobs have had on the type since
    the shares were computed, where each job begins with half a round. In each round and for each
    type in turn, jobs go by priority, then deficit (share times time less time had, summed up over
    the periods before), then X, then order; a job that does not run yet and whose gang fits runs.
    Then, largest gangs first, jobs get the GPUs that they had if these are free, and else GPUs on
    as few servers as possible; the code fills servers in order, which splits more gangs.

    The rates of the programme are those of a gang on one server, or on several where none holds it.
    GPUs that were chosen for gangs which the servers left cannot hold go to others.

    A job runs on one type at a time, so one that no single type can hold never runs.

    Complexity of a decision: O(types jobs log jobs + jobs servers log servers), and the linear
    programme. Guarantee: none for gangs; where one-GPU jobs fill one type in every round, the time
    that jobs have had tends to their shares.

    Parameters
    ----------
    objective
        What the shares are best for; `Objective.MAKESPAN` for the least time in which all would
        complete at a constant speed.
    shares
        Returns the best shares of an instance, None if there are none.
    least_reset_s
        How long shares are kept at least.
    """

    def __init__(
        self,
        objective: Objective,
        shares: Callable[[Instance], Shares | None] = solver_shares,
        least_reset_s: float = LEAST_RESET_S,
    ) -> None:
        self.name = NAMES[objective]
        self._objective = objective
        self._solve = shares
        self._least_reset_s = require_number("least_reset_s", least_reset_s, minimum=0)
        self._shares: dict[str, dict[str, float]] = {}
        self._deficits: dict[tuple[str, str], float] = {}
        self._received_s: dict[tuple[str, str], float] = {}
        self._of_type_s: dict[str, float] = {}
        self._isolated: dict[str, _Isolated] = {}
        self._jobs: dict[str, GangJob] = {}
        self._reset_s: float | None = None
        self._is_stale = True

    @property
    def shares(self) -> Shares:
        """The shares that rounds come near now, by job and type."""
        return self._shares

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Keep the size of the cluster."""
        self._jobs = {}
        self._types = [gpu_type.name for gpu_type in state.gpu_types]
        self._there = FreeGpus(state.servers).of_type
        self._largest = {
            name: max(server.gpus.get(name, 0) for server in state.servers) for name in self._types
        }

    def decide(self, state: RoundState) -> Decision:
        """Return the jobs that are furthest behind their shares."""
        self._is_stale = self._is_stale or state.is_changed
        is_due = self._reset_s is None or state.now_s - self._reset_s >= self._least_reset_s
        if self._objective is Objective.FINISH_TIME_FAIRNESS:
            self._count_isolated(state)
        if self._is_stale and is_due:
            self._reset(state)
        decision = self._place(self._chosen_types(state), state)
        for active in state.jobs:
            if active.job.id in decision:
                placement = decision[active.job.id][0]
                name = next(iter(next(iter(placement.values()))))
                self._count(active.job.id, name, state.round_s)
        return decision

    def _chosen_types(self, state: RoundState) -> dict[str, str]:
        """Return who runs on which type."""
        free = dict(self._there)
        chosen: dict[str, str] = {}
        for name in self._types:
            ranked = sorted(state.jobs, key=partial(self._rank, name))
            for active in ranked:
                job = active.job
                if job.id in chosen or job.gang > free.get(name, 0):
                    continue
                if not self._attainable(job).throughput.get(name):
                    continue
                chosen[job.id] = name
                free[name] -= job.gang
        return chosen

    def _rank(self, gpu_type: str, active: ActiveJob) -> tuple[float, float, float, int]:
        """Return what jobs are sorted by on a type, first ones least."""
        key = active.job.id, gpu_type
        share = self._shares.get(active.job.id, {}).get(gpu_type, 0.0)
        received_s = self._received_s.get(key, 0.0)
        priority = 0.0
        if share > 0:
            # Never 0: half a round is credited when shares are computed.
            priority = share * self._of_type_s[gpu_type] / received_s
        return -priority, -self._deficits.get(key, 0.0), -share, active.order

    def _place(self, chosen: Mapping[str, str], state: RoundState) -> Decision:
        """Return where the chosen jobs run, largest gangs first, where they were if possible."""
        plan = Plan(state.servers)
        jobs = [active for active in state.jobs if active.job.id in chosen]
        for gang in sorted({active.job.gang for active in jobs}, reverse=True):
            moved = []
            for active in jobs:
                if active.job.gang != gang:
                    continue
                if self._stays(active, chosen[active.job.id], plan.free):
                    plan.give(active.job, active.placements[0])
                else:
                    moved.append(active.job)
            for job in moved:
                plan.give(job, place_on_type(plan.free, job, chosen[job.id]))
        self._fill(plan, state)
        return plan.decision

    def _fill(self, plan: Plan, state: RoundState) -> None:
        """Let others have GPUs that were kept for gangs which the servers left cannot hold."""
        for name in self._types:
            waiting = [active for active in state.jobs if active.job.id not in plan.decision]
            for active in sorted(waiting, key=partial(self._rank, name)):
                if not plan.free.of_type.get(name, 0):
                    break
                plan.give(active.job, place_on_type(plan.free, active.job, name))

    def _attainable(self, job: GangJob) -> GangJob:
        """Return the job with the rates of `at_attainable_rates`, made once."""
        if job.id not in self._jobs:
            self._jobs[job.id] = at_attainable_rates(job, self._largest)
        return self._jobs[job.id]

    def _stays(self, active: ActiveJob, gpu_type: str, free: FreeGpus) -> bool:
        if not active.placements:
            return False
        placement = active.placements[0]
        is_same = all(set(types) == {gpu_type} for types in placement.values())
        return is_same and free.holds(placement)

    def _count(self, job: str, gpu_type: str, time_s: float) -> None:
        key = job, gpu_type
        self._received_s[key] = self._received_s.get(key, 0.0) + time_s
        self._of_type_s[gpu_type] = self._of_type_s.get(gpu_type, 0.0) + time_s

    def _reset(self, state: RoundState) -> None:
        """Compute shares anew, and carry over what jobs were short of."""
        half_s = state.round_s / 2
        if self._reset_s is not None:
            elapsed_s = state.now_s - self._reset_s
            for job, of_types in self._shares.items():
                for name in self._types:
                    key = job, name
                    had_s = self._received_s.get(key, half_s) - half_s
                    short_s = of_types.get(name, 0.0) * elapsed_s - had_s
                    self._deficits[key] = self._deficits.get(key, 0.0) + short_s
        self._shares = self._best_shares(state)
        self._received_s = {}
        self._of_type_s = {}
        for active in state.jobs:
            for name in self._types:
                self._count(active.job.id, name, half_s)
        self._reset_s = state.now_s
        self._is_stale = False

    def _best_shares(self, state: RoundState) -> dict[str, dict[str, float]]:
        """Return the best shares of the jobs that some single type can hold."""
        usable = [
            replace(active, job=self._attainable(active.job))
            for active in state.jobs
            if self._has_share(self._attainable(active.job))
        ]
        if not usable:
            return {}
        instance = share_instance(replace(state, jobs=usable), self._objective)
        if self._objective is Objective.FINISH_TIME_FAIRNESS:
            jobs = tuple(
                replace(job, isolated_elapsed_s=self._isolated[job.id].elapsed_s)
                for job in instance.jobs
            )
            instance = replace(instance, jobs=jobs)
        shares = self._solve(instance)
        if shares is None:
            # Deadlines that cannot all be kept are all given up, as Gavel does.
            jobs = tuple(replace(job, utility=InverseJct()) for job in instance.jobs)
            shares = self._solve(replace(instance, jobs=jobs))
        return {job: dict(of_types) for job, of_types in (shares or {}).items()}

    def _has_share(self, job: GangJob) -> bool:
        return any(
            job.throughput.get(name, 0.0) > 0 and job.gang <= there
            for name, there in self._there.items()
        )

    def _count_isolated(self, state: RoundState) -> None:
        """Add to each job's virtual time what its steps since the last round would have taken."""
        jobs = len(state.jobs)
        for active in state.jobs:
            job = self._attainable(active.job)
            known = self._isolated.get(job.id)
            speed = isolated_rate(job, self._there, jobs)
            if known is None:
                known = _Isolated(active.steps_left, speed, job.isolated_elapsed_s)
                self._isolated[job.id] = known
            elif known.steps_per_s > 0:
                known.elapsed_s += (known.steps_left - active.steps_left) / known.steps_per_s
            known.steps_left = active.steps_left
            known.steps_per_s = speed


def at_attainable_rates(job: GangJob, largest: Mapping[str, int]) -> GangJob:
    """Return a job with the rates that it has where its gang is on as few servers as can be.

    Shares of time know one rate a type; with that of a single server a gang that no server holds
    would be promised many times what it can get.

    Parameters
    ----------
    largest
        By type, the most GPUs of it that one server has.
    """
    rates = {name: job.rate((name,), is_spread=job.gang > there) for name, there in largest.items()}
    return replace(job, throughput=rates) if any(rates.values()) else job


def share_instance(state: RoundState, objective: Objective) -> Instance:
    """Return the share instance whose best shares Gavel runs the active jobs by.

    The makespan on shares is the least T with thr_j >= steps_j / T for all j, so its shares are
    those of the greatest least thr_j / steps_j. That is ``max_min_share``, the least
    gang_j / weight_j thr_j / thr_j(x_eq), at weight_j = gang_j steps_j / thr_j(x_eq).
    """
    if objective is not Objective.MAKESPAN:
        instance = state.instance(objective, name=NAMES[objective])
        if objective is Objective.COST:
            return replace(instance, jobs=tuple(map(_without_late_deadline, instance.jobs)))
        return instance
    instance = state.instance(Objective.MAX_MIN_SHARE, name=NAMES[objective])
    there = instance.gpus_of_type
    jobs = tuple(
        replace(job, weight=job.gang * job.steps / _equal_rate(job, there)) for job in instance.jobs
    )
    return replace(instance, jobs=jobs)


def isolated_rate(job: GangJob, gpus_of_type: Mapping[str, int], jobs: int) -> float:
    """Return the steps a second of a job on its equal part of the cluster (Gavel's X_iso)."""
    parts = [(name, there / (jobs * job.gang)) for name, there in gpus_of_type.items()]
    total = max(1.0, sum(part for _, part in parts))
    return sum(
        job.throughput.get(name, 0.0) * part / total
        for name, part in parts
        if job.gang <= gpus_of_type[name]
    )


def _equal_rate(job: GangJob, gpus_of_type: Mapping[str, int]) -> float:
    """Return the steps a second of a job at Gavel's X_eq, types that cannot hold it left out."""
    gpus = sum(gpus_of_type.values())
    usable = [name for name, there in gpus_of_type.items() if job.gang <= there]
    return sum(job.throughput.get(name, 0.0) * gpus_of_type[name] / gpus for name in usable)


def _without_late_deadline(job: GangJob) -> GangJob:
    """Return the job, without its deadline if that is over."""
    is_over = isinstance(job.utility, Deadline) and job.utility.deadline_s <= job.elapsed_s
    return replace(job, utility=InverseJct()) if is_over else job


def gavel_policies() -> dict[str, Callable[[], GavelRounds]]:
    """Return what makes each of Gavel's policies, by name."""
    return {name: partial(GavelRounds, objective) for objective, name in NAMES.items()}


AIMS = {
    Objective.MAX_MIN_SHARE: "the least normalised throughput greatest",
    Objective.FINISH_TIME_FAIRNESS: "the worst ratio to an equal part's finish time least",
    Objective.THROUGHPUT: "most steps a second",
    Objective.COST: "most steps a second for the money, deadlines kept",
    Objective.MAKESPAN: "all done soonest",
}


def gavel_summaries() -> dict[str, str]:
    """Return one line on each of Gavel's policies, by name."""
    return {
        NAMES[objective]: f"rounds near the shares with {aim} (Gavel)"
        for objective, aim in AIMS.items()
    }
