"""The inner loops of the heuristic `fast`: place pods where they cost least, then exchange nodes.

Every change of the state is an action in a journal, so that an exchange that does not pay can be
undone. A node is *dirty* if an action may have changed the cost of room on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

NEVER = 2**60
"""The cost of room that cannot be made."""
MOST_LABELS = 64
"""Partial choices that are kept for a node, besides one for each of its gangs."""
MOST_SHRINKS = 12
"""Numbers of pods that are tried when a gang shrinks on a node."""
MOST_LEAVING = 4
"""The largest number of nodes that an exchange without a gang takes pods from."""

COST, JOURNAL, DIRTY, TURN, RANDOM, LABELS, LEAVING = range(7)
PARENT, GROUP, COUNT = 1, 2, 3


class Data(NamedTuple):
    """The instance as flat arrays: N nodes, R resources, G gangs, K pod groups, S shapes.

    Parameters
    ----------
    nodes, resources, levels
        N, R, and the largest number of pods that are placed at once.
    node_start, node_groups
        The pod groups that may be lost on each node; those of a gang are consecutive.
    first_group, group_gang, group_node, group_cost, request
        First pod group of each gang; gang, node, cost of a lost pod, and request of each pod group.
    fixed
        Cost of losing a gang whole, beyond the cost of its pods, (G,).
    shape_request, limit
        Request of each shape (S * R), and the largest number of its pods on a node (S * N).
    """

    nodes: Any
    resources: Any
    levels: Any
    node_start: Any
    node_groups: Any
    first_group: Any
    group_gang: Any
    group_node: Any
    group_cost: Any
    request: Any
    fixed: Any
    shape_request: Any
    limit: Any


class Search(NamedTuple):
    """The state of the search, and its scratch arrays.

    Parameters
    ----------
    numbers
        Total cost; actions in the journal; dirty nodes; turns of the search; last random number;
        labels; number of the gang that an exchange loses, plus 1.
    free, stay, lost
        Free amounts (N * R); pods of each pod group that stay, and that are lost, (K,).
    slack
        Pods that each gang can still lose; negative if it is lost whole, (G,).
    placed, missing
        Placed pods (S * N), and pods still to be placed (S,).
    price
        Cost of room for 1, 2, ... further pods of a shape on a node, (S * N * levels).
    journal, dirty, is_dirty, is_tabu
        Three integers for each action; the dirty nodes; marks of nodes.
    label, label_freed, amount, target
        The labels of one node: cost, the label that it extends, and the pod group and number of
        pods that it loses in addition; freed amounts; amounts of one extension, and those worth
        freeing, (R,).
    """

    numbers: Any
    free: Any
    stay: Any
    lost: Any
    slack: Any
    placed: Any
    missing: Any
    price: Any
    journal: Any
    dirty: Any
    is_dirty: Any
    is_tabu: Any
    label: Any
    label_freed: Any
    amount: Any
    target: Any


@kernel
def mark(n: int, search: Any) -> None:
    """List node n as dirty."""
    if not search.is_dirty[n]:
        search.is_dirty[n] = 1
        search.dirty[search.numbers[DIRTY]] = n
        search.numbers[DIRTY] += 1


@kernel
def lose(k: int, count: int, data: Any, search: Any) -> None:
    """Lose `count` pods of group k, or keep them if it is negative. The journal has -1 - k."""
    numbers, at, resources = search.numbers, 3 * search.numbers[JOURNAL], data.resources
    search.journal[at], search.journal[at + 2] = -1 - k, count
    numbers[JOURNAL] += 1
    g, n = data.group_gang[k], data.group_node[k]
    for r in range(resources):
        search.free[n * resources + r] += count * data.request[k * resources + r]
    search.stay[k] -= count
    search.lost[k] += count
    numbers[COST] += count * data.group_cost[k]
    was_lost = search.slack[g] < 0
    search.slack[g] -= count
    is_lost = search.slack[g] < 0
    numbers[COST] += data.fixed[g] * (int(is_lost) - int(was_lost))
    mark(n, search)
    if not (is_lost and was_lost):
        for other in range(data.first_group[g], data.first_group[g + 1]):
            mark(data.group_node[other], search)


@kernel
def place(s: int, n: int, count: int, data: Any, search: Any) -> None:
    """Place `count` pods of shape s on node n, or take them off. The journal has s and n."""
    at, resources = 3 * search.numbers[JOURNAL], data.resources
    search.journal[at], search.journal[at + 1], search.journal[at + 2] = s, n, count
    search.numbers[JOURNAL] += 1
    search.placed[s * data.nodes + n] += count
    search.missing[s] -= count
    for r in range(resources):
        search.free[n * resources + r] -= count * data.shape_request[s * resources + r]
    mark(n, search)


@kernel
def undo(length: int, data: Any, search: Any) -> None:
    """Undo the latest actions until the journal has `length` actions."""
    while search.numbers[JOURNAL] > length:
        at = 3 * (search.numbers[JOURNAL] - 1)
        s, n, count = search.journal[at], search.journal[at + 1], search.journal[at + 2]
        if s < 0:
            lose(-1 - s, -count, data, search)
        else:
            place(s, n, -count, data, search)
        search.numbers[JOURNAL] -= 2


@kernel
def lose_gang(g: int, data: Any, search: Any) -> None:
    """Lose gang g whole."""
    for k in range(data.first_group[g], data.first_group[g + 1]):
        if search.stay[k]:
            lose(k, search.stay[k], data, search)


@kernel
def keep_on(n: int, data: Any, search: Any) -> None:
    """Keep the lost pods of the gangs on node n that fit again, unless a gang remains too small."""
    resources = data.resources
    for entry in range(data.node_start[n], data.node_start[n + 1]):
        g, length = data.group_gang[data.node_groups[entry]], search.numbers[JOURNAL]
        if not search.lost[data.node_groups[entry]] or g + 1 == search.numbers[LEAVING]:
            continue
        for k in range(data.first_group[g], data.first_group[g + 1]):
            fits, at = search.lost[k], data.group_node[k] * resources
            for r in range(resources):
                if data.request[k * resources + r]:
                    fits = min(fits, search.free[at + r] // data.request[k * resources + r])
            if fits > 0:
                lose(k, -fits, data, search)
        if search.slack[g] < 0:
            undo(length, data, search)


@kernel
def add_label(parent: int, cost: int, k: int, count: int, data: Any, search: Any) -> int:
    """Add a label unless another one is at least as good; return the better of both.

    It extends `parent` by `count` lost pods of group k, or by its whole gang if `count` is 0.
    """
    resources, new, freed = data.resources, search.numbers[LABELS], search.label_freed
    cost += search.label[4 * parent]
    for r in range(resources):
        total = freed[parent * resources + r] + search.amount[r]
        freed[new * resources + r] = min(total, search.target[r])
    for other in range(new):
        if search.label[4 * other] <= cost:
            r = 0
            while r < resources and freed[other * resources + r] >= freed[new * resources + r]:
                r += 1
            if r == resources:
                return other
    search.label[4 * new], search.label[4 * new + PARENT] = cost, parent
    search.label[4 * new + GROUP], search.label[4 * new + COUNT] = k, count
    search.numbers[LABELS] += 1
    return new


@kernel
def list_labels(s: int, n: int, data: Any, search: Any) -> int:
    """List the choices of lost pods on node n that make room for shape s; return the most pods.

    The first extension of each gang is the loss of all gangs so far, so that it is never left out.
    """
    resources, start, end = data.resources, data.node_start[n], data.node_start[n + 1]
    at = s * data.nodes + n
    most = min(data.limit[at] - search.placed[at], data.levels)
    for r in range(resources):
        if most > 0 and data.shape_request[s * resources + r]:
            amount = search.free[n * resources + r]
            for entry in range(start, end):
                k = data.node_groups[entry]
                amount += search.stay[k] * data.request[k * resources + r]
            most = min(most, amount // data.shape_request[s * resources + r])
    lacks = 0
    for r in range(resources):
        need = most * data.shape_request[s * resources + r] - search.free[n * resources + r]
        search.label_freed[r], search.target[r] = 0, max(0, need)
        lacks = max(lacks, need)
    search.label[0] = 0
    search.numbers[LABELS] = 1
    if most <= 0 or lacks == 0:
        return most
    entry, all_lost, most_labels = start, 0, MOST_LABELS
    while entry < end:
        first, size = entry, search.numbers[LABELS]
        g = data.group_gang[data.node_groups[first]]
        for r in range(resources):
            search.amount[r] = 0
        while entry < end and data.group_gang[data.node_groups[entry]] == g:
            k = data.node_groups[entry]
            for r in range(resources):
                search.amount[r] += search.stay[k] * data.request[k * resources + r]
            entry += 1
        if search.slack[g] < 0:
            continue
        whole = data.fixed[g]
        for k in range(data.first_group[g], data.first_group[g + 1]):
            whole += search.stay[k] * data.group_cost[k]
        most_labels += 1
        all_lost = add_label(all_lost, whole, data.node_groups[first], 0, data, search)
        for label in range(size):
            if search.numbers[LABELS] < most_labels:
                add_label(label, whole, data.node_groups[first], 0, data, search)
        for e in range(first, entry):
            k = data.node_groups[e]
            largest = min(search.stay[k], search.slack[g])
            steps = min(largest, MOST_SHRINKS)
            for step in range(1, steps + 1):
                count = largest * step // steps
                for r in range(resources):
                    search.amount[r] = count * data.request[k * resources + r]
                for label in range(size):
                    if search.numbers[LABELS] < most_labels:
                        add_label(label, count * data.group_cost[k], k, count, data, search)
    return most


@kernel
def cheapest_label(s: int, n: int, pods: int, data: Any, search: Any) -> int:
    """Return the cheapest label that makes room for `pods` pods, -1 if none does."""
    resources, best = data.resources, -1
    for label in range(search.numbers[LABELS]):
        if best < 0 or search.label[4 * label] < search.label[4 * best]:
            is_enough = True
            for r in range(resources):
                room = search.free[n * resources + r] + search.label_freed[label * resources + r]
                is_enough &= room >= pods * data.shape_request[s * resources + r]
            best = label if is_enough else best
    return best


@kernel
def refresh(data: Any, search: Any) -> None:
    """Recompute the prices of all dirty nodes."""
    for position in range(search.numbers[DIRTY]):
        n = search.dirty[position]
        search.is_dirty[n] = 0
        for s in range(len(search.missing)):
            most = list_labels(s, n, data, search)
            for t in range(data.levels):
                label = cheapest_label(s, n, t + 1, data, search) if t < most else -1
                price = search.label[4 * label] if label >= 0 else NEVER
                search.price[(s * data.nodes + n) * data.levels + t] = price
    search.numbers[DIRTY] = 0


@kernel
def place_cheapest(s: int, active: Any, data: Any, search: Any) -> int:
    """Place pods of shape s where each costs least; return 0 if no room can be made.

    Ties are broken by the number of pods, then by the order of nodes.
    """
    best, best_node, pods = NEVER, -1, 1
    for position in range(len(active)):
        n = active[position]
        for t in range(0 if search.is_tabu[n] else min(data.levels, search.missing[s])):
            price = search.price[(s * data.nodes + n) * data.levels + t]
            if price == NEVER:
                break
            more = price * pods - best * (t + 1)
            if best_node < 0 or more < 0 or (more == 0 and t + 1 > pods):
                best, best_node, pods = price, n, t + 1
    if best_node < 0:
        return 0
    list_labels(s, best_node, data, search)
    label = cheapest_label(s, best_node, pods, data, search)
    while label > 0:
        k, count = search.label[4 * label + GROUP], search.label[4 * label + COUNT]
        if count:
            lose(k, count, data, search)
        else:
            lose_gang(data.group_gang[k], data, search)
        label = search.label[4 * label + PARENT]
    place(s, best_node, pods, data, search)
    return 1


@kernel
def fill(can_undo: int, active: Any, data: Any, search: Any) -> int:
    """Place all missing pods, and keep what fits beside them; return 0 if they cannot be placed.

    With `can_undo`, it also returns 0 before the journal is too short for another placement.
    """
    for s in range(len(search.missing)):
        while search.missing[s] > 0:
            refresh(data, search)
            if not can_undo:
                search.numbers[JOURNAL] = 0
            is_long = 3 * (search.numbers[JOURNAL] + 3 * len(search.stay)) > len(search.journal)
            if is_long or not place_cheapest(s, active, data, search):
                return 0
    search.numbers[LEAVING] = 0
    for position in range(len(active)):
        keep_on(active[position], data, search)
    return 1


@kernel
def draw(most: int, search: Any) -> int:
    """Return a random integer below `most`, by a linear congruential generator modulo 2**31."""
    search.numbers[RANDOM] = (search.numbers[RANDOM] * 1_103_515_245 + 12_345) % 2**31
    return (search.numbers[RANDOM] >> 8) % most


@kernel
def exchange(leaving: int, active: Any, data: Any, search: Any) -> int:
    """Take the pods off some random nodes, and place them anew; return 0 if that fails.

    Unless a gang leaves, the first of these nodes gets no pods again, and each other one only with
    probability 1/2.
    """
    for turn in range(leaving):
        picked, seen = -1, 0
        for position in range(len(active)):
            for s in range(len(search.missing)):
                if search.placed[s * data.nodes + active[position]]:
                    seen += 1
                    picked = active[position] if draw(seen, search) == 0 else picked
        if seen:
            for s in range(len(search.missing)):
                count = search.placed[s * data.nodes + picked]
                if count:
                    place(s, picked, -count, data, search)
            keep_on(picked, data, search)
            if not search.numbers[LEAVING]:
                search.is_tabu[picked] = 1 if turn == 0 else draw(2, search)
    is_done = fill(1, active, data, search)
    for position in range(len(active)):
        search.is_tabu[active[position]] = 0
    return is_done


@kernel
def improve(
    rounds: int, bound: int, active: Any, gangs: Any, extras: Any, data: Any, search: Any
) -> Any:
    """Place all missing pods on the active nodes, then try so many exchanges.

    Every second exchange loses the next of the given gangs first, and places the pods of up to
    `extras` nodes anew. Exchanges that cost more are undone, and the search ends at a cost of
    `bound`. Return whether all pods are placed, and the search.
    """
    numbers = search.numbers
    is_done = fill(0, active, data, search)
    numbers[JOURNAL] = 0
    for _ in range(rounds if is_done and len(active) else 0):
        before = numbers[COST]
        if before <= bound:
            break
        numbers[TURN] += 1
        leaving = 1 + draw(MOST_LEAVING, search)
        if numbers[TURN] % 2 and len(gangs):
            at = (numbers[TURN] // 2) % len(gangs)
            if search.slack[gangs[at]] < 0:
                continue
            lose_gang(gangs[at], data, search)
            numbers[LEAVING] = gangs[at] + 1
            leaving = 1 + draw(extras[at], search)
        if not exchange(leaving, active, data, search) or numbers[COST] > before:
            undo(0, data, search)
        numbers[JOURNAL], numbers[LEAVING] = 0, 0
    return is_done, search
