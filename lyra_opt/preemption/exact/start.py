"""First solutions: everything leaves the nodes that the pending pods take, and much returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.preemption.counting import emptied, node_room
from lyra_opt.preemption.exact.plan import Plan
from lyra_opt.preemption.instance import matches

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.preemption.instance import Instance

    IntArray = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Move = tuple[int, int, int]


def first_plan(instance: Instance, loss: Any, lost_pod: Any, allowed: Flags) -> Plan | None:
    """Return a plan with pods on allowed nodes, shape (S, N), where little is lost for each pod.

    Pods take free capacity first. Then the cheapest nodes follow, where the cost of a node is that
    of all gangs on it that may be lost, for each pod that fits. See `put_back`.
    """
    index = instance.index
    by_cost, cost = _emptiable(instance, loss)
    used = np.asarray(allowed.any(axis=0))[by_cost]
    chosen = by_cost[np.argsort(used, kind="stable")][: instance.empty_nodes]
    is_open = np.ones(len(cost), dtype=bool)
    is_open[chosen] = False
    available = emptied(instance, index.may_lose | index.may_move)
    placed = np.zeros(allowed.shape, dtype=np.int64)
    wanted = index.shape_count if "unplaced" in instance.objective else index.shape_min
    largest = np.maximum(1, available.max(axis=0, initial=0))
    size = (index.shape_request / largest).max(axis=1, initial=0)
    for shape in np.argsort(-size, kind="stable").tolist():
        taken = _requested(instance, placed)
        room = np.where(allowed[shape] & is_open, node_room(instance, shape, available - taken), 0)
        free = np.minimum(node_room(instance, shape, np.maximum(0, index.free - taken)), room)
        order = np.argsort(cost / np.maximum(1, room), kind="stable")
        for part in (free, room - free):
            missing = wanted[shape] - placed[shape].sum()
            before = np.cumsum(part[order]) - part[order]
            placed[shape, order] += np.clip(missing - before, 0, part[order])
    return put_back(instance, loss, lost_pod, placed)


def put_back(instance: Instance, loss: Any, lost_pod: Any, placed: IntArray) -> Plan | None:
    """Return a plan that places the pending pods as given, with the losses of `make_room`.

    The cheapest nodes without pending pods are chosen to be emptied. None if that is not possible,
    or breaks a hard budget.

    Parameters
    ----------
    loss, lost_pod
        Encoded costs of losing a gang and of losing one pod of a group, (G,) and (K,).
    placed
        Number of pending pods of each shape on each node, (S, N).
    """
    index = instance.index
    closed = index.must_be_empty.copy()
    by_cost = _emptiable(instance, loss)[0]
    chosen = by_cost[placed[:, by_cost].sum(axis=0) == 0][: instance.empty_nodes]
    closed[chosen] = True
    if (placed.sum(axis=1) < index.shape_min).any() or len(chosen) < instance.empty_nodes:
        return None
    found = make_room(instance, loss, lost_pod, placed, closed)
    if found is None:
        return None
    lost, moved = found
    plan = Plan(lost=lost, placed=placed, moved=tuple(moved), emptied=tuple(chosen.tolist()))
    return plan if plan.keeps_budgets(instance) else None


def make_room(
    instance: Instance, loss: Any, lost_pod: Any, placed: IntArray, closed: Flags
) -> tuple[IntArray, list[Move]] | None:
    """Return lost pods, (K,), and moves that make room for given pods and empty closed nodes.

    All gangs that may be lost or move leave the nodes on which the pods do not fit, and the closed
    nodes, (N,). Then they return, those first that can only move, and then the dearest, and of
    equally dear gangs the smallest. Pods that do not fit move to the nodes that they fill best. The
    others are lost: alone above the minimum of the gang, or else with the gang. None if that makes
    no room. Time O(pod groups on these nodes * resources + moved pods * nodes).
    """
    index = instance.index
    left = index.free - _requested(instance, placed)
    is_tight = (left < 0).any(axis=1) | closed
    leaves = is_tight[index.group_node] & (index.may_lose | index.may_move)[index.group_gang]
    groups = np.flatnonzero(leaves)
    amount = index.group_request[groups] * index.group_count[groups, None]
    np.add.at(left, index.group_node[groups], amount)
    if (left < 0).any() or (closed[index.group_node] & ~leaves).any():
        return None
    lost, moved = np.zeros(len(leaves), dtype=np.int64), []
    gangs, starts = np.unique(index.group_gang[groups], return_index=True)
    parts = dict(zip(gangs.tolist(), np.split(groups, starts[1:]), strict=False))
    for g in sorted(parts, key=lambda g: (index.may_lose[g], -loss[g], index.size[g], g)):
        before = left.copy() if index.may_move[g] else left[index.group_node[parts[g]]]
        gone, moves = _returned(instance, parts[g].tolist(), left, closed)
        partly = sum(int(lost_pod[k]) * number for k, number in gone.items())
        number = sum(gone.values())
        is_partial = number <= index.size[g] - index.min_pods[g] and partly <= loss[g]
        if not number or (is_partial and index.may_lose[g]):
            lost[list(gone)] = list(gone.values())
            moved += moves
        elif not index.may_lose[g]:
            return None
        else:
            left[slice(None) if index.may_move[g] else index.group_node[parts[g]]] = before
            every = slice(index.first_group[g], index.first_group[g + 1])
            lost[every] = index.group_count[every]
    return lost, moved


def _returned(
    instance: Instance, groups: list[int], left: IntArray, closed: Flags
) -> tuple[dict[int, int], list[Move]]:
    """Return the pods of each group without a place, and moves; reduce `left`, (N, R)."""
    index = instance.index
    gone, moves = {}, []
    for k in groups:
        node, missing = int(index.group_node[k]), int(index.group_count[k])
        request = index.group_request[k]
        if not closed[node]:
            asked = request > 0
            missing -= min([missing, *(left[node, asked] // request[asked]).tolist()])
            left[node] -= (index.group_count[k] - missing) * request
        gang = int(index.group_gang[k])
        if missing and index.may_move[gang]:
            selector = instance.gangs[gang].pods[k - int(index.first_group[gang])].selector
            target = index.may_use & ~closed
            target[node] = False
            if selector:
                target &= [matches(each, selector) for each in instance.nodes]
            while missing and (fits := target & (left >= request).all(axis=1)).any():
                space = np.where(fits[:, None], left - request, 0).sum(axis=1, dtype=np.float64)
                best = int(np.argmin(np.where(fits, space, np.inf)))
                left[best] -= request
                moves.append((k, best, 1))
                missing -= 1
        gone[k] = missing
    return gone, moves


def _requested(instance: Instance, placed: IntArray) -> IntArray:
    """Return the amount of each resource that placed pods request on each node, (N, R)."""
    request = instance.index.shape_request
    sums: IntArray = (placed[:, :, None] * request[:, None, :]).sum(axis=0)
    return sums


def _emptiable(instance: Instance, loss: Any) -> tuple[IntArray, NDArray[np.float64]]:
    """Return the nodes that can be chosen to be emptied, the cheapest first, and their costs.

    The cost of a node, (N,), is that of all gangs on it that may be lost.
    """
    index = instance.index
    cost, is_held = np.zeros(len(index.free)), np.zeros(len(index.free), dtype=bool)
    may_lose = index.may_lose[index.group_gang]
    np.add.at(cost, index.group_node[may_lose], loss[index.group_gang[may_lose]].astype(float))
    is_held[index.group_node[~(index.may_lose | index.may_move)[index.group_gang]]] = True
    candidates = np.flatnonzero(index.can_be_chosen_empty & ~is_held)
    return candidates[np.argsort(cost[candidates], kind="stable")], cost
