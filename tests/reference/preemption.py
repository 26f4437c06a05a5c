"""Preemption in the plainest way: every way to lose and move pods, and every way to place pods."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, product
from math import prod
from typing import Any, NamedTuple

from tests.reference.drawing import INFEASIBLE, UNKNOWN, Document, require

VARIANTS = ("none", "victims", "any")
MAXIMISED: tuple[str, ...] = ()
MOST_EFFECTS = 20_000
"""Combinations of effects on all gangs above which the optimum counts as unknown."""

Effect = list[tuple[int, dict[str, int]]]
"""The effect on a gang: lost pods and moved pods by node, for each of its pod groups."""


class Term(NamedTuple):
    """What an integer of the objective counts, at which priority, and its largest value."""

    name: str
    priority: int | None
    largest: int


def candidates(document: Document) -> list[str]:
    """Return the ids of the nodes that a solution may choose to empty."""
    return [
        node["id"]
        for node in document["nodes"]
        if not node.get("must_be_empty") and has_labels(node, document.get("empty_selector", {}))
    ]


def has_labels(node: Document, selector: Mapping[str, str]) -> bool:
    """Return whether a node has the labels of a selector."""
    return all(node.get("labels", {}).get(name) == value for name, value in selector.items())


def may_lose(document: Document, gang: Document) -> bool:
    """Return whether a gang may lose pods."""
    demand = document.get("demand")
    rule = document.get("victims") or ("lower" if demand else "any")
    if gang.get("is_protected") or rule == "none":
        return False
    if demand is None or rule == "any":
        return True
    if rule == "other-queue":
        return bool(gang.get("queue", "default") != demand.get("queue", "default"))
    mine, other = gang.get("priority", 0), demand.get("priority", 0)
    return bool(mine < other or (rule == "lower-or-equal" and mine == other))


def may_move(document: Document, gang: Document) -> bool:
    """Return whether pods of a gang may move."""
    if not gang.get("is_movable", True) or document["moves"] == "none":
        return False
    return document["moves"] == "any" or may_lose(document, gang)


def targets(document: Document, gang: Document, group: Document) -> list[str]:
    """Return the ids of the nodes to which pods of a pod group may move."""
    return [
        node["id"]
        for node in document["nodes"]
        if may_move(document, gang)
        and node["id"] != group["node"]
        and node.get("is_usable", True)
        and not node.get("must_be_empty")
        and has_labels(node, group.get("selector", {}))
    ]


def size(gang: Document) -> int:
    """Return the number of pods of a gang."""
    return sum(group.get("count", 1) for group in gang["pods"])


def spreads(most: int, places: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to put at most `most` equal things at so many places."""
    if not places:
        yield ()
        return
    for here in range(most + 1):
        for rest in spreads(most - here, places - 1):
            yield (here, *rest)


def effects(document: Document, gang: Document) -> Iterator[Effect]:
    """Yield every effect on a gang that leaves none of its pods, or its minimum."""
    by_group = []
    for group in gang["pods"]:
        count, nodes = group.get("count", 1), targets(document, gang, group)
        by_group.append(
            [
                (lost, {node: moved for node, moved in zip(nodes, spread, strict=True) if moved})
                for lost in range((count if may_lose(document, gang) else 0) + 1)
                for spread in spreads(count - lost, len(nodes))
            ]
        )
    for effect in product(*by_group):
        left = size(gang) - sum(lost for lost, _ in effect)
        if left == 0 or left >= gang.get("min_pods", size(gang)):
            yield list(effect)


def counted(name: str, gang: Document, effect: Effect) -> int:
    """Return how much of a quantity an effect on a gang is."""
    lost = sum(lost for lost, _ in effect)
    moved = sum(sum(to.values()) for _, to in effect)
    if name in ("lost_gangs", "weighted_gangs"):
        return (lost == size(gang)) * (gang.get("weight", 1) if name == "weighted_gangs" else 1)
    if name.startswith("lost:"):
        pairs = zip(effect, gang["pods"], strict=True)
        return sum(lost * group["request"].get(name[5:], 0) for (lost, _), group in pairs)
    return lost * (name in ("lost_pods", "disrupted_pods")) + moved * (
        name in ("moved_pods", "disrupted_pods")
    )


def worst(document: Document, name: str, gang: Document) -> int:
    """Return the most that a gang adds to a quantity: lost whole, or moved whole."""
    counts = [group.get("count", 1) for group in gang["pods"]]
    return max(
        counted(name, gang, [(count, {}) for count in counts]) * may_lose(document, gang),
        counted(name, gang, [(0, {"": count}) for count in counts]) * may_move(document, gang),
    )


