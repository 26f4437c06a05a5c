"""Random small instances of the preemption problem for comparisons with brute force.

They are irregular on purpose: requests of 0, cordoned nodes, nodes without a domain, selectors,
protected gangs, equal priorities, several pod groups of a gang on one node, and demands from
trivial to impossible. Other kinds than mixtures use one feature besides what all gangs have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.preemption import Budget, Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.objective import BUDGET_COUNTS, TERMS

if TYPE_CHECKING:
    import numpy as np

KINDS = (
    "one-shape",
    "several-shapes",
    "vectors",
    "required-level",
    "preferred-level",
    "partial",
    "moves",
    "hard-budgets",
    "soft-budgets",
    "empty-nodes",
    "mixture",
)
"""The kinds of instances that `draw` returns."""

MOST_PODS = 7
MOST_PODS_WITH_MOVES = 5
LABEL = "zone"
USUAL_OBJECTIVES = (
    ("lost_pods_by_priority", "lost:gpu"),
    ("unplaced", "lost_pods_by_priority", "lost_gangs"),
    ("weighted_gangs",),
    ("unplaced", "weighted_gangs", "lost_pods"),
    ("disrupted_pods", "unplaced"),
    ("disrupted_pods_by_priority", "lost:gpu", "moved_pods"),
    ("lost_gangs", "moved_pods", "lost_pods"),
    ("lost:cpu", "lost_gangs_by_priority", "unplaced"),
)


class _Dice:
    """Choices by a random generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def pick(self, *options: Any) -> Any:
        return options[int(self._rng.integers(len(options)))]

    def between(self, least: int, most: int) -> int:
        return int(self._rng.integers(least, most + 1))

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def some(self, options: Any) -> list[Any]:
        """Return at least one of the options, in random order."""
        order = self._rng.permutation(len(options))[: self.between(1, len(options))]
        return [options[int(position)] for position in order]


