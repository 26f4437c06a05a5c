"""The costs of losing and moving pods as arrays, for each term of the objective.

The methods of `lyra_opt.preemption.objective.Term` return the same costs for one gang at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.preemption.objective import LOST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.preemption.instance import Instance

    IntArray = NDArray[np.int64]

LARGEST_CODE = 2**62
"""Encoded costs below this are int64; larger ones are Python's integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of losing and moving pods, for T terms, G gangs and K pod groups.

    Parameters
    ----------
    loss
        Cost of losing the gang whole, (T, G).
    lost_pod
        Cost of each lost pod of a gang that survives, (T, K).
    move
        Cost of each pod of the gang that moves, (T, G).
    """

    loss: IntArray
    lost_pod: IntArray
    move: IntArray

    @classmethod
    def of(cls, instance: Instance) -> Costs:
        """Return the costs of an instance. Time O(terms * pod groups)."""
        index, terms = instance.index, instance.terms.terms
        loss = np.zeros((len(terms), len(index.size)), dtype=np.int64)
        lost_pod = np.zeros((len(terms), len(index.group_gang)), dtype=np.int64)
        move = np.zeros_like(loss)
        for t, term in enumerate(terms):
            loss[t], lost_pod[t], move[t] = costs_of(instance, term.name, term.priority)
        return cls(loss=loss, lost_pod=lost_pod, move=move)

    def encoded(self, units: tuple[int, ...], largest: int) -> tuple[Any, Any, Any]:
        """Return the costs of loss, lost pods and moves, summed over the terms times their units.

        The arrays are int64 if `largest`, the largest encoded cost, is below 2**62. Otherwise
        they hold Python's integers.
        """
        kind = np.int64 if largest < LARGEST_CODE else object
        loss, lost_pod, move = (
            sum(
                (costs.astype(kind) * unit for costs, unit in zip(every, units, strict=True)),
                np.zeros(every.shape[1], dtype=kind),
            )
            for every in (self.loss, self.lost_pod, self.move)
        )
        return loss, lost_pod, move


def costs_of(
    instance: Instance, name: str, priority: int | None = None
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the costs of loss, lost pods and moves for a term, or for what a budget counts.

    Their shapes are (G,), (K,) and (G,). They are 0 for terms that count neither gangs nor pods.
    """
    index = instance.index
    counts = np.ones(len(index.size), dtype=np.int64)
    if priority is not None:
        counts[index.priority != priority] = 0
    nothing, of_group = np.zeros_like(counts), counts[index.group_gang]
    move = counts * (name in ("moved_pods", "disrupted_pods"))
    if name == "lost_gangs":
        return counts, 0 * of_group, nothing
    if name == "weighted_gangs":
        return counts * index.weight, 0 * of_group, nothing
    if name in ("lost_pods", "disrupted_pods"):
        return counts * index.size, of_group, move
    amount = 0 * of_group
    if name.startswith(LOST):
        column = instance.resources.index(name.removeprefix(LOST))
        amount = of_group * index.group_request[:, column]
    return sum_by_gang(instance, amount * index.group_count), amount, move


def sum_by_gang(instance: Instance, values: IntArray) -> IntArray:
    """Return the sum of `values`, one per pod group along the first axis, for each gang."""
    first = instance.index.first_group[:-1]
    if not len(first):
        return np.zeros((0, *values.shape[1:]), dtype=values.dtype)
    sums: IntArray = np.add.reduceat(values, first, axis=0)
    return sums
