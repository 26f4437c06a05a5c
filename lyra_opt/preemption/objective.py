"""The objective of a preemption instance: an ordered list of terms, each counted in integers.

The value of a solution is a tuple with one integer per term, and tuples are compared in the order
of the terms. `Objective.encode` turns a tuple into one integer with the same order, so that the
rest of the toolkit can treat the objective as a number. The integer is a number in a mixed radix,
whose digits are the values of the terms. Terms that are 0 in every solution are left out. If only
one term can differ from 0, such as the lost GPUs, the integer is the value of this term.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from lyra_opt.preemption.costs import Costs, Effect
from lyra_opt.preemption.index import Integers

# The module of these classes imports this one.
Budget: TypeAlias = Any
Instance: TypeAlias = Any

TERMS = (
    "unplaced",
    "budget_excess",
    "lost_gangs_by_priority",
    "lost_pods_by_priority",
    "disrupted_pods_by_priority",
    "lost_gangs",
    "lost_pods",
    "moved_pods",
    "disrupted_pods",
    "weighted_gangs",
    "extra_domains",
)
"""The terms of objectives; ``lost:RESOURCE``, the lost amount of a resource, is another one."""

BUDGET_COUNTS = ("lost_gangs", "lost_pods", "disrupted_pods")
"""The quantities that a budget can limit; ``lost:RESOURCE`` is another one."""

_BY_PRIORITY = "_by_priority"


@dataclass(frozen=True, slots=True)
class Term:
    """One integer of the objective.

    Parameters
    ----------
    name
        The quantity that it counts: a member of `TERMS` without ``_by_priority``, or
        ``lost:RESOURCE``.
    priority
        The priority of the gangs that it counts; None if it counts all gangs.
    largest
        An upper bound on its value over all solutions, at least 1.
    costs
        The amounts by which losses and moves increase it.
    """

    name: str
    priority: int | None
    largest: int
    costs: Costs = field(compare=False, repr=False)

    @property
    def key(self) -> str:
        """The name for measures and tables, such as ``lost_gangs`` or ``lost_gangs@10``."""
        return self.name if self.priority is None else f"{self.name}@{self.priority}"


@dataclass(frozen=True, slots=True)
class Objective:
    """The terms that can differ from 0, the most important one first."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, instance: Instance) -> "Objective":
        """Build the objective of an instance. Time O(terms * pod groups)."""
        return cls(tuple(_terms_of(instance)))

    @property
    def largest(self) -> int:
        """The integer that encodes the largest value of every term."""
        return self.encode([term.largest for term in self.terms])

    def encode(self, values: Sequence[int]) -> int:
        """Return the integer that encodes the values; smaller tuples have smaller integers.

        Raises
        ------
        ValueError
            If a value is negative or above the largest value of its term.
        """
        code = 0
        for term, value in zip(self.terms, values, strict=True):
            if not 0 <= value <= term.largest:
                raise ValueError(f"{term.key} must be from 0 to {term.largest}, not {value}")
            code = code * (term.largest + 1) + value
        return code

    def decode(self, code: int) -> tuple[int, ...]:
        """Return the values that an integer encodes; from a bound, a bound on the tuple."""
        values = []
        for term in reversed(self.terms[1:]):
            code, value = divmod(code, term.largest + 1)
            values.append(value)
        return (code, *reversed(values)) if self.terms else ()

    @property
    def units(self) -> tuple[int, ...]:
        """For each term, the increase of the encoded integer if the term grows by 1."""
        unit = 1
        found = []
        for term in reversed(self.terms):
            found.append(unit)
            unit *= term.largest + 1
        return tuple(reversed(found))

    def values(
        self,
        instance: Instance,
        lost: Integers,
        placed: Integers,
        moved: Sequence[tuple[int, int, int]],
    ) -> tuple[int, ...]:
        """Return the values of the terms for the given lost, placed and moved pods.

        `Solution.of_counts` explains the parameters.

        Time O(terms * pod groups).
        """
        index, effect, found = instance.index, Effect.of(instance, lost, moved), []
        for term in self.terms:
            value = term.costs.total(instance, effect)
            if term.name == "unplaced":
                value = int(index.shape_count.sum() - placed.sum())
            elif term.name == "extra_domains":
                value = max(0, len(np.unique(index.domain[placed.any(axis=0)])) - 1)
            elif term.name == "budget_excess":
                soft = (budget for budget in instance.budgets if not budget.is_hard)
                value = sum(max(0, excess_of(instance, budget, effect)) for budget in soft)
            found.append(value)
        return tuple(found)


def excess_of(instance: Instance, budget: Budget, effect: Effect) -> int:
    """Return the excess over a budget, which is negative if some of the budget is left."""
    used = Costs.of_budget(instance, budget).total(instance, effect)
    return int(budget.used) + used - int(budget.most)


def _terms_of(instance: Instance) -> Iterator[Term]:
    index = instance.index
    touched = index.priority[index.may_lose | index.may_move]
    for name in instance.objective:
        base = name.removesuffix(_BY_PRIORITY)
        levels = [None] if base == name else np.unique(touched)[::-1].tolist()
        for level in levels:
            gangs = slice(None) if level is None else index.priority == level
            costs = Costs.of(instance, base, gangs)
            if largest := _largest(instance, base, costs):
                yield Term(base, level, largest, costs)


def _largest(instance: Instance, name: str, costs: Costs) -> int:
    """Return an upper bound on the value of a term in all solutions."""
    demand = instance.demand
    if demand is not None and name == "unplaced":
        return sum(shape.count - shape.min_count for shape in demand.shapes)
    if demand is not None and name == "extra_domains" and not demand.is_level_required:
        pods: int = sum(shape.count for shape in demand.shapes)
        return max(0, min(int(instance.index.domains), pods) - 1)
    if name == "budget_excess":
        limits = [(budget, Costs.of_budget(instance, budget)) for budget in instance.budgets]
        return sum(
            max(0, budget.used + counts.largest(instance) - budget.most)
            for budget, counts in limits
            if not budget.is_hard
        )
    return costs.largest(instance)
