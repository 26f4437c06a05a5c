"""A solution of a preemption instance as arrays, with the values of its terms."""

from dataclasses import dataclass

from lyra_opt.preemption.costs import Effect
from lyra_opt.preemption.index import Integers
from lyra_opt.preemption.instance import Instance, Solution
from lyra_opt.preemption.objective import excess_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A solution as arrays: the numbers of lost, moved and placed pods.

    Parameters
    ----------
    lost
        Number of lost pods of each pod group, (K,).
    placed
        Number of pending pods of each shape on each node, (S, N).
    moved
        Triples of pod group, target node and number of pods.
    emptied
        Positions of the nodes chosen to be emptied.
    """

    lost: Integers
    placed: Integers
    moved: tuple[tuple[int, int, int], ...] = ()
    emptied: tuple[int, ...] = ()

    def solution(self, instance: Instance) -> Solution:
        """Return the solution with these numbers of pods."""
        return Solution.of_counts(
            instance, lost=self.lost, placed=self.placed, moved=self.moved, emptied=self.emptied
        )

    def keeps_budgets(self, instance: Instance) -> bool:
        """Return whether the plan keeps all hard budgets."""
        effect = Effect.of(instance, self.lost, self.moved)
        hard = (budget for budget in instance.budgets if budget.is_hard)
        return all(excess_of(instance, budget, effect) <= 0 for budget in hard)

    def values(self, instance: Instance) -> tuple[int, ...]:
        """Return the value of each term. Time O(terms * pod groups)."""
        return instance.terms.values(instance, self.lost, self.placed, self.moved)
