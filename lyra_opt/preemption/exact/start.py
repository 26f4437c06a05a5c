"""First solutions: all gangs leave the nodes with pending pods, and gangs that still fit return."""

import numpy as np

from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.exact.plan import Plan
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Instance


def put_back(instance: Instance, costs: Costs, placed: Integers) -> Plan | None:
    """Return a plan that places the pending pods as given, with the losses of `make_room`.

    The nodes to be emptied are those without pending pods whose gangs cost least. Return None if
    the plan is impossible or breaks a hard budget.

    Parameters
    ----------
    costs
        The encoded costs.
    placed
        Number of pending pods of each shape on each node, (S, N).
    """
    index = instance.index
    closed, chosen = index.must_be_empty.copy(), np.zeros(0, dtype=np.int64)
    if instance.empty_nodes:
        cost, stays = np.zeros(len(closed)), ~index.may_lose[index.group_gang]
        np.add.at(cost, index.group_node, costs.loss[index.group_gang].astype(np.float64))
        cost[index.group_node[stays]] = np.inf
        cost[~index.can_be_chosen_empty | placed.any(axis=0)] = np.inf
        chosen = np.argsort(cost, kind="stable")[: instance.empty_nodes]
        if np.isinf(cost[chosen]).any():
            return None
        closed[chosen] = True
    if (placed.sum(axis=1) < index.shape_min).any():
        return None
    lost = make_room(instance, costs, placed, closed)
    if lost is None:
        return None
    plan = Plan(lost=lost, placed=placed, emptied=tuple(chosen.tolist()))
    return plan if plan.keeps_budgets(instance) else None


def make_room(instance: Instance, costs: Costs, placed: Integers, closed: Flags) -> Integers | None:
    """Return the lost pods of each group, (K,), that make room for given pending pods.

    First, all gangs that may be lost leave the nodes on which the pending pods do not fit, and the
    nodes in `closed`, (N,), which must become empty. Then the gangs return, the dearest first, and
    among equally dear gangs the smallest first. Pods that do not fit any more are lost. Their gang
    survives if it keeps its minimum and this costs no more than losing it whole. Return None if
    the pending pods cannot fit, or a closed node cannot become empty. Time O(pod groups on these
    nodes * resources).
    """
    index = instance.index
    left = index.free - (placed[:, :, None] * index.shape_request[:, None, :]).sum(axis=0)
    is_tight = (left < 0).any(axis=1) | closed
    leaves = is_tight[index.group_node] & index.may_lose[index.group_gang]
    groups = np.flatnonzero(leaves)
    amount = index.group_request[groups] * index.group_count[groups, None]
    np.add.at(left, index.group_node[groups], amount)
    if (left < 0).any() or (closed[index.group_node] & ~leaves).any():
        return None
    lost = np.zeros(len(leaves), dtype=np.int64)
    gangs, starts = np.unique(index.group_gang[groups], return_index=True)
    parts = dict(zip(gangs.tolist(), np.split(groups, starts[1:]), strict=False))
    for g in sorted(parts, key=lambda g: (-costs.loss[g], index.size[g], g)):
        nodes = index.group_node[parts[g]]
        before, gone = left[nodes], {}
        for k, node in zip(parts[g].tolist(), nodes.tolist(), strict=True):
            request, count = index.group_request[k], int(index.group_count[k])
            asked = request > 0
            fit = min([count, *(left[node, asked] // request[asked]).tolist()])
            fit *= not closed[node]
            left[node] -= fit * request
            gone[k] = count - fit
        partly = sum(int(costs.lost_pod[k]) * number for k, number in gone.items())
        if sum(gone.values()) <= index.size[g] - index.min_pods[g] and partly <= costs.loss[g]:
            lost[list(gone)] = list(gone.values())
        else:
            left[nodes] = before
            every = slice(index.first_group[g], index.first_group[g + 1])
            lost[every] = index.group_count[every]
    return lost
