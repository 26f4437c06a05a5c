"""First solutions: give up everything on the nodes that the pending pods take, then put back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.preemption.counting import emptied, node_room
from lyra_opt.preemption.exact.plan import Plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.preemption.costs import Costs
    from lyra_opt.preemption.instance import Instance

    IntArray = NDArray[np.int64]


def put_back(instance: Instance, loss: Any, lost_pod: Any, placed: IntArray) -> Plan | None:
    """Return a plan that places the pending pods as given, with the losses of `losses_for`.

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
    chosen = by_cost[~placed.any(axis=0)[by_cost]][: instance.empty_nodes]
    closed[chosen] = True
    if (placed.sum(axis=1) < index.shape_min).any() or len(chosen) < instance.empty_nodes:
        return None
    lost = losses_for(instance, loss, lost_pod, placed, closed)
    if lost is None:
        return None
    plan = Plan(lost=lost, placed=placed, emptied=tuple(chosen.tolist()))
    return plan if plan.keeps_budgets(instance) else None


def losses_for(
    instance: Instance, loss: Any, lost_pod: Any, placed: IntArray, closed: NDArray[np.bool_]
) -> IntArray | None:
    """Return the number of lost pods of each group that makes room for given pods, (K,).

    All gangs that may be lost leave the nodes on which the pods do not fit, and the closed nodes,
    (N,). Then the dearest gang returns first, and of equally dear gangs the smallest: whole, or
    without pods above its minimum, or not at all. None if that makes no room. Time O(pod groups on
    these nodes * resources).
    """
    index = instance.index
    left = index.free - (placed[:, :, None] * index.shape_request[:, None, :]).sum(axis=0)
    is_tight = (left < 0).any(axis=1) | closed
    leaves = is_tight[index.group_node] & index.may_lose[index.group_gang]
    groups = np.flatnonzero(leaves)
    node, gang, count = (
        index.group_node[groups],
        index.group_gang[groups],
        index.group_count[groups],
    )
    np.add.at(left, node, index.group_request[groups] * count[:, None])
    if (left < 0).any() or (closed[index.group_node] & ~leaves).any():
        return None
    lost = np.zeros(len(leaves), dtype=np.int64)
    gangs = np.unique(gang)
    order = sorted(gangs.tolist(), key=lambda g: (-loss[g], index.size[g], g))
    starts = np.searchsorted(gang, np.arange(len(index.size) + 1))
    for g in order:
        before = left[node[starts[g] : starts[g + 1]]].copy()
        here = range(starts[g], starts[g + 1])
        gone = {}
        for k in here:
            request, room = index.group_request[groups[k]], left[node[k]]
            asked = request > 0
            fit = min([int(count[k]), *(room[asked] // request[asked]).tolist()])
            fit = 0 if closed[node[k]] else fit
            left[node[k]] -= fit * request
            gone[int(groups[k])] = int(count[k]) - fit
        number = sum(gone.values())
        partly = sum(int(lost_pod[k]) * lost_pods for k, lost_pods in gone.items())
        if number <= index.size[g] - index.min_pods[g] and partly <= loss[g]:
            lost[list(gone)] = list(gone.values())
        else:
            for k in here:  # the groups of a gang on one node share `before`
                left[node[k]] = before[k - starts[g]]
            every = slice(index.first_group[g], index.first_group[g + 1])
            lost[every] = index.group_count[every]
    return lost


def first_plan(instance: Instance, loss: Any, lost_pod: Any, allowed: IntArray) -> Plan | None:
    """Return a plan with pods on allowed nodes, shape (S, N), where least is lost for each pod.

    Pods take free capacity first. Then each node counts with the cost of all gangs on it that may
    be lost. None if the pods are not placed so, or a gang would have to move.
    """
    index = instance.index
    by_cost, cost = _emptiable(instance, loss)
    used = allowed.any(axis=0)[by_cost]
    chosen = by_cost[np.argsort(used, kind="stable")][: instance.empty_nodes]
    available = emptied(instance, index.may_lose)
    is_open = np.ones(len(cost), dtype=bool)
    is_open[chosen] = False
    placed = np.zeros(allowed.shape, dtype=np.int64)
    wanted = index.shape_count if "unplaced" in instance.objective else index.shape_min
    largest = np.maximum(1, available.max(axis=0, initial=0))
    for shape in np.argsort(-(index.shape_request / largest).max(axis=1, initial=0), kind="stable"):
        taken = (placed[:, :, None] * index.shape_request[:, None, :]).sum(axis=0)
        free = np.minimum(
            node_room(instance, shape, np.maximum(0, index.free - taken)), wanted[shape]
        )
        room = np.where(allowed[shape] & is_open, node_room(instance, shape, available - taken), 0)
        free = np.minimum(free, room)
        order = np.argsort(cost / np.maximum(1, room), kind="stable")
        for part in (free, room - free):
            missing = wanted[shape] - placed[shape].sum()
            before = np.cumsum(part[order]) - part[order]
            placed[shape, order] += np.clip(missing - before, 0, part[order])
    return put_back(instance, loss, lost_pod, placed)


def _emptiable(instance: Instance, loss: Any) -> tuple[IntArray, NDArray[np.float64]]:
    """Return the nodes that can be chosen to be emptied by losses, the cheapest first, and costs.

    The cost of a node, (N,), is that of all gangs on it that may be lost.
    """
    index = instance.index
    cost, is_held = np.zeros(len(index.free)), np.zeros(len(index.free), dtype=bool)
    may_lose = index.may_lose[index.group_gang]
    np.add.at(cost, index.group_node[may_lose], loss[index.group_gang[may_lose]].astype(float))
    is_held[index.group_node[~may_lose]] = True
    candidates = np.flatnonzero(index.can_be_chosen_empty & ~is_held)
    return candidates[np.argsort(cost[candidates], kind="stable")], cost
