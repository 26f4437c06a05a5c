"""Recompute feasibility and objective of a preemption solution from the records of the instance.

The checker is written for clarity. It reads neither the arrays of the algorithms nor the cost
functions of the objective's terms, so that an error there cannot hide here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lyra_opt.core.fields import declared, key
from lyra_opt.core.problem import CheckReport
from lyra_opt.core.rules import Integer, ListOf, Named, Text
from lyra_opt.preemption.costs import LOST
from lyra_opt.preemption.instance import LostPods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.preemption.instance import (
        Budget,
        Demand,
        Gang,
        Instance,
        MovedPods,
        Solution,
    )
    from lyra_opt.preemption.objective import Term

CODE = Integer(most=2**400)
"""The rule for objectives, which encode the values of all terms and can be large."""

AMOUNT = Integer(most=2**100)
"""The rule for sums, which may exceed the largest integer in a file."""


@declared()
class Report(CheckReport):
    """The checker's report on a preemption solution: violations, objective, and what is lost."""

    objective: int | None = key(
        CODE, "the values of the objective's terms as one integer", default=None
    )
    terms: Mapping[str, int] | None = key(
        Named(AMOUNT),
        "value of each term that can differ from 0, the most important one first",
        default=None,
    )
    victims: tuple[str, ...] | None = key(
        ListOf(Text(), least=0), "ids of the gangs that lose pods, in file order", default=None
    )
    lost_pods_in_all: int | None = key(AMOUNT, "number of pods that are lost", default=None)
    moved_pods_in_all: int | None = key(AMOUNT, "number of pods that move", default=None)
    lost_resources: Mapping[str, int] | None = key(
        Named(AMOUNT), "lost amount of each resource", default=None
    )
    unplaced_pods: int | None = key(AMOUNT, "pending pods that are not placed", default=None)


@dataclass
class _Effect:
    """The effect of a solution on one gang, by position of its pod groups."""

    is_lost: bool = False
    lost: Counter[int] = field(default_factory=Counter)
    moved: Counter[int] = field(default_factory=Counter)

    @property
    def lost_pods(self) -> int:
        return self.lost.total()

    @property
    def moved_pods(self) -> int:
        return self.moved.total()


def check(instance: Instance, solution: Solution) -> Report:
    """Return the report on `solution`: the rules that it breaks, or the values of its terms.

    Time O(nodes + pod groups + entries of the solution + terms * gangs).
    """
    violations: list[str] = []
    effects = _effects(instance, solution, violations)
    if not violations:
        _check_gangs(instance, effects, violations)
        _check_capacities(instance, solution, effects, violations)
        _check_demand(instance, solution, violations)
        _check_emptied(instance, solution, violations)
        _check_hard_budgets(instance, effects, violations)
    if violations:
        return Report.invalid(violations)
    terms = {
        term.key: _value_of(instance, solution, effects, term) for term in instance.terms.terms
    }
    lost: dict[str, int] = dict.fromkeys(instance.resources, 0)
    for gang, effect in zip(instance.gangs, effects, strict=True):
        for position, count in effect.lost.items():
            for resource, amount in gang.pods[position].request.items():
                lost[resource] += amount * count
    return Report(
        objective=instance.terms.encode(list(terms.values())),
        terms=terms,
        victims=tuple(
            gang.id
            for gang, effect in zip(instance.gangs, effects, strict=True)
            if effect.lost_pods
        ),
        lost_pods_in_all=sum(effect.lost_pods for effect in effects),
        moved_pods_in_all=sum(effect.moved_pods for effect in effects),
        lost_resources={name: amount for name, amount in lost.items() if amount},
        unplaced_pods=_unplaced(instance.demand, solution),
    )


def _effects(instance: Instance, solution: Solution, violations: list[str]) -> list[_Effect]:
    """Return the effect on each gang; entries that refer to nothing become violations."""
    effects = [_Effect() for _ in instance.gangs]
    for name in solution.lost_gangs:
        if name not in instance.gang_position:
            violations.append(f"gang {name!r} is not in the instance")
            continue
        position = instance.gang_position[name]
        effects[position].is_lost = True
        for group, pods in enumerate(instance.gangs[position].pods):
            effects[position].lost[group] = pods.count
    entries: list[LostPods | MovedPods] = [*solution.lost_pods, *solution.moved_pods]
    for entry in entries:
        if entry.gang not in instance.gang_position:
            violations.append(f"gang {entry.gang!r} is not in the instance")
            continue
        position = instance.gang_position[entry.gang]
        gang, effect = instance.gangs[position], effects[position]
        if entry.group >= len(gang.pods):
            violations.append(f"gang {gang.id!r} has no pod group {entry.group}")
            continue
        if effect.is_lost:
            violations.append(f"gang {gang.id!r} is lost whole and has other entries")
            continue
        counts = effect.lost if isinstance(entry, LostPods) else effect.moved
        counts[entry.group] += entry.count
    return effects


