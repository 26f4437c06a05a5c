"""Brute force for preemption: all combinations of lost, moved and placed pods."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np

from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import require_time, within_time
from lyra_opt.formulations.brute_force import (
    BruteForceSolver,
    count_ways_to_take,
    too_many,
    ways_to_take,
)
from lyra_opt.preemption.instance import Gang, Instance, Moves, PodGroup, Shape, Solution, matches
from lyra_opt.preemption.problem import PROBLEM

Amounts = dict[tuple[int, str], int]
"""Amounts by position of the node and by resource."""
Effect = tuple[tuple[int, ...], ...]
"""For each pod group of a gang, how many pods are lost, move to each target node, and stay."""
Placement = tuple[tuple[int, ...], ...]
"""For each shape, the pending pods on each node."""

MOST_PODS_AND_NODES = 100
MOST_CHOICES = 10_000_000
CHOICES_BETWEEN_TIME_CHECKS = 100


class BruteForce(BruteForceSolver):
    """Try all combinations of lost and moved pods, emptied nodes and placements.

    An *effect* on a gang says how many of its pods are lost, move and stay. The checker decides
    which solutions are valid, and computes their objectives. For equal free capacities, placements
    are tried once, and only the best one is kept: that with fewer unplaced pods or fewer domains,
    whichever term comes first. If solutions are equally good, the first one is kept; gangs come in
    file order, and effects with fewer lost pods come first. The search reads only the records of
    the instance, not its arrays. Complexity O(effects * emptied * placements).
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
        candidates = sum(map(instance.can_be_chosen_empty, instance.nodes))
        choices = math.comb(candidates, instance.empty_nodes)
        for gang in instance.gangs:
            for group in gang.pods:
                choices *= count_ways_to_take(_rooms(instance, gang, group), group.count)
        for shape in shapes:
            rooms = [shape.count for node in instance.nodes if instance.can_place(shape, node)]
            choices *= count_ways_to_take([*rooms, shape.count], shape.count)
        said = "pods can be lost, moved and placed in {} ways, whether or not they fit"
        return too_many(choices, MOST_CHOICES, said)

    def improvements(self, instance: Instance) -> Iterator[Solution]:
        """Yield each solution that is better than all earlier ones."""
        best: int | None = None
        for solution in _solutions(instance):
            code = PROBLEM.check(instance, solution).objective
            if code is not None and (best is None or code < best):
                best = code
                yield solution

    def simple_bound(self, instance: Instance) -> int:  # noqa: ARG002
        """Return 0, a lower bound because no term is negative."""
        return 0


def _shapes(instance: Instance) -> Sequence[Shape]:
    return instance.demand.shapes if instance.demand else ()


def _targets(instance: Instance, gang: Gang, group: PodGroup) -> list[int]:
    """Return the positions of the nodes to which pods of a group may move."""
    if not instance.may_move_pods(gang):
        return []
    return [
        n
        for n, node in enumerate(instance.nodes)
        if node.id != group.node
        and node.is_usable
        and not node.must_be_empty
        and matches(node, group.selector)
    ]


def _rooms(instance: Instance, gang: Gang, group: PodGroup) -> list[int]:
    """Return how many pods of a group can be lost, can move to each target node, and can stay."""
    most, targets = group.count, _targets(instance, gang, group)
    return [most * instance.may_lose_pods(gang), *[most] * len(targets), most]


def _effects(instance: Instance, gang: Gang) -> Iterator[Effect]:
    """Yield each effect on a gang after which at least its minimum of pods remain, or no pod."""
    for effect in product(
        *(ways_to_take(_rooms(instance, gang, group), group.count) for group in gang.pods)
    ):
        remaining = gang.size - sum(lost for lost, *_ in effect)
        if remaining == 0 or remaining >= gang.min_pods:
            yield effect


def _solutions(instance: Instance) -> Iterator[Solution]:
    """Yield a solution for each combination of effects on all gangs and of emptied nodes."""
    groups = [(gang, group) for gang in instance.gangs for group in gang.pods]
    targets = [_targets(instance, *each) for each in groups]
    candidates = [n for n, node in enumerate(instance.nodes) if instance.can_be_chosen_empty(node)]
    known: dict[object, Placement | None] = {}
    effects = product(*(list(_effects(instance, gang)) for gang in instance.gangs))
    for tried, chosen in enumerate(effects):
        if tried % CHOICES_BETWEEN_TIME_CHECKS == 0:
            require_time()
        of_group = [outcome for effect in chosen for outcome in effect]
        moved = [
            (k, n, count)
            for k, (_, *outcome, _) in enumerate(of_group)
            for n, count in zip(targets[k], outcome, strict=True)
            if count
        ]
        here = [
            (k, instance.node_position[group.node], stay)
            for k, ((_, group), (*_, stay)) in enumerate(zip(groups, of_group, strict=True))
        ]
        free = {
            (n, resource): node.capacity.get(resource, 0)
            for n, node in enumerate(instance.nodes)
            for resource in instance.resources
        }
        for k, n, count in (*moved, *here):
            for resource, amount in groups[k][1].request.items():
                free[n, resource] -= amount * count
        if min(free.values(), default=0) < 0:
            continue
        for emptied in combinations(candidates, instance.empty_nodes):
            key = (*free.values(), emptied)
            if key not in known:
                known[key] = _best_placement(instance, free, emptied)
            if (placed := known[key]) is not None:
                yield Solution.of_counts(
                    instance,
                    lost=[outcome[0] for outcome in of_group],
                    placed=np.array(placed, dtype=np.int64).reshape(-1, len(instance.nodes)),
                    moved=moved,
                    emptied=emptied,
                )


def _best_placement(instance: Instance, free: Amounts, emptied: Sequence[int]) -> Placement | None:
    """Return the best placement of pending pods in the free capacity; None if none is valid."""
    demand = instance.demand
    if demand is None:
        return ()
    domain_of = [node.domains.get(demand.level or "") for node in instance.nodes]
    terms = [term for term in instance.objective if term in ("unplaced", "extra_domains")]
    best: tuple[tuple[int, int], Placement] | None = None
    placements = _placements(instance, demand.shapes, free, emptied)
    for placement in within_time(placements, CHOICES_BETWEEN_TIME_CHECKS):
        domains = {domain_of[n] for counts in placement for n, count in enumerate(counts) if count}
        if len(domains) > 1 and demand.is_level_required:
            continue
        placed, extra = sum(map(sum, placement)), max(0, len(domains) - 1)
        value = (extra, -placed) if terms[:1] == ["extra_domains"] else (-placed, extra)
        if best is None or value < best[0]:
            best = value, placement
    return None if best is None else best[1]


def _placements(
    instance: Instance, shapes: Sequence[Shape], free: Amounts, emptied: Sequence[int]
) -> Iterator[Placement]:
    """Yield each placement of the shapes that fits the nodes, without checking domains."""
    if not shapes:
        yield ()
        return
    shape, *others = shapes
    rooms = [
        min(
            shape.count if shape.max_per_node is None else shape.max_per_node,
            *(free[n, r] // amount for r, amount in shape.request.items() if amount),
            shape.count,
        )
        if instance.can_place(shape, node) and n not in emptied
        else 0
        for n, node in enumerate(instance.nodes)
    ]
    for *counts, _ in ways_to_take([*rooms, shape.count - shape.min_count], shape.count):
        left = dict(free)
        for n, count in enumerate(counts):
            for resource, amount in shape.request.items():
                left[n, resource] -= amount * count
        for rest in _placements(instance, others, left, emptied):
            yield (tuple(counts), *rest)
