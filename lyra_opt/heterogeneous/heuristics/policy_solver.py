"""Register round-based policies by name, and run each as a solver of standalone instances."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

import numpy as np

from lyra_opt.core.errors import require_returned
from lyra_opt.core.plugins import maker_of
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver, Unsupported
from lyra_opt.core.stopwatch import OutOfTimeError, require_time
from lyra_opt.heterogeneous.checker import check, due_steps
from lyra_opt.heterogeneous.heuristics.baselines import AlloX, Tiresias, YarnCs
from lyra_opt.heterogeneous.heuristics.gavel_policies import (
    GavelFifo,
    GavelGandiva,
    gavel_policies,
    gavel_summaries,
)
from lyra_opt.heterogeneous.heuristics.hadar.forking import HadarE
from lyra_opt.heterogeneous.heuristics.hadar.rule import Hadar
from lyra_opt.heterogeneous.heuristics.policy import (
    ACTIVE_IDS,
    NEVER,
    ActiveJob,
    Decision,
    RoundPolicy,
    RoundState,
)
from lyra_opt.heterogeneous.heuristics.priced_progress import PricedProgress
from lyra_opt.heterogeneous.instance import (
    SCHEDULE_OBJECTIVES,
    GangJob,
    Instance,
    Objective,
    RoundEntry,
    RoundSchedule,
)

ROUND_POLICIES: Mapping[str, Callable[[], RoundPolicy]] = {
    "allox": AlloX,
    **gavel_policies(),
    "gavel-fifo": GavelFifo,
    "gavel-gandiva": GavelGandiva,
    "hadar": Hadar,
    "hadare": HadarE,
    "priced-progress": PricedProgress,
    "tiresias": Tiresias,
    "yarn-cs": YarnCs,
}
"""Function that makes a policy for one run, by policy name."""

SUMMARIES: Mapping[str, str] = {
    "allox": "one-GPU jobs matched to positions in GPU queues (AlloX)",
    **gavel_summaries(),
    "gavel-fifo": "jobs in order of arrival, each on its fastest GPU type (Gavel)",
    "gavel-gandiva": "equal shares; if GPUs are scarce, random pairs of jobs share them (Gavel)",
    "hadar": "jobs buy GPUs of any types at exponential prices (Hadar)",
    "hadare": "copies of jobs on many servers at once (HadarE); needs forking",
    "priced-progress": "most progress at market-clearing prices, critical jobs first (ours)",
    "tiresias": "queues by attained service, least service first (Tiresias)",
    "yarn-cs": "jobs in order of arrival, without preemption (YARN-CS)",
}
"""One-line description of each policy in `ROUND_POLICIES`."""


class PolicySchedule(NamedTuple):
    """The schedule that a policy produced for an instance."""

    schedule: RoundSchedule
    """The decisions of the policy."""
    last_round: Mapping[str, int]
    """Round in which each job completed, by id; incomplete jobs are left out."""
    decisions: int
    """Number of decisions."""
    stopped_by: StoppedBy | None = None
    """The limit that stopped the policy."""


class RoundPolicySolver(HeuristicSolver):
    """Solves an instance by running a round-based policy on it.

    In each round the policy sees the released, incomplete jobs and returns their placements. It
    never sees information that a real scheduler would not have at that time. With forking, each
    gang must be on one server; policies therefore see jobs whose rate on several servers is 0. For
    ``round_progress`` there is one decision, and jobs already hold `GangJob.current`.

    Complexity: at most `Instance.horizon_rounds` decisions of the policy, plus O(active jobs) for
    each. The guarantee is that of the policy, if it has one.

    Parameters
    ----------
    policy
        Name of a policy in `ROUND_POLICIES`, or your own policy: a class, a function that makes a
        policy, or an object, of which each run gets a copy.
    """

    problem = "heterogeneous"
    variants = (*sorted(SCHEDULE_OBJECTIVES), Objective.ROUND_PROGRESS)

    def __init__(self, policy: str | RoundPolicy | Callable[[], RoundPolicy]) -> None:
        make = ROUND_POLICIES[policy] if isinstance(policy, str) else maker_of(policy)
        self._make: Callable[[], RoundPolicy] = make
        self.name = policy if isinstance(policy, str) else make().name

    @property
    def summary(self) -> str:
        """One-line description of the policy, or the text for unregistered policies."""
        said = SUMMARIES.get(self.name, super().summary)
        return said[:1].upper() + said[1:]

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the policy cannot solve the instance; None if it can."""
        policy = self._make()
        if policy.forks and not instance.forking:
            return Unsupported(
                f"{self.name} supports instances with forking only; this instance has no forking"
            )
        if not policy.takes_gangs and any(job.gang > 1 for job in instance.jobs):
            return Unsupported(
                f"{self.name} supports one-GPU jobs only; this instance has larger gangs"
            )
        return super().supports(instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[RoundSchedule]:
        """Run the policy on the instance."""
        return result_of(instance, run_policy(self._make(), instance, rng))

    def stopped(self, instance: Instance) -> SolveResult[RoundSchedule]:
        """Return the result of a stopped run.

        It is the empty schedule if the objective is maximised, and otherwise no solution.
        """
        if instance.variant.sense == "min":
            return super().stopped(instance)
        nothing = PolicySchedule(
            RoundSchedule(()), last_round={}, decisions=0, stopped_by=StoppedBy.TIME
        )
        return result_of(instance, nothing)


def run_policy(
    policy: RoundPolicy,
    instance: Instance,
    rng: np.random.Generator,
    on_round: Callable[[int, RoundState, Decision], None] | None = None,
) -> PolicySchedule:
    """Run a policy round by round and record its decisions.

    Parameters
    ----------
    policy
        A new policy object.
    instance
        An instance whose objective is solved by schedules.
    rng
        Random generator for the policy.
    on_round
        Called each round with the round number, the state that the policy saw and its decision.

    Raises
    ------
    OutOfTimeError
        If time runs out and the objective is minimised, so that all jobs must complete. If the
        objective is maximised, the decisions made so far are returned.
    """
    state = RoundState(
        gpu_types=instance.gpu_types,
        servers=instance.servers,
        now_s=0.0,
        round_s=instance.round_s,
        horizon_s=instance.horizon_s,
    )
    policy.prepare(state, rng)
    servers = {server.id for server in instance.servers}
    arrivals = sorted(
        (instance.first_round(job), position) for position, job in enumerate(instance.jobs)
    )
    entries: list[RoundEntry] = []
    last_round: dict[str, int] = {}
    done = {job.id: Fraction(0) for job in instance.jobs}
    arrived = decisions = 0
    stopped_by = None
    for number in range(instance.horizon_rounds):
        state.now_s = number * instance.round_s
        while arrived < len(arrivals) and arrivals[arrived][0] <= number:
            job = instance.jobs[arrivals[arrived][1]]
            if instance.forking:
                job = replace(job, spread_throughput=dict.fromkeys(job.throughput, 0.0))
            state.jobs.append(_arrived(job, arrived, is_first_round=number == 0))
            state.is_changed = True
            arrived += 1
        if not state.jobs:
            if arrived == len(arrivals):
                break
            continue
        try:
            require_time()
            decision = policy.decide(state)
            jobs = {active.job.id for active in state.jobs}
            require_returned(policy.decide, decision, jobs, ACTIVE_IDS)
            for each in chain.from_iterable(decision.values()):
                require_returned(policy.decide, each, servers, "ids of servers, not positions")
        except OutOfTimeError:
            if instance.variant.sense == "min":
                raise
            stopped_by = StoppedBy.TIME
            break
        decisions += 1
        if on_round is not None:
            on_round(number, state, decision)
        entries += (
            RoundEntry(job=active.job.id, round=number, gpus=placement)
            for active in state.jobs
            for placement in decision.get(active.job.id, ())
        )
        completed = _run_round(state, decision, done)
        last_round |= dict.fromkeys(completed, number)
        state.is_changed = bool(completed)
    return PolicySchedule(
        schedule=RoundSchedule(tuple(entries)),
        last_round=last_round,
        decisions=decisions,
        stopped_by=stopped_by,
    )


def _arrived(job: GangJob, order: int, *, is_first_round: bool) -> ActiveJob:
    # A job counts as waiting if it is not released or cannot run on its current GPUs.
    is_running = is_first_round and bool(job.current) and job.rate_of(job.current) > 0
    placement = {server: dict(types) for server, types in job.current.items()}
    return ActiveJob(
        job=job,
        order=order,
        steps_left=job.steps,
        submitted_s=job.release_s,
        waiting_since_s=NEVER if is_running else job.release_s,
        started_s=0.0 if is_running else NEVER,
        placements=(placement,) if is_running else (),
    )


def _run_round(state: RoundState, decision: Decision, done: dict[str, Fraction]) -> list[str]:
    """Advance the state by one round and return the ids of the completed jobs.

    Steps are summed exactly, as in the checker, so both agree on when a job completes.
    """
    completed = []
    still = []
    for active in state.jobs:
        job = active.job
        placements = decision.get(job.id, ())
        if placements:
            rate = sum(Fraction(job.rate_of(placement)) for placement in placements)
            done[job.id] += rate * Fraction(state.round_s)
            active.attained_gpu_s += state.round_s * job.gang * len(placements)
            active.executed_s += state.round_s
            active.waiting_since_s = NEVER
            if active.started_s == NEVER:
                active.started_s = state.now_s
            if done[job.id] >= due_steps(job):
                completed.append(job.id)
                continue
            active.steps_left = float(Fraction(job.steps) - done[job.id])
        elif active.waiting_since_s == NEVER:
            active.waiting_since_s = state.now_s
        active.placements = tuple(placements)
        still.append(active)
    state.jobs = still
    return completed


def result_of(
    instance: Instance,
    found: PolicySchedule,
    *,
    dual_bound: float | None = None,
    counters: Mapping[str, int] | None = None,
    message: str | None = None,
    stopped_by: StoppedBy | None = None,
) -> SolveResult[RoundSchedule]:
    """Return the `SolveResult` for a schedule produced by a policy."""
    report = check(instance, found.schedule)
    objective = report.objective
    if objective is None:
        missing = len(instance.jobs) - len(found.last_round)
        assert missing, f"policies keep all rules: {report.violations}"
        message = f"{missing} of {len(instance.jobs)} jobs do not complete within the horizon"
    return SolveResult(
        status=Status.UNKNOWN if objective is None else Status.FEASIBLE,
        stopped_by=found.stopped_by or stopped_by,
        solution=None if objective is None else found.schedule,
        objective=objective,
        dual_bound=dual_bound,
        counters={"decisions": found.decisions, **(counters or {})},
        message=message,
    )


SOLVERS = tuple(RoundPolicySolver(name) for name in ROUND_POLICIES if name != "hadar")
"""A solver for each policy except Hadar, whose solver also gives a bound."""
