"""Lyra's two phases, decided anew at every event: shortest base demands, then the knapsack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.heuristics.extra_workers import most_reduction
from lyra_opt.allocation.heuristics.policy_solver import StepPolicy
from lyra_opt.allocation.heuristics.priority_fill import SHORTEST_JOB
from lyra_opt.allocation.schedules.kernel import add_by_gain

if TYPE_CHECKING:
    from lyra_opt.allocation.schedules.evaluator import FluidState


class Lyra(StepPolicy):
    """Base demands by work / w_max; then the extra workers that reduce JCT most in all.

    Phase 1: started jobs keep their base demands, waiting jobs get theirs in order of
    work / w_max, ties in file order, if it fits; one that does not is skipped. Phase 2: a
    multiple-choice knapsack of the GPUs left, with the most sum of T(w_min) - T(w) where T is
    the *remaining* time of a started job. The gains of a job's workers fall one after the other,
    so that with equal GPUs per worker the marginal greedy solves it exactly, ties in file order;
    else `lyra_opt.allocation.exact.mckp_core.MckpCore` does.

    Source: Lyra (EuroSys 2023), section 5.2. Assumed here: running jobs are valued by their
    remaining work, which the paper leaves open; epochs are releases and completions.

    Complexity O((A + G) log A) a decision with equal GPUs per worker, else
    `MckpCore`'s.
    Guarantee: none beyond w_max / w_min. The knapsack favours the job with the most work: with n
    jobs (w from 1 to E + 1, work 1), one job of work E (E + 1) / 2 and n + 1 + E GPUs it keeps
    all extra workers on the long job, at up to 1.865 times the mean JCT of ``srw`` (this
    project; the family ``worst-case`` has the formula).
    """

    name = "lyra"

    def prepare(self, state: FluidState) -> None:
        """Order base demands by work / w_max."""
        SHORTEST_JOB.set_in(state)

    def decide(self, state: FluidState) -> None:
        """Start the shortest, then solve the knapsack."""
        free = state.start_bases(by_key=True)
        jobs = state.instance.jobs
        started = [job for job in state.active if state.target(job)]
        if len({jobs[job].gpus_per_worker for job in started}) <= 1:
            state.decide(add_by_gain, free, 0)
            return
        elastic = [job for job in started if jobs[job].max_workers > jobs[job].min_workers]
        extra = most_reduction(
            [jobs[job] for job in elastic],
            [state.remaining_worker_s(job) for job in elastic],
            free,
        )
        for job, workers in zip(elastic, extra, strict=True):
            state.set_target(job, jobs[job].min_workers + workers)
