"""What all heuristics of reclaiming share; each adds its rule in a file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.exact_sums import exact_sum
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import Unsupported
from lyra_opt.reclaim.instance import ReclaimSolution, Semantics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.core.result import Limits
    from lyra_opt.reclaim.incidence import ReclaimIndex
    from lyra_opt.reclaim.instance import ReclaimInstance


class ReclaimHeuristic(ABC):
    """A rule that chooses servers; implements `lyra_opt.core.solver.Solver`.

    A heuristic runs to its end in milliseconds and keeps no limits. It gives no bound: ask for
    one with ``certify``.
    """

    name: str
    problem = "reclaim"
    variants: Sequence[str] = (str(Semantics.RIGID), str(Semantics.INTERCHANGEABLE))
    proves_optimality = False
    gives_bound = False

    @abstractmethod
    def choose(self, instance: ReclaimInstance, rng: np.random.Generator) -> Sequence[int]:
        """Return the positions of ``reclaim_servers`` distinct servers on loan."""

    def availability(self) -> Unsupported | None:
        """Heuristics need nothing beyond this package."""
        return None

    def supports(self, instance: ReclaimInstance) -> Unsupported | None:
        """Return why the rule does not apply to the instance's semantics, None if it does."""
        if instance.semantics in self.variants:
            return None
        return Unsupported(
            f"{self.name} takes {' and '.join(self.variants)} instances, "
            f"not {instance.semantics} ones"
        )

    def solve(
        self,
        instance: ReclaimInstance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,
        warm_start: ReclaimSolution | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[ReclaimSolution]:
        """Apply the rule; return the warm start instead where that is better."""
        positions = self.choose(instance, rng)
        objective = preempted_weight(instance.index, positions)
        solution = ReclaimSolution.of_positions(instance, positions)
        if warm_start is not None:
            start = preempted_weight(instance.index, warm_start.positions(instance))
            if start < objective:
                solution, objective = warm_start, start
        if observer is not None:
            observer("objective", objective)
        return SolveResult(status=Status.FEASIBLE, solution=solution, objective=objective)


def preempted_weight(index: ReclaimIndex, positions: Sequence[int]) -> int:
    """Return the weight of the jobs preempted when the servers at `positions` are chosen.

    Time O(worker groups), vectorised.
    """
    is_chosen = np.zeros(index.losses.servers, dtype=np.int64)
    is_chosen[list(positions)] = 1
    return exact_sum(index.weight[index.losses.row_sums(is_chosen) > index.slack])
