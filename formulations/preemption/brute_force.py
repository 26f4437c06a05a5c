"""Brute force for preemption: try every effect on every gang and every placement."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import combinations, product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import require_time
from lyra_opt.formulations.brute_force import (
    BruteForceSolver,
    count_ways_to_take,
    too_many,
    ways_to_take,
)
from lyra_opt.preemption.instance import Moves, Solution, matches
from lyra_opt.preemption.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.core.solver import Unsupported
    from lyra_opt.preemption.instance import Budget, Gang, Instance, PodGroup, Shape

    Amounts = dict[tuple[str, str], int]
    Spread = tuple[tuple[str, int], ...]

MOST_PODS_AND_NODES = 100
MOST_CHOICES = 50_000_000
CHOICES_BETWEEN_TIME_CHECKS = 100


class Effect(NamedTuple):
    """One way to treat a gang: lost pods by group, and moves as (group, node, number)."""

    lost: tuple[int, ...]
    moves: tuple[tuple[int, str, int], ...]

    @property
    def moved(self) -> int:
        """The number of pods that move."""
        return sum(count for _, _, count in self.moves)


class BruteForce(BruteForceSolver):
    """Try every effect on every gang, every choice of emptied nodes and every placement.

    Each node must hold the pods that stay, move in or are placed. An effect is left out if the
    terms of the objective without the pending pods are not better than the incumbent. Of equally
    good solutions the first is kept: gangs in file order, fewer lost pods first. The search reads
    only the records of the instance, not its arrays. Complexity O(effects * emptied * placements).
    """

    of = PROBLEM
    variants = tuple(Moves)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the instance has too many choices to enumerate; None if it has few."""
        shapes = _shapes(instance)
        things = len(instance.nodes) + sum(gang.size for gang in instance.gangs)
        things += sum(shape.count for shape in shapes)
        many = too_many(things, MOST_PODS_AND_NODES, "the instance has {} nodes and pods in all")
        if many is not None:
            return many
        choices = math.comb(len(_candidates(instance)), instance.empty_nodes)
        for gang in instance.gangs:
            for group in gang.pods:
                choices *= count_ways_to_take(_outcomes(instance, gang, group), group.count)
        for shape in shapes:
            rooms = (shape.count for node in instance.nodes if instance.can_place(shape, node))
            choices *= count_ways_to_take([*rooms, shape.count], shape.count)
        said = "pods can be lost, moved and placed in {} ways, whether or not they fit"
        return too_many(choices, MOST_CHOICES, said)

    def improvements(self, instance: Instance) -> Iterator[Solution]:
        """Yield each solution that is better than all earlier ones."""
        search = _Search(instance)
        effects = [list(_effects(instance, gang)) for gang in instance.gangs]
        for tried, chosen in enumerate(product(*effects)):
            if tried % CHOICES_BETWEEN_TIME_CHECKS == 0:
                require_time()
            yield from search.completions(chosen)

    def simple_bound(self, instance: Instance) -> int:  # noqa: ARG002
        """Return 0, a lower bound because no term is negative."""
        return 0


def _shapes(instance: Instance) -> Sequence[Shape]:
    return instance.demand.shapes if instance.demand else ()


def _candidates(instance: Instance) -> list[str]:
    return [node.id for node in instance.nodes if instance.can_be_chosen_empty(node)]


def _targets(instance: Instance, gang: Gang, group: PodGroup) -> list[str]:
    """Return the nodes to which pods of a group may move."""
    if not instance.may_move_pods(gang):
        return []
    return [
        node.id
        for node in instance.nodes
        if node.id != group.node
        and node.is_usable
        and not node.must_be_empty
        and matches(node, group.selector)
    ]


def _outcomes(instance: Instance, gang: Gang, group: PodGroup) -> list[int]:
    """Return how many pods of a group can be lost, move to each target, and stay."""
    targets = _targets(instance, gang, group)
    most = group.count
    return [most * instance.may_lose_pods(gang), *[most] * len(targets), most]


