"""The base class of the reclaim heuristics; each subclass adds its rule."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.core.errors import require_returned
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.reclaim.incidence import ReclaimIndex
from lyra_opt.reclaim.instance import Instance, Semantics, Solution


@runtime_checkable
class QuickChoice(Protocol):
    """A reclaim solver whose choice needs no instance where no job has to be preempted."""

    def quick_choice(
        self, servers: int, idle: Sequence[int], count: int, rng: np.random.Generator
    ) -> Sequence[int]:
        """Return the positions of the `count` servers that `solve` chooses in a rigid instance.

        All servers are on loan, and each job has a weight above 0. At least `count` servers, and at
        least one, have no base worker; they have the positions `idle`, in file order.
        """


class ReclaimHeuristic(HeuristicSolver):
    """A base class for rules that choose the servers to reclaim in milliseconds."""

    problem = "reclaim"
    variants = tuple(Semantics)

    @abstractmethod
    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:
        """Return the file positions of ``reclaim_servers`` distinct servers on loan."""

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:
        """Return the servers that `choose` selects as a feasible solution."""
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
        """Return the total weight of the jobs that `solution` preempts."""
        return preempted_weight(instance.index, solution.positions(instance))


def preempted_weight(index: ReclaimIndex, positions: Sequence[int]) -> int:
    """Return the weight of the jobs preempted if the servers at `positions` are reclaimed.

    Time O(worker groups), vectorised.
    """
    is_chosen = np.zeros(index.losses.servers, dtype=np.int64)
    is_chosen[list(positions)] = 1
    return exact_sum(index.weight[index.losses.row_sums(is_chosen) > index.slack])
