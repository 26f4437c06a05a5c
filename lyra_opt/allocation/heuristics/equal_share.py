"""Equal share: every job holds as many GPUs as any other, as far as its range allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.heuristics.gain_kernel import add_to_smallest_share
from lyra_opt.allocation.heuristics.policy_solver import StepPolicy

if TYPE_CHECKING:
    from lyra_opt.allocation.schedules.evaluator import FluidState


class EqualShare(StepPolicy):
    """Base demands by release and file where they fit; then each worker to the smallest holder.

    One worker at a time goes to the started job that holds the fewest GPUs, ties by release,
    then in file order; a job whose next worker does not fit gets no more.

    Source: processor sharing, the yardstick of fairness; its form with whole workers and base
    demands is this project's. Complexity O((A + G) log A) a decision. Guarantee: without base
    demands and with w_max = G it is twice the optimum at most when all jobs are released
    together, and that is tight (equal jobs); with base demands none where jobs queue.
    """

    name = "equal-share"

    def decide(self, state: FluidState) -> None:
        """Level the GPUs that jobs hold."""
        free = state.start_bases(by_key=False)
        state.decide(add_to_smallest_share, free)
