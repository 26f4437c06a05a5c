"""Best fill: simulate seven priority fills to the end and keep the best schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.heuristics.policy_solver import SchedulePolicySolver, scheduled
from lyra_opt.allocation.heuristics.priority_fill import (
    REMAINING_GPU_WORK,
    REMAINING_GPU_WORK_ROOT_BASE,
    REMAINING_TIME,
    REMAINING_WORK,
    REMAINING_WORK_ROOT_GPUS,
    Fill,
)
from lyra_opt.allocation.schedules.evaluator import FluidState
from lyra_opt.allocation.schedules.kernel import (
    FILL_BASES_FIRST,
    FILL_IN_TURN,
    FILL_ONE_BY_ONE,
    FILL_WITH_FORESIGHT,
)
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import OutOfTimeError, within_time

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.allocation.instance import Instance, Schedule
    from lyra_opt.core.result import SolveResult

FILLS = (
    Fill(FILL_BASES_FIRST, REMAINING_WORK),  # srw: the first of equal ones is kept
    Fill(FILL_ONE_BY_ONE, REMAINING_GPU_WORK),
    Fill(FILL_WITH_FORESIGHT, REMAINING_WORK),
    Fill(FILL_IN_TURN, REMAINING_WORK_ROOT_GPUS),
    Fill(FILL_ONE_BY_ONE, REMAINING_GPU_WORK_ROOT_BASE),
    Fill(FILL_BASES_FIRST, REMAINING_TIME),
    Fill(FILL_WITH_FORESIGHT, REMAINING_WORK_ROOT_GPUS),
)

LEAST_GAIN = 1e-12
"""Sums of completion times closer than this, relatively, are equal."""


class BestFill(SchedulePolicySolver):
    """Keep the best of seven schedules, each made by one priority fill from start to end.

    A fill either gives base demands first, as ``srw`` does, or fills jobs *one by one*: in order
    of key each gets all the workers that it can use before the next may start. Started jobs keep
    their base demands in both. One by one, a job that does not fit is skipped; *in turn*, the jobs
    behind it wait until it has started; *with foresight*, a job that fits waits too while it pays
    to keep its GPUs for a job to come: one that would wait longer for it to end than it would wait
    for that one. The seven are

    * base demands first by remaining work (``srw``), and by remaining work / w_max;
    * one by one by remaining GPU work, and by that over the root of w_min;
    * in turn by remaining work times the root of the GPUs per worker;
    * with foresight by remaining work, and by remaining work times that root.

    Where jobs queue, one by one is what shortest remaining time first asks for, since a job that
    has started can grow later but cannot be stopped. The policy simulates the future, so it
    knows releases to come, as the problem does.

    Source: this project; keys and fills were chosen on the families ``load`` and ``light``.
    Complexity seven times ``srw``'s, and with foresight one step for each job to come while a job
    that starts would run. Guarantee: never worse than ``srw``.
    """

    name = "best-fill"

    def apply(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> SolveResult[Schedule]:
        """Return the best schedule, the first of equal ones; of those that there was time for."""
        start = FluidState(instance)
        best = start.copy(logs=True)
        FILLS[0].run(best, decides=False)
        stopped_by = None
        try:
            for fill in within_time(FILLS[1:]):
                trial = start.copy(logs=True)
                fill.run(trial, decides=False)
                if trial.total_jct_s < best.total_jct_s * (1 - LEAST_GAIN):
                    best = trial
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
        return scheduled(instance, best.schedule(), stopped_by)
