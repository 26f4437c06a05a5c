"""The costs of losing and moving pods as arrays, for terms of the objective and for budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arithmetic import exact_sum
from lyra_opt.preemption.index import Flags, Integers

# The module of these classes imports this one.
Budget: TypeAlias = Any
Instance: TypeAlias = Any


LOST = "lost:"
"""The prefix of objective terms and budgets that count the lost amount of a resource."""

LARGEST_CODE = 2**62
"""Encoded costs below this are int64; larger ones are Python's integers."""


class Effect(NamedTuple):
    """The pods that gangs lose and move in a solution.

    Parameters
    ----------
    is_whole
        Whether the gang is lost whole, (G,).
    lost
        Number of lost pods of each group of a gang that survives, (K,).
    moved
        Number of moved pods of each gang, (G,).
    """

    is_whole: Flags
    lost: Integers
    moved: Integers

    @classmethod
    def of(
        cls, instance: Instance, lost: Integers, moved: Sequence[tuple[int, int, int]]
    ) -> "Effect":
        """Build the effect of lost and moved pods; `Solution.of_counts` explains both."""
        index = instance.index
        is_whole = index.size - sum_by_gang(instance, lost) < index.min_pods
        of_gang = np.zeros(len(index.size), dtype=np.int64)
        for group, _, number in moved:
            of_gang[index.group_gang[group]] += number
        return cls(is_whole, np.where(is_whole[index.group_gang], 0, lost), of_gang)


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of losing and moving the pods of G gangs with K pod groups.

    Parameters
    ----------
    loss
        Cost of losing the gang whole, (G,).
    lost_pod
        Cost of each lost pod of the group if its gang survives, (K,).
    move
        Cost of each pod of the gang that moves, (G,).
    """

    loss: NDArray[Any]
    lost_pod: NDArray[Any]
    move: NDArray[Any]

    @classmethod
    def of(cls, instance: Instance, name: str, gangs: Any = slice(None)) -> "Costs":
        """Return the amounts by which losses and moves of the given gangs increase a quantity.

        `name` is a term of the objective without ``_by_priority``, or a quantity that a budget can
        count. The costs are 0 for terms that count neither gangs nor pods.
        """
        index = instance.index
        counts = np.zeros(len(index.size), dtype=np.int64)
        counts[gangs] = 1
        of_group = counts[index.group_gang]
        move = counts * (name in ("moved_pods", "disrupted_pods"))
        if name in ("lost_gangs", "weighted_gangs"):
            weight = index.weight if name == "weighted_gangs" else 1
            return cls(counts * weight, 0 * of_group, move)
        if name.startswith(LOST):
            column = instance.resources.index(name.removeprefix(LOST))
            of_group = of_group * index.group_request[:, column]
        elif name not in ("lost_pods", "disrupted_pods"):
            of_group = 0 * of_group
        return cls(sum_by_gang(instance, of_group * index.group_count), of_group, move)

    @classmethod
    def of_budget(cls, instance: Instance, budget: Budget) -> "Costs":
        """Return how much of a budget each loss and each move uses."""
        gangs = [instance.gang_position[name] for name in budget.gangs]
        return cls.of(instance, budget.counts, gangs)

    @classmethod
    def encoded(cls, instance: Instance, scale: int = 1) -> "Costs":
        """Return the costs in the encoded objective, times `scale`.

        The arrays are int64 if the largest encoded cost is below 2**62. Otherwise they hold
        Python's integers.
        """
        terms, index = instance.terms, instance.index
        kind: Any = np.int64 if terms.largest * scale < LARGEST_CODE else object
        gang = np.zeros(len(index.size), dtype=kind)
        found = cls(gang, np.zeros(len(index.group_gang), dtype=kind), gang)
        for term, unit in zip(terms.terms, terms.units, strict=True):
            costs, by = term.costs, unit * scale
            found = cls(
                found.loss + costs.loss.astype(kind) * by,
                found.lost_pod + costs.lost_pod.astype(kind) * by,
                found.move + costs.move.astype(kind) * by,
            )
        return found

    def largest(self, instance: Instance) -> int:
        """Return the cost if all gangs lose or move all pods that they may lose or move."""
        index = instance.index
        moved = self.move * index.size * index.may_move
        return exact_sum(np.maximum(self.loss * index.may_lose, moved))

    def by_gang(self, instance: Instance, effect: Effect) -> NDArray[Any]:
        """Return the total cost of the lost and moved pods of each gang, (G,)."""
        lost = sum_by_gang(instance, self.lost_pod * effect.lost)
        return np.asarray(self.loss * effect.is_whole + lost + self.move * effect.moved)

    def total(self, instance: Instance, effect: Effect) -> int:
        """Return the total cost of all lost and moved pods."""
        return exact_sum(self.by_gang(instance, effect))


def sum_by_gang(instance: Instance, values: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of `values`, one per pod group along the first axis, for each gang."""
    first = instance.index.first_group[:-1]
    if not len(first):
        return np.zeros((0, *values.shape[1:]), dtype=values.dtype)
    sums: NDArray[Any] = np.add.reduceat(values, first, axis=0)
    return sums
