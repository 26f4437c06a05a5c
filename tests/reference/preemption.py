"""Preemption in the plainest way: every way to lose and move pods, and every way to place pods."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.reference.drawing import INFEASIBLE, LARGEST_INTEGER, UNKNOWN, require

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.reference.drawing import Document, Draw

VARIANTS = ("none", "victims", "any")
MAXIMISED: tuple[str, ...] = ()
MOST_EFFECTS = 20_000
"""Combinations of effects on all gangs above which the optimum counts as unknown."""
TERMS = (
    *("unplaced", "budget_excess", "lost_gangs_by_priority", "lost_pods_by_priority"),
    *("disrupted_pods_by_priority", "lost_gangs", "lost_pods", "moved_pods", "disrupted_pods"),
    *("weighted_gangs", "extra_domains"),
)
COUNTS = ("lost_gangs", "lost_pods", "disrupted_pods")

Effect = list[tuple[int, dict[str, int]]]
"""The effect on a gang: lost pods and moved pods by node, for each of its pod groups."""


class Term(NamedTuple):
    """What an integer of the objective counts, at which priority, and its largest value."""

    name: str
    priority: int | None
    largest: int


def drawn(draw: Draw, variant: str, name: str) -> Document:
    """Return an instance: nothing runs, nothing is pending, nothing fits, or all may be lost."""
    resources = draw.pick(("gpu",), ("gpu",), ("gpu", "cpu"), ("memory",), ("gpu", 'a "b\\c'))
    label, level = draw.pick("zone", "a/b", " "), draw.pick("rack", "ü", "block.1")
    requests = draw.pick((0, 1), (1,), (1, 2, 3), (0, 1, 2, 4), (LARGEST_INTEGER // 16,))
    priorities = draw.pick((0,), (0, 1), (1, 2, 3), (-(2**31), 2**31 - 1), (5, 5, 9))

    def some_labels(share: float) -> Document:
        return {label: draw.pick("a", "b")} if draw.sometimes(share) else {}

    def request(*known: Document) -> Document:
        if known and draw.sometimes(0.7):
            return dict(draw.choice(known)["request"])
        return {each: draw.pick(*requests) for each in resources if draw.sometimes(0.9)}

    ids = draw.names("n", draw.pick(1, 2, 2, 3, 3, 3, 4))
    held = {node: Counter[str]() for node in ids}
    gangs: list[Document] = []
    left = draw.pick(0, 3, 4, 4, 5, 6) if variant == "none" else draw.pick(0, 3, 3, 4)
    for gang in draw.names("g", 4):
        groups = []
        for _ in range(draw.pick(1, 1, 2, 3)):
            count = min(left, draw.pick(1, 1, 2, 3))
            if not count:
                break
            left -= count
            group = {"node": draw.pick(*ids), "request": request()}
            if count > 1:
                group["count"] = count
            if draw.sometimes(0.2):
                group["selector"] = some_labels(0.8)
            for each, amount in group["request"].items():
                held[group["node"]][each] += amount * count
            groups.append(group)
        if groups:
            entry = {"id": gang, "pods": groups, "priority": draw.pick(*priorities)}
            for key, share, value in (
                ("min_pods", 0.4, draw.randint(1, size(entry))),
                ("is_protected", 0.05, True),
                ("is_movable", 0.15, False),
                ("queue", 0.3, draw.pick("default", "other", "ü")),
                ("weight", 0.4, draw.pick(0, 1, 2, 3, LARGEST_INTEGER)),
                ("start_s", 0.5, draw.pick(0.0, -1e12, 1e12, 0.5, 60.0)),
            ):
                if draw.sometimes(share):
                    entry[key] = value
            gangs.append(entry)
    idle = draw.pick((0,), (0, 0, 1), (0, *requests), requests)
    nodes = [
        {
            "id": node,
            "capacity": {
                each: held[node][each] + draw.pick(*idle)
                for each in resources
                if held[node][each] or draw.sometimes(0.9)
            },
            "domains": {level: draw.pick("r0", "r0", "r1")} if draw.sometimes(0.8) else {},
            "labels": some_labels(0.6),
            **({"is_usable": False} if draw.sometimes(0.1) else {}),
            **({"must_be_empty": True} if draw.sometimes(0.1) else {}),
        }
        for node in ids
    ]
    document: Document = {
        "format": "lyra-opt/preemption",
        "version": 1,
        "name": name,
        "moves": variant,
        "nodes": nodes,
        "gangs": gangs,
    }
    if draw.sometimes(0.3):
        document["empty_selector"] = some_labels(0.5)
        most = len(candidates(document))
        document["empty_nodes"] = draw.pick(0, min(1, most), most)
    is_emptying = document.get("empty_nodes") or any(node.get("must_be_empty") for node in nodes)
    running = [group for gang in gangs for group in gang["pods"]]
    if not is_emptying or draw.sometimes(0.5):
        document["demand"] = _demand(draw, some_labels, lambda: request(*running), priorities)
        if draw.sometimes(0.5) and any(node["domains"] for node in nodes):
            document["demand"] |= {"level": level, "is_level_required": draw.sometimes(0.6)}
    if draw.sometimes(0.6):
        rules = ("lower", "lower-or-equal", "other-queue", "any", "any", "none")
        document["victims"] = draw.pick(*(rules if "demand" in document else rules[3:]))
    lost = sorted({f"lost:{each}" for node in nodes for each in node["capacity"]})
    if gangs and draw.sometimes(0.4):
        document["budgets"] = [
            _budget(draw, budget, gangs, (*COUNTS, *lost)) for budget in ("b1", "b0")
        ][: draw.pick(1, 2)]
    if draw.sometimes(0.5):
        known = [*TERMS, *lost]
        document["objective"] = draw.sample(known, draw.randint(1, min(5, len(known))))
    return document


def _demand(draw: Draw, some_labels: Any, request: Any, priorities: tuple[int, ...]) -> Document:
    shapes = []
    for shape in draw.names("s", draw.pick(1, 1, 1, 1, 2)):
        count = draw.pick(1, 1, 1, 2, 2, 3)
        entry = {"id": shape, "count": count, "request": request(), "selector": some_labels(0.2)}
        if draw.sometimes(0.6):
            entry["min_count"] = draw.pick(0, 0, draw.randint(0, count))
        if draw.sometimes(0.2):
            entry["max_per_node"] = draw.pick(1, 2, LARGEST_INTEGER)
        shapes.append(entry)
    return {
        "priority": draw.pick(*[2**31 - 1] * 4, *priorities),
        "queue": draw.pick("default", "other"),
        "shapes": shapes,
    }


def _budget(draw: Draw, name: str, gangs: list[Document], counts: tuple[str, ...]) -> Document:
    counted_gangs = draw.sample(gangs, draw.randint(1, len(gangs)))
    entry = {"id": name, "gangs": [gang["id"] for gang in counted_gangs]}
    entry["counts"] = draw.pick(*counts)
    entry["used"], extra = draw.pick(0, 0, 1, LARGEST_INTEGER - 3), draw.pick(0, 1, 2, 3)
    entry["most"], entry["is_hard"] = entry["used"] + extra, draw.sometimes(0.5)
    if not entry["is_hard"] and draw.sometimes(0.5):
        entry["most"] = extra
    return entry


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
        for emptied in combinations(candidates(document), document.get("empty_nodes", 0)):
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
    """Return the least encoded objective, `INFEASIBLE`, or `UNKNOWN` if there is much to try."""
    ways = prod(sum(1 for _ in effects(document, gang)) for gang in document.get("gangs", []))
    if ways > MOST_EFFECTS:
        return UNKNOWN
    values = best(document)
    return INFEASIBLE if values is None else encoded(document, values)


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a solution loses and moves, and the value of each term."""
    gangs = {gang["id"]: gang for gang in document.get("gangs", [])}
    nodes = {node["id"]: node for node in document["nodes"]}
    effect_of: dict[str, Effect] = {name: [(0, {}) for _ in gangs[name]["pods"]] for name in gangs}
    for name in chosen["lost_gangs"]:
        require(name in gangs, "a lost gang is unknown")
        effect_of[name] = [(group.get("count", 1), {}) for group in gangs[name]["pods"]]
    require(len(set(chosen["lost_gangs"])) == len(chosen["lost_gangs"]), "a gang is lost twice")
    for entry in (*chosen["lost_pods"], *chosen["moved_pods"]):
        require(entry["gang"] in gangs, "the gang of a pod is unknown")
        require(entry["gang"] not in chosen["lost_gangs"], "a pod of a lost gang is named")
        position, count = entry.get("group", 0), entry.get("count", 1)
        require(position < len(effect_of[entry["gang"]]), "a pod group is unknown")
        lost, moved = effect_of[entry["gang"]][position]
        if "to" in entry:
            moved[entry["to"]] = moved.get(entry["to"], 0) + count
        else:
            lost += count
        effect_of[entry["gang"]][position] = (lost, moved)
    free = {name: Counter(node["capacity"]) for name, node in nodes.items()}
    held = Counter[str]()
    closed = {name for name, node in nodes.items() if node.get("must_be_empty")}
    closed |= set(chosen["emptied_nodes"])
    require(set(chosen["emptied_nodes"]) <= set(candidates(document)), "a node may not be chosen")
    require(
        len(chosen["emptied_nodes"]) == len(set(chosen["emptied_nodes"]))
        and len(chosen["emptied_nodes"]) == document.get("empty_nodes", 0),
        "the number of emptied nodes is another one",
    )

    def hold(node: str, request: Mapping[str, int], count: int) -> None:
        held[node] += count
        for name, amount in request.items():
            free[node][name] -= amount * count

    for name, effect in effect_of.items():
        gang = gangs[name]
        lost_pods = sum(lost for lost, _ in effect)
        moved_pods = sum(sum(to.values()) for _, to in effect)
        require(not lost_pods or may_lose(document, gang), "a gang may not lose pods")
        require(not moved_pods or may_move(document, gang), "a gang may not move pods")
        is_whole = name in chosen["lost_gangs"]
        survives = size(gang) - lost_pods >= gang.get("min_pods", size(gang))
        require(is_whole or survives, "a gang keeps too few pods")
        for group, (lost, to) in zip(gang["pods"], effect, strict=True):
            stay = group.get("count", 1) - lost - sum(to.values())
            require(stay >= 0, "more pods are lost or moved than there are")
            hold(group["node"], group["request"], stay)
            for target, count in to.items():
                require(target in nodes and target != group["node"], "a pod moves nowhere")
                require(nodes[target].get("is_usable", True), "a pod moves to a cordoned node")
                matching = has_labels(nodes[target], group.get("selector", {}))
                require(matching, "a pod moves to a node without its labels")
                hold(target, group["request"], count)
    demand = document.get("demand") or {"shapes": []}
    shapes = {shape.get("id", "pod"): shape for shape in demand["shapes"]}
    placed, on_node, used = Counter[str](), Counter[tuple[str, str]](), set()
    level = demand.get("level")
    for entry in chosen["placements"]:
        name, node, count = entry.get("shape", "pod"), entry["node"], entry.get("count", 1)
        require(name in shapes and node in nodes, "a placement is of nothing")
        require(nodes[node].get("is_usable", True), "a pod is placed on a cordoned node")
        require(
            has_labels(nodes[node], shapes[name].get("selector", {})),
            "a pod is placed on a node without its labels",
        )
        require(level is None or level in nodes[node].get("domains", {}), "a node has no domain")
        placed[name] += count
        on_node[name, node] += count
        most = shapes[name].get("max_per_node")
        require(most is None or on_node[name, node] <= most, "too many pods are on a node")
        hold(node, shapes[name]["request"], count)
        used |= {nodes[node]["domains"][level]} if level is not None else set()
    for name, shape in shapes.items():
        least = shape.get("min_count", shape["count"])
        require(least <= placed[name] <= shape["count"], "too few or too many pods are placed")
    require(len(used) <= 1 or not demand.get("is_level_required", True), "two domains are used")
    require(not any(held[name] for name in closed), "a node is not empty")
    require(all(amount >= 0 for each in free.values() for amount in each.values()), "no capacity")
    use = {}
    for budget in document.get("budgets", []):
        counts = budget.get("counts", "disrupted_pods")
        each = (counted(counts, gangs[name], effect_of[name]) for name in budget["gangs"])
        use[budget["id"]] = sum(each)
        total = budget.get("used", 0) + use[budget["id"]]
        require(not budget.get("is_hard", True) or total <= budget["most"], "a budget is broken")
    unplaced = sum(shape["count"] for shape in shapes.values()) - placed.total()
    fixed = {
        "unplaced": unplaced,
        "budget_excess": excess(document, use),
        "extra_domains": max(0, len(used) - 1),
    }
    values = {
        name if priority is None else f"{name}@{priority}": fixed[name]
        if name in fixed
        else sum(
            counted(name, gang, effect_of[gang["id"]])
            for gang in gangs.values()
            if priority is None or gang.get("priority", 0) == priority
        )
        for name, priority, _ in terms(document)
    }
    lost_amounts = Counter[str]()
    for name, effect in effect_of.items():
        for group, (lost, _) in zip(gangs[name]["pods"], effect, strict=True):
            for resource, amount in group["request"].items():
                lost_amounts[resource] += amount * lost
    lost_of = {name: sum(lost for lost, _ in effect) for name, effect in effect_of.items()}
    moves = [sum(to.values()) for effect in effect_of.values() for _, to in effect]
    return {
        "objective": encoded(document, values.values()),
        "terms": values,
        "victims": tuple(name for name, lost in lost_of.items() if lost),
        "lost_pods_in_all": sum(lost_of.values()),
        "moved_pods_in_all": sum(moves),
        "lost_resources": {name: amount for name, amount in lost_amounts.items() if amount},
        "unplaced_pods": unplaced,
    }
