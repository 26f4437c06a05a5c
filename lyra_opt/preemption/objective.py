"""The objective of a preemption instance: an ordered list of terms, each counted in integers.

The value of a solution is a tuple with one integer per term, and tuples are compared in the order
of the terms. `Objective.encode` turns a tuple into one integer with the same order, so that the
rest of the toolkit can treat the objective as a number. It is a number in a mixed radix, whose
digits are the values of the terms. Terms that are 0 in every solution have no digit. An objective
with one term that matters, such as the lost GPUs, is therefore the value of this term itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# The module of these classes imports this one.
Budget: TypeAlias = Any
Gang: TypeAlias = Any
Instance: TypeAlias = Any

LOST = "lost:"
"""The prefix of objective terms and budgets that count the lost amount of a resource."""

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
"""The terms of objectives, besides the lost amount of a resource (``lost:RESOURCE``)."""

BUDGET_COUNTS = ("lost_gangs", "lost_pods", "disrupted_pods")
"""The quantities that a budget limits, besides the lost amount of a resource."""

_BY_PRIORITY = "_by_priority"


@dataclass(frozen=True, slots=True)
class Term:
    """One integer of the objective.

    Parameters
    ----------
    name
        What it counts: a member of `TERMS` without ``_by_priority``, or ``lost:RESOURCE``.
    priority
        The priority of the gangs that it counts; None if it counts all gangs.
    largest
        An upper bound on its value over all solutions, at least 1.
    """

    name: str
    priority: int | None
    largest: int

    @property
    def key(self) -> str:
        """The name for measures and tables, such as ``lost_gangs`` or ``lost_gangs@10``."""
        return self.name if self.priority is None else f"{self.name}@{self.priority}"

    def counts(self, gang: Gang) -> bool:
        """Return whether the term counts losses and moves of this gang."""
        return self.priority is None or gang.priority == self.priority

    def cost_of_loss(self, gang: Gang) -> int:
        """Return how much the term grows if the gang is lost whole."""
        if not self.counts(gang):
            return 0
        if self.name == "lost_gangs":
            return 1
        if self.name == "weighted_gangs":
            return int(gang.weight)
        return sum(group.count * self.cost_of_lost_pod(gang, group.request) for group in gang.pods)

    def cost_of_lost_pod(self, gang: Gang, request: Mapping[str, int]) -> int:
        """Return how much the term grows for each lost pod of a gang, whole loss or not."""
        if not self.counts(gang):
            return 0
        if self.name in ("lost_pods", "disrupted_pods"):
            return 1
        if self.name.startswith(LOST):
            return request.get(self.name.removeprefix(LOST), 0)
        return 0

    def cost_of_move(self, gang: Gang) -> int:
        """Return how much the term grows for each pod of a gang that moves."""
        return int(self.name in ("moved_pods", "disrupted_pods") and self.counts(gang))


@dataclass(frozen=True, slots=True)
class Objective:
    """The terms that can differ from 0, the most important one first."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, instance: Instance) -> Objective:
        """Return the objective of an instance. Time O(terms * pod groups)."""
        return cls(tuple(_terms_of(instance)))

    @property
    def largest(self) -> int:
        """The integer that encodes the largest value of every term."""
        return self.encode([term.largest for term in self.terms])

    def encode(self, values: Sequence[int]) -> int:
        """Return the integer whose order is that of the tuples of values.

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
        """Return the values that an integer encodes; a bound decodes to a bound on the tuple."""
        values = []
        for term in reversed(self.terms[1:]):
            code, value = divmod(code, term.largest + 1)
            values.append(value)
        return (code, *reversed(values)) if self.terms else ()

    @property
    def units(self) -> tuple[int, ...]:
        """How much the encoded integer grows if a term grows by 1, for each term."""
        unit = 1
        found = []
        for term in reversed(self.terms):
            found.append(unit)
            unit *= term.largest + 1
        return tuple(reversed(found))


def _terms_of(instance: Instance) -> Iterator[Term]:
    losing = [gang for gang in instance.gangs if instance.may_lose_pods(gang)]
    touched = [
        gang
        for gang in instance.gangs
        if instance.may_lose_pods(gang) or instance.may_move_pods(gang)
    ]
    for name in instance.objective:
        if name.endswith(_BY_PRIORITY):
            base = name.removesuffix(_BY_PRIORITY)
            levels = sorted({gang.priority for gang in touched}, reverse=True)
            terms = [Term(base, level, 1) for level in levels]
        else:
            terms = [Term(name, None, 1)]
        for term in terms:
            largest = _largest(instance, term, losing, touched)
            if largest:
                yield Term(term.name, term.priority, largest)


def _largest(
    instance: Instance, term: Term, losing: Sequence[Gang], touched: Sequence[Gang]
) -> int:
    """Return the largest value that a term can have in a solution."""
    if term.name == "unplaced":
        shapes = instance.demand.shapes if instance.demand else ()
        return sum(shape.count - shape.min_count for shape in shapes)
    if term.name == "extra_domains":
        demand = instance.demand
        if demand is None or demand.level is None or demand.is_level_required:
            return 0
        domains = {
            node.domains[demand.level] for node in instance.nodes if demand.level in node.domains
        }
        return min(len(domains), sum(int(shape.count) for shape in demand.shapes)) - 1
    if term.name == "budget_excess":
        return sum(_largest_excess(instance, budget) for budget in instance.budgets)
    if term.name in ("moved_pods", "disrupted_pods"):
        moving = (gang for gang in touched if instance.may_move_pods(gang))
        gangs = moving if term.name == "moved_pods" else touched
        return sum(int(gang.size) for gang in gangs if term.counts(gang))
    return sum(term.cost_of_loss(gang) for gang in losing)


def _largest_excess(instance: Instance, budget: Budget) -> int:
    """Return the largest excess over a soft budget; 0 for a hard one."""
    if budget.is_hard:
        return 0
    gangs = (instance.gangs[instance.gang_position[name]] for name in budget.gangs)
    term = Term(budget.counts, None, 1)
    most: int = budget.used + sum(
        term.cost_of_loss(gang)
        for gang in gangs
        if instance.may_lose_pods(gang)
        or (budget.counts == "disrupted_pods" and instance.may_move_pods(gang))
    )
    return max(0, most - int(budget.most))
