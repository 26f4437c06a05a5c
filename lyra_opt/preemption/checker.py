"""Recompute feasibility and objective of a preemption solution from the records of the instance.

The checker is written for clarity. It reads neither the arrays of the algorithms nor the cost
functions of the objective's terms, so that an error there cannot hide here.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lyra_opt.core.fields import declared, key
from lyra_opt.core.problem import CheckReport
from lyra_opt.core.rules import Integer, ListOf, Named, Text
from lyra_opt.preemption.costs import LOST
from lyra_opt.preemption.instance import (
    Budget,
    Gang,
    Instance,
    LostPods,
    MovedPods,
    Solution,
    matches,
)
from lyra_opt.preemption.objective import Term

CODE = Integer(most=math.inf)
"""The rule for objectives, which encode the values of all terms and can be large."""

AMOUNT = Integer(most=2**100)
"""The rule for sums, which may exceed the largest integer in a file."""


@declared()
class Report(CheckReport):
    """The checker's report on a preemption solution: violations, objective, and lost amounts."""

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
    """The effect of a solution on one gang: whether it is lost, and the pods of each group."""

    is_lost: bool = False
    lost: Counter[int] = field(default_factory=Counter)
    moved: Counter[int] = field(default_factory=Counter)

    def amounts(self, gang: Gang) -> Counter[str]:
        """Return the lost and moved amounts of the gang, by the names of terms and budgets."""
        lost, moved = self.lost.total(), self.moved.total()
        found = Counter(lost_pods=lost, moved_pods=moved, disrupted_pods=lost + moved)
        if self.is_lost:
            found.update(lost_gangs=1, weighted_gangs=gang.weight)
        for position, count in self.lost.items():
            for resource, amount in gang.pods[position].request.items():
                found[f"{LOST}{resource}"] += amount * count
        return found


def check(instance: Instance, solution: Solution) -> Report:
    """Return the report on `solution`: the rules that it breaks, or the values of its terms.

    Time O(nodes + pod groups + entries of the solution + terms * gangs).
    """
    if violations := list(_wrong_references(instance, solution)):
        return Report.invalid(violations)
    effects = _effects(instance, solution)
    touched = [gang for gang in instance.gangs if gang.id in effects]
    amounts = {gang.id: effects[gang.id].amounts(gang) for gang in touched}
    violations += _broken_gangs(instance, touched, effects)
    violations += _broken_nodes(instance, solution, effects)
    violations += _broken_demand(instance, solution)
    violations += _broken_choice(instance, solution)
    for budget in instance.budgets:
        used = _used(budget, amounts)
        if budget.is_hard and used > budget.most:
            violations.append(
                f"budget {budget.id!r} allows {budget.most} {budget.counts}, but {used} are used"
            )
    if violations:
        return Report.invalid(violations)
    terms = {
        term.key: _value_of(instance, solution, amounts, term) for term in instance.terms.terms
    }
    total = Counter[str]()
    for each in amounts.values():
        total.update(each)
    lost = {name: total[f"{LOST}{name}"] for name in instance.resources}
    return Report(
        objective=instance.terms.encode(list(terms.values())),
        terms=terms,
        victims=tuple(name for name, lost in amounts.items() if lost["lost_pods"]),
        lost_pods_in_all=total["lost_pods"],
        moved_pods_in_all=total["moved_pods"],
        lost_resources={name: amount for name, amount in lost.items() if amount},
        unplaced_pods=_unplaced(instance, solution),
    )