def _check_gangs(instance: Instance, effects: list[_Effect], violations: list[str]) -> None:
    """Check who loses or moves pods, and how many."""
    for gang, effect in zip(instance.gangs, effects, strict=True):
        if effect.lost_pods and not instance.may_lose_pods(gang):
            violations.append(f"gang {gang.id!r} may not lose pods")
        if effect.moved_pods and not instance.may_move_pods(gang):
            violations.append(f"pods of gang {gang.id!r} may not move")
        for position, group in enumerate(gang.pods):
            gone = effect.lost[position] + effect.moved[position]
            if gone > group.count:
                violations.append(
                    f"{gone} pods of group {position} of gang {gang.id!r} are lost or moved, but "
                    f"it has {group.count}"
                )
        left = gang.size - effect.lost_pods
        if not effect.is_lost and left < gang.min_pods:
            violations.append(
                f"gang {gang.id!r} keeps {left} pods, fewer than its minimum of {gang.min_pods}, "
                "and is not lost whole"
            )


def _check_capacities(
    instance: Instance, solution: Solution, effects: list[_Effect], violations: list[str]
) -> None:
    """Check that pods come only to open nodes, that closed nodes are empty, and that all fit."""
    held = {node.id: Counter[str]() for node in instance.nodes}
    pods_on: Counter[str] = Counter()
    arriving: Counter[str] = Counter()

    def add(node_id: str, request: Mapping[str, int], count: int) -> None:
        pods_on[node_id] += count
        for resource, amount in request.items():
            held[node_id][resource] += amount * count

    for gang, effect in zip(instance.gangs, effects, strict=True):
        for position, group in enumerate(gang.pods):
            gone = effect.lost[position] + effect.moved[position]
            add(group.node, group.request, group.count - gone)
    for entry in solution.moved_pods:
        group = instance.gangs[instance.gang_position[entry.gang]].pods[entry.group]
        if entry.to not in held:
            violations.append(f"node {entry.to!r} is not in the instance")
            continue
        if entry.to == group.node:
            violations.append(f"pods of gang {entry.gang!r} move from {entry.to!r} to itself")
        node = instance.nodes[instance.node_position[entry.to]]
        if any(node.labels.get(name) != value for name, value in group.selector.items()):
            violations.append(
                f"pods of gang {entry.gang!r} move to {entry.to!r}, which lacks a label of their "
                "selector"
            )
        arriving[entry.to] += entry.count
        add(entry.to, group.request, entry.count)
    shapes = {shape.id: shape for shape in instance.demand.shapes} if instance.demand else {}
    for placed in solution.placements:
        if placed.node not in held:
            violations.append(f"node {placed.node!r} is not in the instance")
        elif placed.shape in shapes:  # an unknown shape is reported with the demand
            arriving[placed.node] += placed.count
            add(placed.node, shapes[placed.shape].request, placed.count)
    emptied = set(solution.emptied_nodes)
    for node in instance.nodes:
        if arriving[node.id] and not node.is_usable:
            violations.append(f"pods come to node {node.id!r}, which is not usable")
        if pods_on[node.id] and (node.must_be_empty or node.id in emptied):
            violations.append(f"node {node.id!r} is to be empty, but holds pods")
        for resource, amount in held[node.id].items():
            if amount > node.capacity.get(resource, 0):
                violations.append(
                    f"node {node.id!r} holds {amount} {resource}, more than its capacity of "
                    f"{node.capacity.get(resource, 0)}"
                )


