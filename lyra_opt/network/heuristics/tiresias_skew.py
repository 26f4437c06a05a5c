"""Tiresias with its skew rule, as Dally's simulator has it: some gangs are kept together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.heuristics.delay_scheduling import DelayScheduling
from lyra_opt.network.heuristics.timers import TimerRule

if TYPE_CHECKING:
    from lyra_opt.network.heuristics.policy import PlacementState, WaitingGangs


class SkewTimers(TimerRule):
    """Never wait with a model that needs no consolidation; wait for ever with any other."""

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        """Return 0 or inf for both tiers."""
        timer_s = math.inf if state.waiting.needs_consolidation[job] else 0.0
        return timer_s, timer_s


def tiresias_skew() -> DelayScheduling:
    """Return Tiresias: least attained GPU service first, skewed models kept together.

    A gang takes a machine if one holds it. ResNet50, ResNet18 and BERT need no consolidation: they
    take a rack, and then anything, at once. All others wait for a machine, or for the nearest tier
    that could hold them.

    Source: Dally's public simulator (arXiv 2401.16492), which has continuous least attained service
    in place of Tiresias's queues. Its rack stage compares machines with a variable that was never
    set, so that it opens by chance; that quirk is not copied.
    """
    return DelayScheduling("tiresias-skew", SkewTimers(), least_attained_first)


def least_attained_first(waiting: WaitingGangs) -> np.ndarray:
    """Return the order of attained service, then longest wait, then position."""
    return np.lexsort((-waiting.waiting_s, waiting.attained_gpu_s))