def _wrong_references(instance: Instance, solution: Solution) -> Iterator[str]:
    """Yield the entries that refer to nothing, or to a gang that is lost whole."""
    entries: list[LostPods | MovedPods] = [*solution.lost_pods, *solution.moved_pods]
    gangs = [*solution.lost_gangs, *(entry.gang for entry in entries)]
    nodes = [entry.to for entry in solution.moved_pods]
    nodes += [*(entry.node for entry in solution.placements), *solution.emptied_nodes]
    shapes = {shape.id for shape in instance.demand.shapes} if instance.demand else set()
    for kind, names, known in (
        ("gang", gangs, instance.gang_position),
        ("node", nodes, instance.node_position),
        ("shape", [entry.shape for entry in solution.placements], shapes),
    ):
        whole = "demand" if kind == "shape" else "instance"
        yield from (f"{kind} {name!r} is not in the {whole}" for name in names if name not in known)
    lost = {*solution.lost_gangs}
    for entry in entries:
        position = instance.gang_position.get(entry.gang)
        if position is not None and entry.group >= len(instance.gangs[position].pods):
            yield f"gang {entry.gang!r} has no pod group {entry.group}"
        if entry.gang in lost:
            yield f"gang {entry.gang!r} is lost whole and has other entries"


def _effects(instance: Instance, solution: Solution) -> dict[str, _Effect]:
    """Return the effect on each gang that loses or moves pods, by id."""
    effects = defaultdict[str, _Effect](_Effect)
    for name in solution.lost_gangs:
        pods = enumerate(instance.gangs[instance.gang_position[name]].pods)
        effects[name] = _Effect(is_lost=True, lost=Counter({p: group.count for p, group in pods}))
    for lost in solution.lost_pods:
        effects[lost.gang].lost[lost.group] += lost.count
    for moved in solution.moved_pods:
        effects[moved.gang].moved[moved.group] += moved.count
    return dict(effects)


def _broken_gangs(
    instance: Instance, touched: list[Gang], effects: Mapping[str, _Effect]
) -> Iterator[str]:
    """Yield which gangs lose or move pods although they may not, or too many pods."""
    for gang in touched:
        effect = effects[gang.id]
        if effect.lost.total() and not instance.may_lose_pods(gang):
            yield f"gang {gang.id!r} may not lose pods"
        if effect.moved.total() and not instance.may_move_pods(gang):
            yield f"pods of gang {gang.id!r} may not move"
        for position, group in enumerate(gang.pods):
            gone = effect.lost[position] + effect.moved[position]
            if gone > group.count:
                yield (
                    f"{gone} pods of group {position} of gang {gang.id!r} are lost or moved, but "
                    f"it has {group.count}"
                )
        left = gang.size - effect.lost.total()
        if not effect.is_lost and left < gang.min_pods:
            yield (
                f"gang {gang.id!r} keeps {left} pods, fewer than its minimum of {gang.min_pods}, "
                "and is not lost whole"
            )


def _broken_nodes(
    instance: Instance, solution: Solution, effects: Mapping[str, _Effect]
) -> Iterator[str]:
    """Yield where pods come to closed nodes, stay on nodes to be emptied, or do not fit."""
    held = {node.id: Counter[str]() for node in instance.nodes}
    pods_on: Counter[str] = Counter()

    def add(node_id: str, request: Mapping[str, int], count: int) -> None:
        pods_on[node_id] += count
        for resource, amount in request.items():
            held[node_id][resource] += amount * count

    for gang in instance.gangs:
        effect = effects.get(gang.id)
        for position, group in enumerate(gang.pods):
            gone = effect.lost[position] + effect.moved[position] if effect else 0
            add(group.node, group.request, group.count - gone)
    for entry in solution.moved_pods:
        group = instance.gangs[instance.gang_position[entry.gang]].pods[entry.group]
        if entry.to == group.node:
            yield f"pods of gang {entry.gang!r} move from {entry.to!r} to itself"
        if not matches(instance.nodes[instance.node_position[entry.to]], group.selector):
            yield (
                f"pods of gang {entry.gang!r} move to {entry.to!r}, which lacks a label of their "
                "selector"
            )
        add(entry.to, group.request, entry.count)
    shapes = {shape.id: shape for shape in instance.demand.shapes} if instance.demand else {}
    for placed in solution.placements:
        add(placed.node, shapes[placed.shape].request, placed.count)
    emptied = {*solution.emptied_nodes}
    arrivals = {entry.to for entry in solution.moved_pods}
    arrivals |= {placed.node for placed in solution.placements}
    for node in instance.nodes:
        if node.id in arrivals and not node.is_usable:
            yield f"pods come to node {node.id!r}, which is not usable"
        if pods_on[node.id] and (node.must_be_empty or node.id in emptied):
            yield f"node {node.id!r} is to be empty, but holds pods"
        for resource, amount in held[node.id].items():
            if amount > node.capacity.get(resource, 0):
                yield (
                    f"node {node.id!r} holds {amount} {resource}, more than its capacity of "
                    f"{node.capacity.get(resource, 0)}"
                )