def _check_demand(instance: Instance, solution: Solution, violations: list[str]) -> None:
    """Check the number of placed pods of each shape, and the nodes and domains they are on."""
    demand = instance.demand
    shapes = {shape.id: shape for shape in demand.shapes} if demand else {}
    placed: Counter[str] = Counter()
    on_node: Counter[tuple[str, str]] = Counter()
    for entry in solution.placements:
        if entry.shape not in shapes:
            violations.append(f"shape {entry.shape!r} is not in the demand")
            continue
        placed[entry.shape] += entry.count
        on_node[entry.shape, entry.node] += entry.count
    for (name, node_id), count in on_node.items():
        shape = shapes[name]
        if node_id not in instance.node_position:
            continue
        node = instance.nodes[instance.node_position[node_id]]
        if any(node.labels.get(label) != value for label, value in shape.selector.items()):
            violations.append(
                f"shape {name!r} is on {node_id!r}, which lacks a label of its selector"
            )
        if demand is not None and demand.level is not None and demand.level not in node.domains:
            violations.append(f"node {node_id!r} has no domain at level {demand.level!r}")
        if shape.max_per_node is not None and count > shape.max_per_node:
            violations.append(
                f"{count} pods of shape {name!r} are on {node_id!r}, more than {shape.max_per_node}"
            )
    violations += [
        f"{placed[shape.id]} pods of shape {shape.id!r} are placed; they must be from "
        f"{shape.min_count} to {shape.count}"
        for shape in shapes.values()
        if not shape.min_count <= placed[shape.id] <= shape.count
    ]
    if demand is not None and demand.level is not None and demand.is_level_required:
        used = _domains_used(instance, demand, solution)
        if len(used) > 1:
            violations.append(
                f"pending pods are in {len(used)} domains of level {demand.level!r}, but one is "
                "required"
            )


def _domains_used(instance: Instance, demand: Demand, solution: Solution) -> set[str]:
    nodes = (
        instance.nodes[instance.node_position[entry.node]]
        for entry in solution.placements
        if entry.node in instance.node_position
    )
    level = demand.level
    return {node.domains[level] for node in nodes if level is not None and level in node.domains}


def _check_emptied(instance: Instance, solution: Solution, violations: list[str]) -> None:
    """Check how many nodes are chosen to be emptied, and which."""
    for name in solution.emptied_nodes:
        if name not in instance.node_position:
            violations.append(f"node {name!r} is not in the instance")
            continue
        node = instance.nodes[instance.node_position[name]]
        has_labels = all(
            node.labels.get(label) == value for label, value in instance.empty_selector.items()
        )
        if node.must_be_empty or not has_labels:
            violations.append(f"node {name!r} is not among those that can be chosen to be emptied")
    if len(solution.emptied_nodes) != instance.empty_nodes:
        violations.append(
            f"{len(solution.emptied_nodes)} nodes are chosen to be emptied, not "
            f"{instance.empty_nodes}"
        )


def _check_hard_budgets(instance: Instance, effects: list[_Effect], violations: list[str]) -> None:
    for budget in instance.budgets:
        used = budget.used + _counted(instance, effects, budget)
        if budget.is_hard and used > budget.most:
            violations.append(
                f"budget {budget.id!r} allows {budget.most} {budget.counts}, but {used} are used"
            )


def _counted(instance: Instance, effects: list[_Effect], budget: Budget) -> int:
    """Return how much of a budget the solution uses, without what was used before."""
    total = 0
    for name in budget.gangs:
        position = instance.gang_position[name]
        gang, effect = instance.gangs[position], effects[position]
        if budget.counts == "lost_gangs":
            total += effect.is_lost
        elif budget.counts == "lost_pods":
            total += effect.lost_pods
        elif budget.counts == "disrupted_pods":
            total += effect.lost_pods + effect.moved_pods
        else:
            total += _lost_amount(gang, effect, budget.counts.removeprefix(LOST))
    return total


def _lost_amount(gang: Gang, effect: _Effect, resource: str) -> int:
    return sum(
        gang.pods[position].request.get(resource, 0) * count
        for position, count in effect.lost.items()
    )


def _unplaced(demand: Demand | None, solution: Solution) -> int:
    wanted = sum(shape.count for shape in demand.shapes) if demand else 0
    return wanted - sum(entry.count for entry in solution.placements)


def _value_of(instance: Instance, solution: Solution, effects: list[_Effect], term: Term) -> int:
    """Return the value of a term of the objective."""
    if term.name == "unplaced":
        return _unplaced(instance.demand, solution)
    if term.name == "budget_excess":
        return sum(
            max(0, budget.used + _counted(instance, effects, budget) - budget.most)
            for budget in instance.budgets
            if not budget.is_hard
        )
    if term.name == "extra_domains":
        assert instance.demand is not None
        return max(0, len(_domains_used(instance, instance.demand, solution)) - 1)
    total = 0
    for gang, effect in zip(instance.gangs, effects, strict=True):
        if term.priority not in (None, gang.priority):
            continue
        if term.name == "lost_gangs":
            total += effect.is_lost
        elif term.name == "weighted_gangs":
            total += gang.weight * effect.is_lost
        elif term.name == "lost_pods":
            total += effect.lost_pods
        elif term.name == "moved_pods":
            total += effect.moved_pods
        elif term.name == "disrupted_pods":
            total += effect.lost_pods + effect.moved_pods
        else:
            total += _lost_amount(gang, effect, term.name.removeprefix(LOST))
    return total