def excess(document: Document, use: Mapping[str, int], *, is_hard: bool) -> int:
    """Return by how much hard or soft budgets are exceeded, if `use` says what each counts."""
    return sum(
        max(0, budget.get("used", 0) + use[budget["id"]] - budget["most"])
        for budget in document.get("budgets", [])
        if budget.get("is_hard", True) == is_hard
    )


def names(document: Document) -> list[str]:
    """Return the objective of a document, which may leave it to the default."""
    if document.get("objective"):
        return list(document["objective"])
    has_soft = any(not budget.get("is_hard", True) for budget in document.get("budgets", []))
    has_gpus = any("gpu" in node["capacity"] for node in document["nodes"])
    return [
        *("unplaced", *["budget_excess"] * has_soft, "lost_gangs_by_priority"),
        *("lost:gpu" if has_gpus else "lost_pods", "moved_pods", "extra_domains"),
    ]


def terms(document: Document) -> list[Term]:
    """Return the integers of the objective that may differ from 0, the first one first."""
    gangs, demand = document.get("gangs", []), document.get("demand") or {"shapes": []}
    found = []
    for name in names(document):
        if name == "unplaced":
            spare = [s["count"] - s.get("min_count", s["count"]) for s in demand["shapes"]]
            found.append(Term(name, None, sum(spare)))
        elif name == "extra_domains":
            level, pods = demand.get("level"), sum(s["count"] for s in demand["shapes"])
            domains = {node.get("domains", {}).get(level) for node in document["nodes"]} - {None}
            most = 0 if demand.get("is_level_required", True) else min(len(domains), pods) - 1
            found.append(Term(name, None, max(0, most)))
        elif name == "budget_excess":
            use = budget_use(document, lambda counts, gang: worst(document, counts, gang))
            found.append(Term(name, None, excess(document, use, is_hard=False)))
        else:
            base, is_split = name.removesuffix("_by_priority"), name.endswith("_by_priority")
            levels = {gang.get("priority", 0) if is_split else None for gang in gangs}
            for level in sorted(levels, reverse=True) if is_split else levels:
                counts = [
                    worst(document, base, g)
                    for g in gangs
                    if level is None or g.get("priority", 0) == level
                ]
                found.append(Term(base, level, sum(counts)))
    return [term for term in found if term.largest]


def budget_use(document: Document, counted_in: Any) -> dict[str, int]:
    """Return what each budget counts, where `counted_in` says what a gang adds to a quantity."""
    return {
        budget["id"]: sum(
            counted_in(budget.get("counts", "disrupted_pods"), gang)
            for gang in document.get("gangs", [])
            if gang["id"] in budget["gangs"]
        )
        for budget in document.get("budgets", [])
    }


def after(document: Document, effect_of: Mapping[str, Effect]) -> tuple[Any, Counter[str]]:
    """Return the free amounts and the number of pods on each node after effects on all gangs."""
    free = {node["id"]: Counter(node["capacity"]) for node in document["nodes"]}
    held = Counter[str]()
    for gang in document.get("gangs", []):
        for group, (lost, to) in zip(gang["pods"], effect_of[gang["id"]], strict=True):
            stay = group.get("count", 1) - lost - sum(to.values())
            for node, count in (*to.items(), (group["node"], stay)):
                held[node] += count
                take(free[node], group["request"], count)
    return free, held


def take(free: Counter[str], request: Mapping[str, int], pods: int) -> None:
    """Subtract the requests of so many pods from what is free on a node."""
    for resource, amount in request.items():
        free[resource] -= amount * pods


def fits(free: Iterable[Counter[str]]) -> bool:
    """Return whether no node has less than nothing free."""
    return all(amount >= 0 for amounts in free for amount in amounts.values())