def draw(rng: np.random.Generator, kind: str) -> Instance:
    """Return an instance of one of `KINDS`, small enough for brute force.

    It has 2 to 5 nodes, at most 7 running pods (5 with moves) and at most 5 pending pods.

    Raises
    ------
    ValueError
        If the kind is unknown.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    dice = _Dice(rng)
    has = {each: kind == each or (kind == "mixture" and dice.chance(0.4)) for each in KINDS}
    has["preferred-level"] &= not has["required-level"]
    resources = ("gpu", *dice.pick(("cpu",), ("cpu", "pods"))) if has["vectors"] else ("gpu",)
    has_level = has["required-level"] or has["preferred-level"]
    is_emptying = has["empty-nodes"]
    nodes = [
        Node(
            id=f"n{n}",
            capacity={
                name: dice.pick(1, 2, 3, 4, 4, 6, 8)
                for name in resources
                if n == 0 or dice.chance(0.95)
            },
            domains={"rack": dice.pick("r0", "r1", "r2")}
            if has_level and (n == 0 or dice.chance(0.85))
            else {},
            labels={LABEL: dice.pick("a", "b")} if dice.chance(0.8) else {},
            is_usable=dice.chance(0.88),
            must_be_empty=is_emptying and dice.chance(0.3),
        )
        for n in range(dice.between(2, 4 if has["moves"] else 5))
    ]
    gangs = _gangs(dice, nodes, has, resources)
    nodes = [_filled(dice, node, gangs) for node in nodes]
    empty_selector = {LABEL: "a"} if is_emptying and dice.chance(0.4) else {}
    candidates = sum(
        not node.must_be_empty and (not empty_selector or node.labels.get(LABEL) == "a")
        for node in nodes
    )
    empty_nodes = dice.between(0, min(2, candidates)) if is_emptying else 0
    must_demand = not empty_nodes and not any(node.must_be_empty for node in nodes)
    demand = None
    if must_demand or not is_emptying or dice.chance(0.5):
        demand = _demand(dice, has, resources)
    budgets = _budgets(dice, gangs, has, resources) if gangs else []
    return Instance(
        name=kind,
        moves=dice.pick("victims", "victims", "any") if has["moves"] else "none",
        nodes=nodes,
        gangs=gangs,
        demand=demand,
        empty_nodes=empty_nodes,
        empty_selector=empty_selector,
        victims=_victims(dice, demand),
        budgets=budgets,
        objective=_objective(dice, has, resources),
    )


def _request(dice: _Dice, resources: tuple[str, ...], *sizes: int) -> dict[str, int]:
    return {name: dice.pick(*sizes) for name in resources if dice.chance(0.95)}


def _gangs(
    dice: _Dice, nodes: list[Node], has: dict[str, bool], resources: tuple[str, ...]
) -> list[Gang]:
    """Return gangs whose pods fit the nodes; groups that do not fit are left out."""
    free = {node.id: dict(node.capacity) for node in nodes}
    most = MOST_PODS_WITH_MOVES if has["moves"] else MOST_PODS
    left = dice.between(most // 2, most) if dice.chance(0.9) else dice.between(0, most)
    gangs: list[Gang] = []
    for _ in range(12):
        groups: list[PodGroup] = []
        for _ in range(dice.pick(1, 1, 2, 2, 3)):
            node = groups[-1].node if groups and dice.chance(0.3) else dice.pick(*nodes).id
            request = _request(dice, resources, 0, 1, 1, 1, 2, 2, 3, 4)
            count = min(left, dice.pick(1, 1, 1, 2, 2, 3))
            there = free[node]
            if not count or any(
                amount * count > there.get(name, 0) for name, amount in request.items()
            ):
                continue
            for name, amount in request.items():
                if amount:
                    there[name] -= amount * count
            left -= count
            selector = {LABEL: dice.pick("a", "b")} if dice.chance(0.25) else {}
            groups.append(PodGroup(node=node, request=request, count=count, selector=selector))
        if not groups:
            continue
        size = sum(group.count for group in groups)
        is_partial = has["partial"] and dice.chance(0.8)
        gangs.append(
            Gang(
                id=f"g{len(gangs)}",
                priority=dice.pick(0, 0, 1, 2, 5),
                pods=groups,
                min_pods=dice.between(1, size) if is_partial else size,
                is_protected=dice.chance(0.1),
                is_movable=dice.chance(0.85),
                queue=dice.pick("default", "default", "x"),
                weight=dice.pick(0, 1, 1, 2, 5),
                start_s=float(dice.between(0, 3)),
            )
        )
    return gangs


def _filled(dice: _Dice, node: Node, gangs: list[Gang]) -> Node:
    """Return a node with little free capacity, in most cases."""
    if dice.chance(0.12):
        return node
    on_node = [group for gang in gangs for group in gang.pods if group.node == node.id]
    used = {
        name: sum(group.count * group.request.get(name, 0) for group in on_node)
        for name in node.capacity
    }
    return replace(
        node,
        capacity={
            name: min(amount, used[name] + dice.pick(0, 0, 0, 0, 1, 2))
            for name, amount in node.capacity.items()
        },
    )


def _demand(dice: _Dice, has: dict[str, bool], resources: tuple[str, ...]) -> Demand:
    shapes: list[Shape] = []
    left = 5
    for _ in range(dice.pick(2, 2, 3) if has["several-shapes"] else 1):
        count = min(left, dice.pick(1, 1, 2, 2, 3) if shapes else dice.pick(1, 1, 2, 2, 3, 4))
        if not count:
            break
        left -= count
        shapes.append(
            Shape(
                id=f"s{len(shapes)}",
                count=count,
                request=_request(
                    dice, resources, *(0, 1, 1, 2) if has["vectors"] else (0, 1, 2, 2, 3, 4)
                ),
                min_count=dice.between(0, count) if dice.chance(0.45) else count,
                max_per_node=dice.pick(1, 1, 2) if dice.chance(0.25) else None,
                selector={LABEL: dice.pick("a", "b")} if dice.chance(0.15) else {},
            )
        )
    has_level = has["required-level"] or has["preferred-level"]
    return Demand(
        priority=dice.pick(1, 2, 3, 9, 9),
        queue=dice.pick("default", "x"),
        shapes=shapes,
        level="rack" if has_level else None,
        is_level_required=has["required-level"],
    )


def _victims(dice: _Dice, demand: Demand | None) -> Any:
    if demand is None:
        return dice.pick(None, "any", "any", "none")
    return dice.pick(None, None, "lower", "lower-or-equal", "other-queue", *["any"] * 5, "none")


def _budgets(
    dice: _Dice, gangs: list[Gang], has: dict[str, bool], resources: tuple[str, ...]
) -> list[Budget]:
    kinds = [hard for hard in (True, False) if has["hard-budgets" if hard else "soft-budgets"]]
    budgets: list[Budget] = []
    for is_hard in [hard for hard in kinds for _ in range(dice.pick(1, 1, 2))]:
        used = dice.pick(0, 0, 0, 1, 3)
        budgets.append(
            Budget(
                id=f"b{len(budgets)}",
                gangs=[gang.id for gang in dice.some(gangs)],
                counts=dice.pick(*BUDGET_COUNTS, f"lost:{dice.pick(*resources)}"),
                most=dice.pick(0, 1, 2, 3) + (used if is_hard else 0),
                used=used,
                is_hard=is_hard,
            )
        )
    return budgets


def _objective(dice: _Dice, has: dict[str, bool], resources: tuple[str, ...]) -> Any:
    """Return the default, a usual objective, or any terms in any order."""
    if dice.chance(0.25):
        return None
    if dice.chance(0.3):
        return tuple(dice.some((*TERMS, *(f"lost:{name}" for name in resources))))
    terms = [
        term
        for term in dice.pick(*USUAL_OBJECTIVES)
        if not term.startswith("lost:") or term.removeprefix("lost:") in resources
    ]
    wanted = ["budget_excess"] * has["soft-budgets"] + ["extra_domains"] * has["preferred-level"]
    for term in wanted:
        terms.insert(dice.between(0, len(terms)), term)
    return tuple(terms)
