"""AFS: short jobs first, unless a long one makes more of the next GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.heuristics.gain_kernel import share_by_afs
from lyra_opt.allocation.heuristics.policy_solver import StepPolicy

if TYPE_CHECKING:
    from lyra_opt.allocation.schedules.evaluator import FluidState


class Afs(StepPolicy):
    """Give one worker at a time to the winner of pairwise comparisons of jobs.

    Of a shorter job a and a longer one b, by remaining time with the workers that each has so
    far, b wins if and only if (p_b(m_b + 1) - p_b(m_b)) / p_b(m_b + 1) exceeds
    (p_a(m_a + 1) - p_a(m_a)) / p_a(m_a), where p is the throughput; of two jobs without workers
    the one that is shorter alone. The winner of each comparison meets the next job.

    Source: AFS-L of Hwang et al., *Elastic Resource Sharing for Distributed Deep Learning* (NSDI
    2021), after the re-implementation in the Voda scheduler and from memory, without the paper's
    text. Assumed here: a job's first step is its whole base demand, and started
    jobs keep theirs; both sides are divided by the GPUs of the step; jobs meet by release, then
    in file order; a step that does not fit is passed over.

    Complexity O(A G) a decision. Guarantee: none. The rule compares rates of progress and not
    lengths once jobs run: it tends to equal shares whatever the lengths.
    """

    name = "afs"

    def decide(self, state: FluidState) -> None:
        """Hand out the GPUs one step at a time."""
        state.decide(share_by_afs)
