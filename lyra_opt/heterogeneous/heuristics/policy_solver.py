"""Round policies by name, and each as a solver: what its decisions make of an instance."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

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
from lyra_opt.heterogeneous.heuristics.policy import ACTIVE_IDS, NEVER, ActiveJob, RoundState
from lyra_opt.heterogeneous.heuristics.priced_progress import PricedProgress
from lyra_opt.heterogeneous.instance import (
    SCHEDULE_OBJECTIVES,
    GangJob,
    Instance,
    Objective,
    RoundEntry,
    RoundSchedule,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundPolicy


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
"""Name to what makes a policy for one run."""

SUMMARIES: Mapping[str, str] = {
    "allox": "one-GPU jobs matched to places in the GPUs' queues (AlloX)",
    **gavel_summaries(),
    "gavel-fifo": "first come, first served, each on its fastest type (Gavel)",
    "gavel-gandiva": "equal parts for all; pairs drawn to share GPUs if these are short (Gavel)",
    "hadar": "jobs buy GPUs of any kinds at exponential prices (Hadar)",
    "hadare": "copies of jobs on all servers at once (HadarE); with forking only",
    "priced-progress": "most progress at prices that clear the market, critical jobs first (ours)",
    "tiresias": "those who have had little service first, in queues (Tiresias)",
    "yarn-cs": "first come, first served, never interrupted (YARN-CS)",
}
"""One line on each policy of `ROUND_POLICIES`."""


class PolicySchedule(NamedTuple):
    """What a policy did."""

    schedule: RoundSchedule
    """Its decisions."""
    last_round: Mapping[str, int]
    """By whose end each job has completed, by id; those that have not are left out."""
    decisions: int
    """How many it took."""
    stopped_by: StoppedBy | None = None
    """The limit that ended it."""


class RoundPolicySolver(HeuristicSolver):
    """Runs a round policy over an instance.

    Each round the policy sees the jobs that are released and not complete and says where they
    run; nothing is asked of it that a scheduler would not know then. With forking each gang,
    copy or not, has to be on one server: policies see jobs that run at speed 0 on several. For
    ``round_progress`` there is one decision, and jobs have had the placement `GangJob.current`
    before it.

    Complexity: that of the policy's decision, at most `Instance.horizon_rounds`
    times, plus O(active jobs) for each. It has the guarantee of the policy, if that has one.

    Parameters
    ----------
    policy
        Name of one in `ROUND_POLICIES`; or a policy of your own: a class, a function that makes
        one, or an object, of which each run has a copy.
    """

    problem = "heterogeneous"
    variants = (*sorted(SCHEDULE_OBJECTIVES), Objective.ROUND_PROGRESS)

    def __init__(self, policy: str | RoundPolicy | Callable[[], RoundPolicy]) -> None:
        make = ROUND_POLICIES[policy] if isinstance(policy, str) else maker_of(policy)
        self._make: Callable[[], RoundPolicy] = make
        self.name = policy if isinstance(policy, str) else make().name

    @property
    def summary(self) -> str:
        """What the policy does, where that is said; else as of every solver."""
        said = SUMMARIES.get(self.name, super().summary)
        return said[:1].upper() + said[1:]

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the policy cannot answer the instance, None if it can."""
        policy = self._make()
        if policy.forks and not instance.forking:
            return Unsupported(f"{self.name} runs copies of jobs; the instance has no forking")
        if not policy.takes_gangs and any(job.gang > 1 for job in instance.jobs):
            return Unsupported(f"{self.name} takes jobs of one GPU alone")
        return super().supports(instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[RoundSchedule]:
        """Run the policy."""
        return result_of(instance, run_policy(self._make(), instance, rng))

    def stopped(self, instance: Instance) -> SolveResult[RoundSchedule]:
        """Return that nobody runs, where that is an answer."""
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
    """Ask a policy round by round, and keep what it decides.

    Parameters
    ----------
    policy
        A fresh one.
    instance
        With an objective whose answer is a schedule.
    rng
        For the policy.
    on_round
        Called with the round, what the policy saw and what it decided.

    Raises
    ------
    OutOfTimeError
        If the time limit in force ends before the rounds do, and all jobs must be completed; else
        what was decided by then is an answer too.
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
    # GPUs that are held on which it cannot run, or by a job yet to come, are of no use.
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
    """Let a round pass; return the jobs that complete, which are active no longer.

    Steps are added up as the checker does, without rounding, so that the two cannot differ in
    when a job is complete.
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
    """Return what a solver says that made `found`."""
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
"""A solver for each policy but Hadar's, which gives a bound too."""
