"""Optimus: every worker goes where it shortens a job's remaining time most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.heuristics.policy_solver import StepPolicy
from lyra_opt.allocation.schedules.kernel import add_by_gain

if TYPE_CHECKING:
    from lyra_opt.allocation.schedules.evaluator import FluidState


class Optimus(StepPolicy):
    """Base demands by release and file; then one worker at a time by reduced time per GPU.

    The gain of a worker is R / rate(w) - R / rate(w + 1) with R the remaining work, divided by
    the GPUs of a worker; ties in file order.

    Source: Peng et al., *Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning
    Clusters* (EuroSys 2018), in the form with GPUs only of the simulator of AdaptDL (Pollux, OSDI
    2021); the paper from memory. Assumed here: each job's first worker is its base
    demand, given first come, first served, a job that does not fit being skipped; lengths are
    known, where Optimus predicts them from the loss curve. With equal GPUs per worker it differs
    from ``lyra`` in nothing but who starts first.

    Complexity O((A + G) log A) a decision. Guarantee: none. It has Lyra's fault: on
    `lyra_opt.allocation.heuristics.lyra.Lyra`'s family all extra workers go to the longest job.
    """

    name = "optimus"

    def decide(self, state: FluidState) -> None:
        """Hand out the workers by gain."""
        free = state.start_bases(by_key=False)
        state.decide(add_by_gain, free, 1)