def _effects(instance: Instance, gang: Gang) -> Iterator[Effect]:
    """Yield each way to treat a gang that leaves it its minimum, or no pod."""
    ways = [
        list(ways_to_take(_outcomes(instance, gang, group), group.count)) for group in gang.pods
    ]
    targets = [_targets(instance, gang, group) for group in gang.pods]
    for way in product(*ways):
        lost = tuple(outcome[0] for outcome in way)
        if gang.min_pods <= gang.size - sum(lost) or sum(lost) == gang.size:
            moves = (
                (position, node, count)
                for position, outcome in enumerate(way)
                for node, count in zip(targets[position], outcome[1:-1], strict=True)
                if count
            )
            yield Effect(lost, tuple(moves))


class _Search:
    """The best values of the objective so far, and the placements that are already known."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.terms = instance.terms.terms
        self.best: tuple[int, ...] | None = None
        self._candidates = _candidates(instance)
        self._placed: dict[object, tuple[dict[str, int], list[Spread]] | None] = {}

    def completions(self, chosen: Sequence[Effect]) -> Iterator[Solution]:
        """Yield the solutions with these effects that are better than all earlier ones."""
        if any(
            budget.is_hard and budget.used + self._use(budget, chosen) > budget.most
            for budget in self.instance.budgets
        ):
            return
        if self.best is not None and self._values(chosen, {}) >= self.best:
            return
        free, held = self._loads(chosen)
        if any(amount < 0 for amount in free.values()):
            return
        named = [node.id for node in self.instance.nodes if node.must_be_empty]
        for emptied in combinations(self._candidates, self.instance.empty_nodes):
            if any(held[node] for node in (*named, *emptied)):
                continue
            key = (tuple(free.values()), emptied)
            if key not in self._placed:
                self._placed[key] = self._placement(free, emptied)
            if (placement := self._placed[key]) is not None:
                values = self._values(chosen, placement[0])
                if self.best is None or values < self.best:
                    self.best = values
                    yield self._solution(chosen, emptied, placement[1])

    def _use(self, budget: Budget, chosen: Sequence[Effect]) -> int:
        """Return how much of a budget the effects use."""
        names = set(budget.gangs)
        pairs = zip(self.instance.gangs, chosen, strict=True)
        return sum(
            _quantity(budget.counts, gang, effect) for gang, effect in pairs if gang.id in names
        )

    def _values(self, chosen: Sequence[Effect], of_demand: Mapping[str, int]) -> tuple[int, ...]:
        """Return the values of all terms; those of the demand are given, or 0."""
        soft = [budget for budget in self.instance.budgets if not budget.is_hard]
        values = []
        for term in self.terms:
            if term.name == "budget_excess":
                uses = (each.used + self._use(each, chosen) - each.most for each in soft)
                values.append(sum(max(0, use) for use in uses))
            elif term.name in ("unplaced", "extra_domains"):
                values.append(of_demand.get(term.name, 0))
            else:
                pairs = zip(self.instance.gangs, chosen, strict=True)
                values.append(
                    sum(_quantity(term.name, *each) for each in pairs if term.counts(each[0]))
                )
        return tuple(values)

    def _loads(self, chosen: Sequence[Effect]) -> tuple[Amounts, Mapping[str, int]]:
        """Return the free amount by node and resource, and the number of pods on each node."""
        resources = self.instance.resources
        free = {(n.id, r): n.capacity.get(r, 0) for n in self.instance.nodes for r in resources}
        held: dict[str, int] = defaultdict(int)
        for gang, effect in zip(self.instance.gangs, chosen, strict=True):
            staying = [
                group.count - lost for group, lost in zip(gang.pods, effect.lost, strict=True)
            ]
            arrivals = list(effect.moves)
            for position, _, count in effect.moves:
                staying[position] -= count
            arrivals += [(p, group.node, staying[p]) for p, group in enumerate(gang.pods)]
            for position, node, count in arrivals:
                held[node] += count
                for resource, amount in gang.pods[position].request.items():
                    free[node, resource] -= amount * count
        return free, held

    def _placement(
        self, free: Amounts, closed: Sequence[str]
    ) -> tuple[dict[str, int], list[Spread]] | None:
        """Return the best placement of the pending pods with its values; None if none is valid."""
        demand, shapes = self.instance.demand, _shapes(self.instance)
        order = [term.name for term in self.terms if term.name in ("unplaced", "extra_domains")]
        level = None if demand is None else demand.level
        domain = {node.id: node.domains.get(level or "") for node in self.instance.nodes}
        best: tuple[dict[str, int], list[Spread]] | None = None

        def place(spreads: list[Spread], left: Amounts, unplaced: int) -> None:
            nonlocal best
            if len(spreads) < len(shapes):
                shape = shapes[len(spreads)]
                for spread, after in _spreads(self.instance, shape, left, closed):
                    missing = shape.count - sum(count for _, count in spread)
                    place([*spreads, spread], after, unplaced + missing)
                return
            used = len({domain[node] for spread in spreads for node, _ in spread})
            if demand is not None and demand.is_level_required and used > 1:
                return
            values = {"unplaced": unplaced, "extra_domains": max(0, used - 1)}
            if best is None or [values[name] for name in order] < [best[0][name] for name in order]:
                best = values, spreads

        place([], free, 0)
        return best

    def _solution(
        self, chosen: Sequence[Effect], emptied: Sequence[str], spreads: Sequence[Spread]
    ) -> Solution:
        instance = self.instance
        place = instance.node_position
        placed = np.zeros((len(spreads), len(instance.nodes)), dtype=np.int64)
        for s, spread in enumerate(spreads):
            for node, count in spread:
                placed[s, place[node]] = count
        lost: list[int] = []
        moved: list[tuple[int, int, int]] = []
        for effect in chosen:
            moved += [(len(lost) + k, place[node], count) for k, node, count in effect.moves]
            lost += effect.lost
        return Solution.of_counts(
            instance,
            lost=lost,
            placed=placed,
            moved=moved,
            emptied=[place[node] for node in emptied],
        )


def _quantity(name: str, gang: Gang, effect: Effect) -> int:
    """Return how much an effect on a gang adds to a term or to the use of a budget."""
    lost = sum(effect.lost)
    if name == "lost_gangs":
        return int(lost == gang.size)
    if name == "weighted_gangs":
        return gang.weight * (lost == gang.size)
    if name == "lost_pods":
        return lost
    if name == "moved_pods":
        return effect.moved
    if name == "disrupted_pods":
        return lost + effect.moved
    resource = name.partition(":")[2]
    pairs = zip(gang.pods, effect.lost, strict=True)
    return sum(group.request.get(resource, 0) * count for group, count in pairs)


def _spreads(
    instance: Instance, shape: Shape, free: Amounts, closed: Sequence[str]
) -> Iterator[tuple[Spread, Amounts]]:
    """Yield each way to place pods of a shape that fits, with the amounts that are left."""
    rooms = {}
    for node in instance.nodes:
        if node.id not in closed and instance.can_place(shape, node):
            rooms[node.id] = min(
                shape.count if shape.max_per_node is None else shape.max_per_node,
                *(free[node.id, r] // a for r, a in shape.request.items() if a),
                shape.count,
            )
    ways = ways_to_take([*rooms.values(), shape.count - shape.min_count], shape.count)
    for *counts, _ in ways:
        spread = tuple((node, n) for node, n in zip(rooms, counts, strict=True) if n)
        after = dict(free)
        for name, count in spread:
            for resource, amount in shape.request.items():
                after[name, resource] -= amount * count
        yield spread, after