def placements(
    document: Document, free: Mapping[str, Counter[str]], closed: Iterable[str]
) -> set[tuple[int, int]]:
    """Return the pairs of unplaced pods and used domains that are possible."""
    demand = document.get("demand") or {"shapes": []}
    level, found = demand.get("level"), set()
    nodes = [
        node
        for node in document["nodes"]
        if node.get("is_usable", True)
        and node["id"] not in closed
        and (level is None or level in node.get("domains", {}))
    ]

    def place(position: int, left: list[Counter[str]], unplaced: int, used: set[str]) -> None:
        if position == len(demand["shapes"]):
            if len(used) <= 1 or not demand.get("is_level_required", True):
                found.add((unplaced, len(used)))
            return
        shape = demand["shapes"][position]
        for spread in spreads(shape["count"], len(nodes)):
            placed = sum(spread)
            there = [node for here, node in zip(spread, nodes, strict=True) if here]
            if (
                placed >= shape.get("min_count", shape["count"])
                and max(spread, default=0) <= (shape.get("max_per_node") or placed)
                and all(has_labels(node, shape.get("selector", {})) for node in there)
            ):
                remaining = [amounts.copy() for amounts in left]
                for here, amounts in zip(spread, remaining, strict=True):
                    take(amounts, shape["request"], here)
                if fits(remaining):
                    domains = {node["domains"][level] for node in there} if level else set()
                    place(
                        position + 1, remaining, unplaced + shape["count"] - placed, used | domains
                    )

    place(0, [free[node["id"]] for node in nodes], 0, set())
    return found


def values_of(
    document: Document, wanted: list[Term], effect_of: Mapping[str, Effect], placed: tuple[int, int]
) -> tuple[int, ...]:
    """Return the values of terms, given the numbers of unplaced pods and used domains."""
    unplaced, domains = placed
    use = budget_use(document, lambda name, gang: counted(name, gang, effect_of[gang["id"]]))
    fixed = {
        "unplaced": unplaced,
        "extra_domains": max(0, domains - 1),
        "budget_excess": excess(document, use, is_hard=False),
    }
    return tuple(
        fixed[name]
        if name in fixed
        else sum(
            counted(name, gang, effect_of[gang["id"]])
            for gang in document.get("gangs", [])
            if level is None or gang.get("priority", 0) == level
        )
        for name, level, _ in wanted
    )


def keeps_budgets(document: Document, effect_of: Mapping[str, Effect]) -> bool:
    """Return whether effects on all gangs keep the hard budgets."""
    use = budget_use(document, lambda name, gang: counted(name, gang, effect_of[gang["id"]]))
    return excess(document, use, is_hard=True) == 0


def best(document: Document) -> tuple[int, ...] | None:
    """Return the least values of `terms` in lexicographic order; None if nothing is feasible."""
    gangs, wanted = document.get("gangs", []), terms(document)
    known: dict[Any, set[tuple[int, int]]] = {}
    least: tuple[int, ...] | None = None
    named = [node["id"] for node in document["nodes"] if node.get("must_be_empty")]
    for choice in product(*(effects(document, gang) for gang in gangs)):
        effect_of = {gang["id"]: effect for gang, effect in zip(gangs, choice, strict=True)}
        free, held = after(document, effect_of)
        if not fits(free.values()) or not keeps_budgets(document, effect_of):
            continue
        for emptied in combinations(candidates(document), document.get("empty_nodes", 0)):
            closed = (*named, *emptied)
            if any(held[node] for node in closed):
                continue
            key = (closed, str(free))
            if key not in known:
                known[key] = placements(document, free, closed)
            found = [values_of(document, wanted, effect_of, placed) for placed in known[key]]
            least = min([*found, *([] if least is None else [least])], default=None)
    return least


def encoded(document: Document, values: Iterable[int]) -> int:
    """Return the number in a mixed radix whose digits are the values of `terms`."""
    code = 0
    for term, value in zip(terms(document), values, strict=True):
        code = code * (term.largest + 1) + value
    return code


