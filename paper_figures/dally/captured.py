"""Decisions of a simulated run of Dally, as standalone instances with the timers of that moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.network.captured import instance_of
from lyra_opt.network.delay_scheduling import DelayScheduling
from lyra_opt.network.one_epoch import Epoch, solution_of
from lyra_opt.network.timers import AutoTuner
from paper_figures.dally.cases import run_rule

if TYPE_CHECKING:
    from lyra_opt.network.instance import NetworkInstance, NetworkSolution
    from lyra_opt.network.policy import Grant, PlacementState
    from lyra_opt.network.timers import TimerRule
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Options
    from lyra_opt.simulation.workload import Workload

FEWEST_GANGS = 2
"""That wait; with one, there is no choice of who goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A decision that was taken.

    Parameters
    ----------
    instance
        What it was on.
    solution
        What Dally decided.
    """

    instance: NetworkInstance
    solution: NetworkSolution


def captured_decisions(
    workload: Workload, cluster: Cluster, options: Options, *, every: int
) -> list[Captured]:
    """Return every so-manieth decision of Dally, its gangs in the order of submission.

    Parameters
    ----------
    every
        At least 1; decisions on a single gang are not counted.
    """
    rule = _WatchedDally(AutoTuner(), every)
    run_rule(rule, workload, cluster, options)
    return rule.found


class _WatchedDally(DelayScheduling):
    """Dally, which keeps some of what it decides on."""

    def __init__(self, timers: TimerRule, every: int) -> None:
        super().__init__("dally", timers)
        self.found: list[Captured] = []
        self._every = every
        self._seen = 0

    def decide(self, state: PlacementState) -> list[Grant]:
        """Decide as Dally does."""
        is_kept = len(state.waiting) >= FEWEST_GANGS and self._seen % self._every == 0
        self._seen += len(state.waiting) >= FEWEST_GANGS
        if not is_kept:
            return super().decide(state)
        timers_s = [self._timers.timers_s(state, job) for job in range(len(state.waiting))]
        instance = instance_of(state, name=f"decision-{self._seen}", timers_s=timers_s)
        grants = super().decide(state)
        epoch = Epoch(state=state, machine_order=range(len(instance.machines)))
        solution = solution_of(instance, epoch, grants)
        self.found.append(Captured(instance=instance, solution=solution))
        return grants
