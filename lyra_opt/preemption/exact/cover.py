"""A dynamic programme for demands that only one node can hold, with pods of one resource.

Gangs on the node must free an amount at minimum cost, which is a knapsack cover problem. A gang
loses some of its pods there, or all of them; it is lost whole if too few pods remain.
"""

from typing import Any

import numpy as np

from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.exact.plan import Plan
from lyra_opt.preemption.instance import Instance

MOST_STATES = 10_000
"""Most states of the dynamic programme; larger instances are left to the model."""


def cheapest_cover(instance: Instance) -> Plan | None:
    """Return an optimal plan by dynamic programming; None if the instance is of another form.

    There are no moves, budgets and nodes to empty. All pending pods must be placed, on the only
    node that can hold them. They request one resource, and each gang has at most one pod group on
    the node. Counting has proved that they fit. Of equally good plans, the gangs that started last
    are lost, then those that are last in the file.

    Notes
    -----
    A state is an amount that is still to be freed. Complexity O(states * pods on the node).
    """
    index = instance.index
    nodes = np.flatnonzero(index.shape_allowed.any(axis=0))
    if len(nodes) != 1 or not index.shape_request.size:
        return None
    empties = instance.empty_nodes or index.must_be_empty.any()
    if empties or instance.budgets or index.may_move.any():
        return None
    resource, node = int(index.shape_request.any(axis=0).argmax()), nodes[0]
    may_free = (index.group_node == node) & (index.group_request[:, resource] > 0)
    groups = np.flatnonzero(may_free & index.may_lose[index.group_gang])
    gangs = index.group_gang[groups]
    has_one_form = np.count_nonzero(index.shape_request) == 1 and len(set(gangs)) == len(gangs)
    if not has_one_form or (index.shape_min < index.shape_count).any():
        return None
    short = int(index.shape_count @ index.shape_request[:, resource] - index.free[node, resource])
    # The least cost of each state, with the losses (pod group, pods) that lead to it.
    best: dict[int, tuple[Any, tuple[tuple[int, int], ...]]] = {max(0, short): (0, ())}
    costs = Costs.encoded(instance)
    for place in np.lexsort((-groups, -index.start_s[gangs])):
        k, g = int(groups[place]), int(gangs[place])
        amount, count = int(index.group_request[k, resource]), int(index.group_count[k])
        surplus = int(index.size[g] - index.min_pods[g])
        most = min(count, surplus, -(-max(0, short) // amount))
        options = [(pods, pods * costs.lost_pod[k]) for pods in range(1, most + 1)]
        if count > surplus:
            options.append((count, costs.loss[g]))
        for left, (cost, lost) in list(best.items()):
            for pods, more in options if left else ():
                after = max(0, left - pods * amount)
                if after not in best or cost + more < best[after][0]:
                    best[after] = cost + more, (*lost, (k, pods))
        if len(best) > MOST_STATES:
            return None
    lost_pods = np.zeros(len(index.group_gang), dtype=np.int64)
    for k, pods in best[0][1]:
        lost_pods[k] = pods
    placed = np.zeros(index.shape_allowed.shape, dtype=np.int64)
    placed[:, node] = index.shape_count
    return Plan(lost=lost_pods, placed=placed)