def optimum(document: Document) -> Any:
    """Return the least encoded objective, `INFEASIBLE`, or `UNKNOWN` if there is much to try."""
    ways = prod(sum(1 for _ in effects(document, gang)) for gang in document.get("gangs", []))
    if ways > MOST_EFFECTS:
        return UNKNOWN
    values = best(document)
    return INFEASIBLE if values is None else encoded(document, values)


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a solution loses and moves, and the value of each term."""
    gangs = {gang["id"]: gang for gang in document.get("gangs", [])}
    effect_of = _effects_of(gangs, chosen)
    for name, gang in gangs.items():
        _require_allowed(document, gang, effect_of[name], name in chosen["lost_gangs"])
    free, held = after(document, effect_of)
    placed = _places(document, chosen["placements"], free, held)
    emptied = chosen["emptied_nodes"]
    require(len(emptied) == len(set(emptied)), "a node is chosen twice")
    require(len(emptied) == document.get("empty_nodes", 0), "another number of nodes is chosen")
    require(set(emptied) <= set(candidates(document)), "a node may not be chosen")
    named = {node["id"] for node in document["nodes"] if node.get("must_be_empty")}
    require(not any(held[name] for name in named.union(emptied)), "a node is not empty")
    require(fits(free.values()), "no capacity")
    require(keeps_budgets(document, effect_of), "a budget is broken")
    wanted = terms(document)
    values = values_of(document, wanted, effect_of, placed)
    keys = [name if level is None else f"{name}@{level}" for name, level, _ in wanted]
    lost = Counter[str]()
    for name, effect in effect_of.items():
        for group, (count, _) in zip(gangs[name]["pods"], effect, strict=True):
            take(lost, group["request"], -count)
    lost_of = {name: sum(count for count, _ in effect) for name, effect in effect_of.items()}
    moves = [sum(to.values()) for effect in effect_of.values() for _, to in effect]
    return {
        "objective": encoded(document, values),
        "terms": dict(zip(keys, values, strict=True)),
        "victims": tuple(name for name, count in lost_of.items() if count),
        "lost_pods_in_all": sum(lost_of.values()),
        "moved_pods_in_all": sum(moves),
        "lost_resources": {name: amount for name, amount in lost.items() if amount},
        "unplaced_pods": placed[0],
    }


def _effects_of(gangs: Mapping[str, Document], chosen: Mapping[str, Any]) -> dict[str, Effect]:
    """Return the effect of a solution on each gang, whether or not it is allowed."""
    whole = chosen["lost_gangs"]
    require(len(set(whole)) == len(whole), "a gang is lost twice")
    require(set(whole) <= set(gangs), "a lost gang is unknown")
    effect_of: dict[str, Effect] = {
        name: [(group.get("count", 1) * (name in whole), {}) for group in gang["pods"]]
        for name, gang in gangs.items()
    }
    for entry in (*chosen["lost_pods"], *chosen["moved_pods"]):
        require(entry["gang"] in gangs, "the gang of a pod is unknown")
        require(entry["gang"] not in whole, "a pod of a lost gang is named")
        effect, position = effect_of[entry["gang"]], entry.get("group", 0)
        require(position < len(effect), "a pod group is unknown")
        (lost, moved), count = effect[position], entry.get("count", 1)
        if "to" in entry:
            moved[entry["to"]] = moved.get(entry["to"], 0) + count
        else:
            effect[position] = (lost + count, moved)
    return effect_of


def _require_allowed(document: Document, gang: Document, effect: Effect, is_whole: bool) -> None:
    """Require that the gang may lose and move these pods, and keeps enough of them."""
    for group, (lost, to) in zip(gang["pods"], effect, strict=True):
        require(not lost or may_lose(document, gang), "a gang may not lose pods")
        allowed = targets(document, gang, group)
        require(set(to) <= set(allowed), "a pod moves to a node to which it may not move")
        gone = lost + sum(to.values())
        require(gone <= group.get("count", 1), "more pods are lost or moved than there are")
    left = size(gang) - sum(lost for lost, _ in effect)
    require(is_whole or left >= gang.get("min_pods", size(gang)), "a gang keeps too few pods")


def _places(
    document: Document, chosen: list[Document], free: Mapping[str, Counter[str]], held: Counter[str]
) -> tuple[int, int]:
    """Take what placed pods hold; return the numbers of unplaced pods and of used domains."""
    nodes = {node["id"]: node for node in document["nodes"]}
    demand = document.get("demand") or {"shapes": []}
    shapes = {shape.get("id", "pod"): shape for shape in demand["shapes"]}
    placed, on_node, used = Counter[str](), Counter[tuple[str, str]](), set()
    level = demand.get("level")
    for entry in chosen:
        name, count = entry.get("shape", "pod"), entry.get("count", 1)
        require(name in shapes and entry["node"] in nodes, "a placement is of nothing")
        shape, node = shapes[name], nodes[entry["node"]]
        require(node.get("is_usable", True), "a pod is placed on a cordoned node")
        require(has_labels(node, shape.get("selector", {})), "a node lacks a label")
        require(level is None or level in node.get("domains", {}), "a node has no domain")
        placed[name] += count
        on_node[name, node["id"]] += count
        most = shape.get("max_per_node")
        require(most is None or on_node[name, node["id"]] <= most, "too many pods are on a node")
        held[node["id"]] += count
        take(free[node["id"]], shape["request"], count)
        used |= {node["domains"][level]} if level is not None else set()
    for name, shape in shapes.items():
        least = shape.get("min_count", shape["count"])
        require(least <= placed[name] <= shape["count"], "too few or too many pods are placed")
    require(len(used) <= 1 or not demand.get("is_level_required", True), "two domains are used")
    return sum(shape["count"] for shape in shapes.values()) - placed.total(), len(used)
