"""A solution of a preemption instance as arrays, with the values of its terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.preemption.costs import costs_of, sum_by_gang
from lyra_opt.preemption.instance import Solution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.preemption.costs import Costs
    from lyra_opt.preemption.instance import Budget, Instance

    IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The numbers of pods that are lost, moved and placed, as in `Solution.of_counts`.

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

    lost: IntArray
    placed: IntArray
    moved: tuple[tuple[int, int, int], ...] = ()
    emptied: tuple[int, ...] = ()

    def solution(self, instance: Instance) -> Solution:
        """Return the solution with these numbers of pods."""
        return Solution.of_counts(
            instance,
            lost=self.lost.tolist(),
            placed=self.placed,
            moved=self.moved,
            emptied=self.emptied,
        )

    def keeps_budgets(self, instance: Instance) -> bool:
        """Return whether the plan keeps all hard budgets."""
        effect = self._effect(instance)
        return all(
            budget.used + _total(budget_counts(instance, budget), *effect) <= budget.most
            for budget in instance.budgets
            if budget.is_hard
        )

    def _effect(self, instance: Instance) -> tuple[NDArray[np.bool_], IntArray, IntArray]:
        """Return the gangs lost whole, the lost pods of other gangs, and the moved pods by gang."""
        index = instance.index
        is_whole = index.size - sum_by_gang(instance, self.lost) < index.min_pods
        partial = np.where(is_whole[index.group_gang], 0, self.lost)
        moved = np.zeros(len(index.size), dtype=np.int64)
        for group, _, number in self.moved:
            moved[index.group_gang[group]] += number
        return is_whole, partial, moved

    def values(self, instance: Instance, costs: Costs) -> tuple[int, ...]:
        """Return the value of each term. Time O(terms * pod groups)."""
        index, effect = instance.index, self._effect(instance)
        found = []
        for t, term in enumerate(instance.terms.terms):
            if term.name == "unplaced":
                found.append(int(index.shape_count.sum() - self.placed.sum()))
            elif term.name == "extra_domains":
                used = np.unique(index.domain[self.placed.any(axis=0)])
                found.append(max(0, len(used) - 1))
            elif term.name == "budget_excess":
                found.append(_excess(instance, effect))
            else:
                counts = costs.loss[t], costs.lost_pod[t], costs.move[t]
                found.append(_total(counts, *effect))
        return tuple(found)


def _total(
    counts: tuple[IntArray, IntArray, IntArray],
    is_whole: NDArray[np.bool_],
    partial: IntArray,
    moved: IntArray,
) -> int:
    """Return the total cost of gangs lost whole, of lost pods of other gangs, and of moved pods."""
    loss, lost_pod, move = counts
    return exact_sum(loss[is_whole]) + exact_sum(lost_pod * partial) + exact_sum(move * moved)


def _excess(instance: Instance, effect: tuple[NDArray[np.bool_], IntArray, IntArray]) -> int:
    """Return the total excess over soft budgets."""
    return sum(
        max(0, budget.used + _total(budget_counts(instance, budget), *effect) - budget.most)
        for budget in instance.budgets
        if not budget.is_hard
    )


def budget_counts(instance: Instance, budget: Budget) -> tuple[IntArray, IntArray, IntArray]:
    """Return how much of a budget the loss of a gang, a lost pod and a moved pod use."""
    index = instance.index
    counts = np.zeros(len(index.size), dtype=np.int64)
    counts[[instance.gang_position[name] for name in budget.gangs]] = 1
    loss, lost_pod, move = costs_of(instance, budget.counts)
    return loss * counts, lost_pod * counts[index.group_gang], move * counts
