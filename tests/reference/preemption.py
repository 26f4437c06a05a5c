"""Preemption in the plainest way: every way to lose and move pods, and every way to place pods."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.reference.drawing import INFEASIBLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.reference.drawing import Document

VARIANTS = ("none", "victims", "any")
MAXIMISED: tuple[str, ...] = ()

Effect = list[tuple[int, dict[str, int]]]
"""The effect on a gang: lost pods and moved pods by node, for each of its pod groups."""


class Term(NamedTuple):
    """What an integer of the objective counts, at which priority, and its largest value."""

    name: str
    priority: int | None
    largest: int


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
        count = group.get("count", 1)
        targets = [
            node["id"]
            for node in document["nodes"]
            if may_move(document, gang)
            and node["id"] != group["node"]
            and node.get("is_usable", True)
            and not node.get("must_be_empty")
            and has_labels(node, group.get("selector", {}))
        ]
        by_group.append(
            [
                (lost, {node: moved for node, moved in zip(targets, spread, strict=True) if moved})
                for lost in range((count if may_lose(document, gang) else 0) + 1)
                for spread in spreads(count - lost, len(targets))
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


def excess(document: Document, use: Mapping[str, int]) -> int:
    """Return by how much soft budgets are exceeded, if `use` says what each counts in addition."""
    return sum(
        max(0, budget.get("used", 0) + use[budget["id"]] - budget["most"])
        for budget in document.get("budgets", [])
        if not budget.get("is_hard", True)
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
            use = {
                budget["id"]: sum(
                    worst(document, budget.get("counts", "disrupted_pods"), gang)
                    for gang in gangs
                    if gang["id"] in budget["gangs"]
                )
                for budget in document.get("budgets", [])
            }
            found.append(Term(name, None, excess(document, use)))
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


def placements(
    document: Document, free: Mapping[str, Mapping[str, int]], closed: Iterable[str]
) -> set[tuple[int, int]]:
    """Return the pairs of unplaced pods and domains beyond the first that are possible."""
    demand = document.get("demand") or {"shapes": []}
    level, found = demand.get("level"), set()
    nodes = [
        node
        for node in document["nodes"]
        if node.get("is_usable", True)
        and node["id"] not in closed
        and (level is None or level in node.get("domains", {}))
    ]

    def place(position: int, left: list[dict[str, int]], unplaced: int, used: set[str]) -> None:
        if position == len(demand["shapes"]):
            if len(used) <= 1 or not demand.get("is_level_required", True):
                found.add((unplaced, max(0, len(used) - 1)))
            return
        shape = demand["shapes"][position]
        for spread in spreads(shape["count"], len(nodes)):
            placed = sum(spread)
            after = [
                {r: amount - here * shape["request"].get(r, 0) for r, amount in amounts.items()}
                for here, amounts in zip(spread, left, strict=True)
            ]
            there = [node for here, node in zip(spread, nodes, strict=True) if here]
            if (
                placed >= shape.get("min_count", shape["count"])
                and max(spread, default=0) <= (shape.get("max_per_node") or placed)
                and all(has_labels(node, shape.get("selector", {})) for node in there)
                and all(amount >= 0 for amounts in after for amount in amounts.values())
            ):
                domains = {node["domains"][level] for node in there} if level else set()
                place(position + 1, after, unplaced + shape["count"] - placed, used | domains)

    place(0, [dict(free[node["id"]]) for node in nodes], 0, set())
    return found


def best(document: Document) -> tuple[int, ...] | None:
    """Return the least values of `terms` in lexicographic order; None if nothing is feasible."""
    gangs, budgets = document.get("gangs", []), document.get("budgets", [])
    everything = [*gangs, *(document.get("demand") or {"shapes": []})["shapes"]]
    requests = [each["request"] for entry in everything for each in entry.get("pods", [entry])] + [
        node["capacity"] for node in document["nodes"]
    ]
    resources = sorted({name for request in requests for name in request})
    wanted, known, least = terms(document), {}, None
    candidates = [
        node["id"]
        for node in document["nodes"]
        if not node.get("must_be_empty") and has_labels(node, document.get("empty_selector", {}))
    ]
    named = [node["id"] for node in document["nodes"] if node.get("must_be_empty")]
    for choice in product(*(list(effects(document, gang)) for gang in gangs)):
        effect_of = {gang["id"]: effect for gang, effect in zip(gangs, choice, strict=True)}
        free = {n["id"]: {r: n["capacity"].get(r, 0) for r in resources} for n in document["nodes"]}
        held = dict.fromkeys(free, 0)
        for gang, effect in zip(gangs, choice, strict=True):
            for group, (lost, to) in zip(gang["pods"], effect, strict=True):
                stay = group.get("count", 1) - lost - sum(to.values())
                for node, count in (*to.items(), (group["node"], stay)):
                    held[node] += count
                    for r, amount in group["request"].items():
                        free[node][r] -= amount * count
        use = {
            b["id"]: sum(
                counted(b.get("counts", "disrupted_pods"), gang, effect_of[gang["id"]])
                for gang in gangs
                if gang["id"] in b["gangs"]
            )
            for b in budgets
        }
        if any(amount < 0 for amounts in free.values() for amount in amounts.values()) or any(
            b.get("is_hard", True) and b.get("used", 0) + use[b["id"]] > b["most"] for b in budgets
        ):
            continue
        for emptied in combinations(candidates, document.get("empty_nodes", 0)):
            closed = (*named, *emptied)
            if any(held[node] for node in closed):
                continue
            key = (closed, str(free))
            if key not in known:
                known[key] = placements(document, free, closed)
            for unplaced, domains in known[key]:
                fixed = {
                    "unplaced": unplaced,
                    "extra_domains": domains,
                    "budget_excess": excess(document, use),
                }
                values = tuple(
                    fixed[name]
                    if name in fixed
                    else sum(
                        counted(name, gang, effect_of[gang["id"]])
                        for gang in gangs
                        if level is None or gang.get("priority", 0) == level
                    )
                    for name, level, _ in wanted
                )
                least = values if least is None else min(least, values)
    return least


def encoded(document: Document, values: Iterable[int]) -> int:
    """Return the number in a mixed radix whose digits are the values of `terms`."""
    code = 0
    for term, value in zip(terms(document), values, strict=True):
        code = code * (term.largest + 1) + value
    return code


def optimum(document: Document) -> Any:
    """Return the least encoded objective, or `INFEASIBLE`."""
    values = best(document)
    return INFEASIBLE if values is None else encoded(document, values)
