"""The inner loops of the heuristic `fast`: place pods where they cost least, then exchange nodes.

Every change of the state is an action in a journal, so that an exchange that increases the cost can
be undone. A node is *dirty* if an action may have changed the cost of making room on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

NEVER = 2**60
"""The cost of making room where this is impossible."""
MOST_LEAVING = 4
"""The largest number of nodes from which an exchange takes pending pods if it loses no gang."""

COST, JOURNAL, DIRTY, TURN, RANDOM, LEAVING, IS_TRIAL = range(7)


class Data(NamedTuple):
    """The instance as flat arrays: N nodes, R resources, G gangs, K pod groups, S shapes.

    Parameters
    ----------
    nodes, resources, levels
        N, R, and the largest number of pods that are placed at once.
    node_start, node_groups
        The pod groups that may be lost on each node; those of a gang are consecutive.
    first_group, group_gang, group_node, group_cost, request
        First pod group of each gang. For each pod group: its gang, its node, the cost of a lost
        pod, and the request of a pod.
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
        Total cost, number of actions in the journal, number of dirty nodes, number of exchanges,
        last random number, position of the gang that an exchange loses plus 1, and whether actions
        are only tried.
    free, stay, lost
        Free amounts (N * R); staying and lost pods of each pod group, (K,).
    slack
        Pods that each gang can still lose; negative if it is lost whole, (G,).
    placed, missing
        Placed pods (S * N), and pods still to be placed (S,).
    price
        Cost of making room for 1, 2, ... further pods of a shape on a node, (S * N * levels).
    journal, dirty, is_dirty, is_tabu
        Three integers for each action; the dirty nodes; whether each node is dirty, and whether it
        may not get pending pods, (N,).
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


@kernel
def mark(n: int, search: Any) -> None:
    """Add node n to the dirty nodes, unless actions are only tried."""
    if not (search.is_dirty[n] or search.numbers[IS_TRIAL]):
        search.is_dirty[n] = 1
        search.dirty[search.numbers[DIRTY]] = n
        search.numbers[DIRTY] += 1


@kernel
def lose(k: int, count: int, data: Any, search: Any) -> None:
    """Lose `count` pods of group k; with a negative count, let lost pods stay again.

    The journal gets -1 - k and the count.
    """
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
    """Place `count` pods of shape s on node n; a negative count removes pods.

    The journal gets s, n and the count.
    """
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
    """Let lost pods of the gangs on node n stay if they fit and their gang reaches its minimum."""
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
def take(s: int, n: int, count: int, data: Any, search: Any) -> int:
    """Place pods of shape s on node n: lose its gangs, then let those stay that still fit.

    Return 0 if the pods do not fit, even without these gangs.
    """
    for entry in range(data.node_start[n], data.node_start[n + 1]):
        if search.stay[data.node_groups[entry]]:
            lose_gang(data.group_gang[data.node_groups[entry]], data, search)
    place(s, n, count, data, search)
    for r in range(data.resources):
        if search.free[n * data.resources + r] < 0:
            return 0
    keep_on(n, data, search)
    return 1


@kernel
def refresh(data: Any, search: Any) -> None:
    """Recompute the prices of all dirty nodes."""
    numbers, levels = search.numbers, data.levels
    length, cost = numbers[JOURNAL], numbers[COST]
    numbers[IS_TRIAL] = 1
    for position in range(numbers[DIRTY]):
        n = search.dirty[position]
        search.is_dirty[n] = 0
        for s in range(len(search.missing)):
            at = s * data.nodes + n
            most = min(levels, data.limit[at] - search.placed[at])
            for t in range(levels):
                can_hold = t < most and take(s, n, t + 1, data, search)
                search.price[at * levels + t] = numbers[COST] - cost if can_hold else NEVER
                undo(length, data, search)
                if not can_hold:
                    break
    numbers[IS_TRIAL], numbers[DIRTY] = 0, 0


@kernel
def place_cheapest(s: int, active: Any, data: Any, search: Any) -> int:
    """Place pods of shape s on the node where they cost least per pod; return 0 if none has room.

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
    take(s, best_node, pods, data, search)
    return 1


@kernel
def fill(can_undo: int, active: Any, data: Any, search: Any) -> int:
    """Place all missing pods, then let running pods stay that still fit; return 0 on failure.

    With `can_undo`, it also fails before the journal is too short for another placement.
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
    return int((search.numbers[RANDOM] >> 8) % most)


@kernel
def exchange(leaving: int, active: Any, data: Any, search: Any) -> int:
    """Take the pending pods off some random nodes, and place them again; return 0 on failure.

    Unless a gang is lost in this exchange, the first of these nodes gets no pending pods again.
    Each of the others is excluded with probability 1/2.
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
    return int(is_done)


@kernel
def improve(
    rounds: int, bound: int, active: Any, gangs: Any, extras: Any, data: Any, search: Any
) -> Any:
    """Place all missing pods on the active nodes, then try `rounds` exchanges.

    Every second exchange first loses the next gang of `gangs`, and then places the pods of up to
    `extras` nodes again. Exchanges that increase the cost are undone. The search ends when its cost
    is at most `bound`. Return whether all pods are placed, and the search.
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
