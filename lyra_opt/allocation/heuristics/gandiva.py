"""Gandiva's grow-shrink: idle GPUs go to running jobs while nothing waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.heuristics.gain_kernel import add_to_smallest_share
from lyra_opt.allocation.heuristics.policy_solver import StepPolicy

if TYPE_CHECKING:
    from lyra_opt.allocation.schedules.evaluator import FluidState


class Gandiva(StepPolicy):
    """Base demands by release and file where they fit; extra workers only while no job waits.

    Source: Gandiva (OSDI 2018), "grow-shrink", as Lyra (EuroSys 2023), section 7, describes its
    baseline: "grow jobs when there are free GPUs and no pending job". Assumed here: base demands
    come first come, first served, a job that does not fit being skipped; grown jobs shrink to
    their base demands when a job is left waiting; who grows is levelled as in `EqualShare`.
    Gandiva's time-slicing, packing and migration have no counterpart: started jobs are not
    suspended, and GPUs are alike.

    Complexity O((A + G) log A) a decision. Guarantee: none. One waiting job with a base demand
    of G holds every other at its base demand: with a job of base demand 1 and w_max = G that has
    just started, G - 1 GPUs idle until it ends, and the mean JCT is up to G times the optimum.
    """

    name = "gandiva"

    def decide(self, state: FluidState) -> None:
        """Grow the started jobs if all have started."""
        free = state.start_bases(by_key=False)
        if all(state.target(job) for job in state.active):
            state.decide(add_to_smallest_share, free)
