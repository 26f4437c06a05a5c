"""Pods of a kind have equal requests and selectors, and can therefore move for one another."""

from collections.abc import Iterable

import numpy as np

from lyra_opt.preemption.index import Integers
from lyra_opt.preemption.instance import Instance, matches


def pod_kinds(
    instance: Instance, groups: Integers, free: Integers
) -> tuple[Integers, Integers, Integers]:
    """Return the kind of each pod group, the first group of each kind, and the room for kinds.

    Parameters
    ----------
    groups
        Pod groups.
    free
        Free amounts of resources on nodes, (N, R).

    Returns
    -------
    tuple
        Kinds (G,), first groups (K,), and the number of pods of each kind that fit into the free
        amounts of each node, (K, N).
    """
    index = instance.index
    numbers: dict[object, int] = {}
    kinds = np.zeros(len(groups), dtype=np.int64)
    first, rooms = [], []
    for place, k in enumerate(groups.tolist()):
        gang, request = index.group_gang[k], index.group_request[k]
        selector = instance.gangs[gang].pods[k - index.first_group[gang]].selector
        key = request.tobytes(), tuple(sorted(selector.items()))
        if key not in numbers:
            numbers[key] = len(numbers)
            room = np.where(index.may_use, index.group_count[groups].sum(), 0)
            if selector:
                room[[not matches(node, selector) for node in instance.nodes]] = 0
            for r in np.flatnonzero(request):
                room = np.minimum(room, free[:, r] // request[r])
            first.append(k)
            rooms.append(np.maximum(room, 0))
        kinds[place] = numbers[key]
    shape = len(rooms), len(free)
    return kinds, np.array(first, dtype=np.int64), np.reshape(rooms, shape).astype(np.int64)


def matched_moves(
    leaving: Iterable[tuple[int, int, int]], into: dict[int, dict[int, int]]
) -> list[tuple[int, int, int]]:
    """Return moves (pod group, target node, pods) that match pods that leave and pods that come.

    Parameters
    ----------
    leaving
        Pod group, kind and number of pods that leave a node.
    into
        Number of pods that come, by kind and node.
    """
    moved = []
    for group, kind, pods in leaving:
        places, left = into.get(kind, {}), pods
        for node, room in places.items():
            if step := min(left, room):
                moved.append((group, node, step))
                places[node] -= step
                left -= step
    return moved
