"""What all heuristics of reclaiming share; each adds its rule."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.core.errors import require_returned
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.reclaim.instance import Semantics, Solution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.reclaim.incidence import ReclaimIndex
    from lyra_opt.reclaim.instance import Instance


class ReclaimHeuristic(HeuristicSolver):
    """A rule that chooses servers, in milliseconds."""

    problem = "reclaim"
    variants = tuple(Semantics)

    @abstractmethod
    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:
        """Return the positions of ``reclaim_servers`` distinct servers on loan."""

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:
        """Return the chosen servers as a solution."""
        positions = self.choose(instance, rng)
        count = len(instance.servers)
        rule = f"positions of servers in instance.servers, integers below {count}, not ids"
        require_returned(self.choose, positions, range(count), rule)
        return SolveResult(
            status=Status.FEASIBLE,
            solution=Solution.of_positions(instance, positions),
            objective=preempted_weight(instance.index, positions),
        )

    def objective_of(self, instance: Instance, solution: Solution) -> int:
        """Return the weight of the jobs that it preempts."""
        return preempted_weight(instance.index, solution.positions(instance))


def preempted_weight(index: ReclaimIndex, positions: Sequence[int]) -> int:
    """Return the weight of the jobs preempted when the servers at `positions` are chosen.

    Time O(worker groups), vectorised.
    """
    is_chosen = np.zeros(index.losses.servers, dtype=np.int64)
    is_chosen[list(positions)] = 1
    return exact_sum(index.weight[index.losses.row_sums(is_chosen) > index.slack])