def _broken_demand(instance: Instance, solution: Solution) -> Iterator[str]:
    """Yield violations of the rules for the number, nodes and domains of the placed pods."""
    demand = instance.demand
    if demand is None:
        return
    on_node: Counter[tuple[str, str]] = Counter()
    for entry in solution.placements:
        on_node[entry.shape, entry.node] += entry.count
    for shape in demand.shapes:
        counts = {node: count for (name, node), count in on_node.items() if name == shape.id}
        for node_id, count in counts.items():
            node = instance.nodes[instance.node_position[node_id]]
            if not matches(node, shape.selector):
                yield f"shape {shape.id!r} is on {node_id!r}, which lacks a label of its selector"
            if demand.level not in (None, *node.domains):
                yield f"node {node_id!r} has no domain at level {demand.level!r}"
            if shape.max_per_node is not None and count > shape.max_per_node:
                yield (
                    f"{count} pods of shape {shape.id!r} are on {node_id!r}, more than "
                    f"{shape.max_per_node}"
                )
        placed = sum(counts.values())
        if not shape.min_count <= placed <= shape.count:
            yield (
                f"{placed} pods of shape {shape.id!r} are placed; they must be from "
                f"{shape.min_count} to {shape.count}"
            )
    used = _domains_used(instance, solution)
    if demand.is_level_required and len(used) > 1:
        yield (
            f"pending pods are in {len(used)} domains of level {demand.level!r}, but one is "
            "required"
        )


def _domains_used(instance: Instance, solution: Solution) -> set[str]:
    """Return the domains with pending pods at the level of the demand; empty without a level."""
    level = instance.demand.level if instance.demand else None
    nodes = (instance.nodes[instance.node_position[each.node]] for each in solution.placements)
    return {node.domains[level] for node in nodes if level is not None and level in node.domains}


def _broken_choice(instance: Instance, solution: Solution) -> Iterator[str]:
    """Yield violations of the rules for the number and the choice of the emptied nodes."""
    for name in solution.emptied_nodes:
        if not instance.can_be_chosen_empty(instance.nodes[instance.node_position[name]]):
            yield f"node {name!r} is not among those that can be chosen to be emptied"
    if len(solution.emptied_nodes) != instance.empty_nodes:
        yield (
            f"{len(solution.emptied_nodes)} nodes are chosen to be emptied, not "
            f"{instance.empty_nodes}"
        )


def _unplaced(instance: Instance, solution: Solution) -> int:
    wanted = sum(shape.count for shape in instance.demand.shapes) if instance.demand else 0
    return wanted - sum(entry.count for entry in solution.placements)


def _value_of(
    instance: Instance, solution: Solution, amounts: Mapping[str, Counter[str]], term: Term
) -> int:
    """Return the value of a term of the objective."""
    if term.name == "unplaced":
        return _unplaced(instance, solution)
    if term.name == "budget_excess":
        uses = (
            _used(budget, amounts) - budget.most
            for budget in instance.budgets
            if not budget.is_hard
        )
        return sum(max(0, excess) for excess in uses)
    if term.name == "extra_domains":
        return max(0, len(_domains_used(instance, solution)) - 1)
    return sum(
        amounts[gang.id][term.name]
        for gang in instance.gangs
        if gang.id in amounts and term.priority in (None, gang.priority)
    )


def _used(budget: Budget, amounts: Mapping[str, Counter[str]]) -> int:
    """Return the use of a budget by earlier disruptions and by the solution."""
    return budget.used + sum(
        amounts[name][budget.counts] for name in budget.gangs if name in amounts
    )
