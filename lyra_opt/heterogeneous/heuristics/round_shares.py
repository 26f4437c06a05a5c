"""What Gavel's rounds give of the shares of time that its linear programme promises."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import within_time
from lyra_opt.heterogeneous.heuristics.gavel import GavelRounds
from lyra_opt.heterogeneous.heuristics.policy import NEVER, ActiveJob, RoundState
from lyra_opt.heterogeneous.instance import Objective, TimeShares

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.heterogeneous.instance import Instance

ROUNDS = 400
"""Half a round that each job begins with, and the last rounds, blur shares by about one in 400."""


class RoundShares(HeuristicSolver):
    """The shares that 400 rounds of Gavel give jobs that never end.

    `GavelRounds` computes the best shares once and has all the time to come near them, so that
    what is short is lost for good: to gangs that do not fit beside one another, and to jobs that
    run on another type than they were promised. A round on several servers counts as the part of
    one that its steps are of those on a single server.

    Complexity: 400 decisions, each as of `GavelRounds`, and one linear programme. Guarantee: none.
    """

    name = "gavel-rounds"
    problem = "heterogeneous"
    variants = (Objective.MAX_MIN_SHARE, Objective.THROUGHPUT)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[TimeShares]:
        """Return the shares that the rounds give."""
        shares = shares_of_rounds(instance, rng)
        return SolveResult(
            status=Status.FEASIBLE, solution=shares, objective=self.objective_of(instance, shares)
        )


def shares_of_rounds(
    instance: Instance, rng: np.random.Generator, *, rounds: int = ROUNDS
) -> TimeShares:
    """Return what part of its time each job has had on each type when the rounds are over."""
    state = RoundState(
        gpu_types=instance.gpu_types,
        servers=instance.servers,
        now_s=0.0,
        round_s=instance.round_s,
    )
    policy = GavelRounds(instance.objective)
    policy.prepare(state, rng)
    state.jobs = [
        ActiveJob(job=replace(job, current={}), order=order, steps_left=job.steps, submitted_s=0.0)
        for order, job in enumerate(within_time(instance.jobs, every=50))
    ]
    had: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for number in within_time(range(rounds)):
        state.now_s = number * instance.round_s
        decision = policy.decide(state)
        state.is_changed = False
        for active in state.jobs:
            active.placements = decision.get(active.job.id, ())
            active.waiting_since_s = NEVER if active.placements else state.now_s
            for placement in active.placements:
                (name,) = {name for types in placement.values() for name in types}
                alone = active.job.throughput.get(name, 0.0)
                if alone:
                    had[active.job.id][name] += min(1.0, active.job.rate_of(placement) / alone)
    return TimeShares(
        {
            job: {name: rounds_there / rounds for name, rounds_there in of_types.items()}
            for job, of_types in had.items()
        }
    )
