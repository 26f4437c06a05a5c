"""Tiresias: those who have had little service go first."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_number
from lyra_opt.heterogeneous.heuristics.placing import GangPlacer
from lyra_opt.heterogeneous.heuristics.policy import NEVER, Plan, RoundPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, RoundState

DEFAULT_THRESHOLDS_GPU_S = (3_600.0,)
"""Two queues, as in the paper; the limit is that of the README of its simulator."""


class Tiresias(RoundPolicy):
    """Discretised 2D-LAS: queues by attained service, first come, first served in each.

    Source: Tiresias (NSDI 2019) and its simulator (SymbioticLab/Tiresias). A job begins in the
    first queue and is demoted once its attained service, GPUs times time, reaches a threshold.
    Queues are gone through in turn, each by first start (jobs that have not started last), then
    submission; a job runs if its gang still fits, all others are preempted. A gang takes GPUs of
    one type, that of which most are free: the rule knows no speeds. Jobs that run on stay where
    they are unless the others would not fit then.

    Parameters
    ----------
    thresholds_gpu_s
        Increasing limits between the queues; the simulator's demonstration has 3250, 7200 and
        18000.
    promote_knob
        A waiting job goes back to the first queue, and its service counts from 0 again, once it
        has waited this many times as long as it has run since; None never promotes. A third-party
        implementation has 8.

    Notes
    -----
    Complexity of a decision: O(jobs (log jobs + types + servers log servers)). Guarantee: none.
    """

    name = "tiresias"

    def __init__(
        self,
        thresholds_gpu_s: Sequence[float] = DEFAULT_THRESHOLDS_GPU_S,
        promote_knob: float | None = None,
    ) -> None:
        self._thresholds = [
            require_number(f"thresholds_gpu_s[{place}]", threshold, minimum=0, above=True)
            for place, threshold in enumerate(thresholds_gpu_s)
        ]
        if any(low >= high for low, high in pairwise(self._thresholds)):
            raise FieldError("thresholds_gpu_s", list(thresholds_gpu_s), "must increase")
        if promote_knob is not None:
            promote_knob = require_number("promote_knob", promote_knob, minimum=0, above=True)
        self._promote_knob = promote_knob
        self._forgiven: dict[str, tuple[float, float]] = {}

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Keep what the whole cluster can hold."""
        self._placer = GangPlacer(state.servers)

    def unchanged_for_s(self, state: RoundState) -> float:
        """See `RoundPolicy`; until a running job is demoted, or a waiting one may be promoted."""
        if self._promote_knob is not None:
            return 0.0
        least_s = math.inf
        for active in state.jobs:
            queue = self.queue_of(active)
            if active.placements and queue < len(self._thresholds):
                missing_gpu_s = self._thresholds[queue] - active.attained_gpu_s
                least_s = min(least_s, missing_gpu_s / active.job.gang)
        return least_s

    def queue_of(self, active: ActiveJob) -> int:
        """Return the queue that a job is in, from 0."""
        forgiven_gpu_s, _ = self._forgiven.get(active.job.id, (0.0, 0.0))
        return bisect_right(self._thresholds, active.attained_gpu_s - forgiven_gpu_s)

    def decide(self, state: RoundState) -> Decision:
        """Return the first jobs of the queues that fit."""
        self._promote(state)

        def rank(active: ActiveJob) -> tuple[int, float, int]:
            started_s = state.now_s if active.started_s == NEVER else active.started_s
            return self.queue_of(active), started_s, active.order

        anew = Plan(state.servers)
        chosen = [
            active
            for active in sorted(state.jobs, key=rank)
            if anew.give(active.job, self._placer.place(anew.free, active.job))
        ]
        return self._staying(chosen, state) or anew.decision

    def _staying(self, chosen: Sequence[ActiveJob], state: RoundState) -> Decision | None:
        """Return where all chosen jobs run if none that runs is moved; None if that cannot be."""
        plan = Plan(state.servers)
        for active in plan.keep_running(chosen):
            if not plan.give(active.job, self._placer.place(plan.free, active.job)):
                return None
        return plan.decision

    def _promote(self, state: RoundState) -> None:
        if self._promote_knob is None:
            return
        for active in state.jobs:
            if active.waiting_since_s == NEVER or self.queue_of(active) == 0:
                continue
            _, forgiven_s = self._forgiven.get(active.job.id, (0.0, 0.0))
            waited_s = state.now_s - active.waiting_since_s
            if waited_s >= self._promote_knob * (active.executed_s - forgiven_s):
                self._forgiven[active.job.id] = (active.attained_gpu_s, active.executed_s)
