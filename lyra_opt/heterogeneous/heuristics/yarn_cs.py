"""YARN-CS: first come, first served, and nobody is ever interrupted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.heuristics.placing import GangPlacer
from lyra_opt.heterogeneous.heuristics.policy import Plan, RoundPolicy

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState


class YarnCs(RoundPolicy):
    """Start jobs in order of submission; a job keeps its GPUs until it completes.

    Source: the capacity scheduler of YARN with one queue, as Hadar (arXiv 2503.10918) compares
    with it; that the first job that does not fit holds up those behind it is from memory. A gang
    takes GPUs of one type, that of which most are free: the rule knows no speeds. Jobs that even
    the empty cluster cannot hold are passed over.

    Complexity of a decision: O(jobs + started (types + servers log servers)). Guarantee: none; a
    long job in front makes all others wait.
    """

    name = "yarn-cs"

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Keep what the whole cluster can hold."""
        self._placer = GangPlacer(state.servers)

    def unchanged_for_s(self, state: RoundState) -> float:  # noqa: ARG002
        """See `RoundPolicy`; only who comes and goes matters."""
        return math.inf

    def decide(self, state: RoundState) -> Decision:
        """Return the running jobs where they run, and those that start."""
        plan = Plan(state.servers)
        for active in plan.keep_running(state.jobs):
            is_placed = plan.give(active.job, self._placer.place(plan.free, active.job))
            if not is_placed and self._placer.can_ever_run(active.job):
                break
        return plan.decision
