"""Move lost pods into free capacity if the instance allows it and the objective improves."""

import numpy as np

from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.heuristics.base import State
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.put_back import closed_nodes


def rehome(state: State, placed: Integers) -> None:
    """Let lost pods of movable gangs stay or move, where they fit together with the pending pods.

    Gangs that may not be lost come first, then those with the largest pods, then file order. Each
    pod stays on its node if it fits. Otherwise it moves to the node with the least free capacity
    that holds it. The pods of a gang remain lost if the gang remains too small, or if the moves
    cost more than the loss. Time O(pods * nodes * resources), vectorised over nodes.

    Parameters
    ----------
    placed
        Number of pending pods of each shape on each node, which keep their places, (S, N).
    """
    index = state.index
    costs = Costs.encoded(state.instance)
    state.free -= placed.T @ index.shape_request
    share = 1 / np.maximum(1, index.capacity.sum(axis=0))
    size = (index.group_request * share).max(axis=1, initial=0)
    is_closed = closed_nodes(state)
    allowed: dict[int, Flags] = {}

    def cost_of(gang: int) -> int:
        if state.kept[gang] < index.min_pods[gang]:
            return int(costs.loss[gang])
        return sum(int(state.lost[k]) * int(costs.lost_pod[k]) for k in state.groups_of(gang))

    def best_node(k: int) -> int:
        own = int(index.group_node[k])
        if not is_closed[own] and state.has_space(k):
            return own
        if k not in allowed:
            allowed[k] = state.may_move_to(k)
        fits = (state.free >= index.group_request[k]).all(axis=1) & allowed[k]
        free = np.where(fits, (state.free * share).max(axis=1, initial=0), np.inf)
        return int(np.argmin(free)) if fits.any() else -1

    gangs = np.flatnonzero((state.kept < index.size) & index.may_move).tolist()
    for g in sorted(gangs, key=lambda g: (index.may_lose[g], -size[state.groups_of(g)].max())):
        before, start, moved = cost_of(g), state.copy(), 0
        for k in state.groups_of(g):
            while state.lost[k] and (node := best_node(k)) >= 0:
                if node == index.group_node[k]:
                    state.put_back(k, 1)
                else:
                    state.move(k, node)
                    moved += 1
        is_better = cost_of(g) + moved * int(costs.move[g]) <= before or not index.may_lose[g]
        if state.kept[g] < index.min_pods[g] or not is_better:
            state.become(start)
    state.free += placed.T @ index.shape_request
