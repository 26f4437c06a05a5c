"""The measure "pods that could have stayed", and solutions improved by letting these pods stay.

A lost pod could have stayed if all pending pods that the solution places would still fit, on these
or other allowed nodes, and the nodes to be emptied would still be empty. The measure needs no
objective, so it also shows an operator which victims a scheduler takes without need.
"""

import numpy as np

from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.preemption.heuristics.base import State, result_of
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Instance, Solution


def could_stay(instance: Instance, solution: Solution) -> dict[str, int]:
    """Return how many lost pods of each gang could have stayed, for a valid solution.

    The dictionary has the ids of the gangs with such pods, in file order.

    Units return in a fixed order. A unit returns if the pending pods still fit together with all
    units that have returned:

    1. gangs that are lost whole, those with most pods first;
    2. in the same order, single pods of gangs that lose only some pods, and of gangs that are lost
       whole but can survive with fewer pods.

    File order breaks ties. For one shape of pending pods each test is exact, because it only sums
    the room on nodes. In the end no other lost gang can return whole, and no other lost pod of a
    surviving gang can return. For several shapes the result is a lower bound, because the pending
    pods are placed by first fit. Another order of units may find more pods. Moved pods keep their
    new nodes. Time O(lost pod groups * log pods * nodes), vectorised over nodes.
    """
    state, _ = _state_of(instance, solution)
    gangs = _return_pods(state) if state.fits() else {}
    return {instance.gangs[g].id: gangs[g] for g in sorted(gangs)}


def put_back(instance: Instance, solution: Solution) -> Solution:
    """Return an improved solution in which the pods that `could_stay` finds stay.

    The pending pods are placed again if any pod stays. If the objective counts domains, they are
    placed only in domains that the solution uses. The objective is therefore never worse, and for
    one shape no further pod or gang can stay in the result.
    """
    state, placed = _state_of(instance, solution)
    let_pods_return(state, placed)
    found = result_of(state).solution
    assert found is not None
    return found


def let_pods_return(state: State, placed: Integers) -> None:
    """Let lost pods of a state return as in `put_back`, and place the pending pods.

    `placed`, (S, N), is a valid placement of the wanted pods before the return. The state has no
    placed pods yet.
    """
    index = state.index
    if any(term.name == "extra_domains" for term in state.instance.terms.terms):
        state.is_open &= np.isin(index.domain, index.domain[placed.any(axis=0)])
        state.evict_groups(np.empty(0, dtype=np.int64))  # which updates the room of all nodes
    if state.fits() and _return_pods(state):
        found = state.placement()
        assert found is not None
        placed = found
    for s, n in np.argwhere(placed):
        state.place(int(s), int(n), int(placed[s, n]))


def closed_nodes(state: State) -> Flags:
    """Return whether each node must be empty or is chosen to be emptied, (N,)."""
    is_closed = state.index.must_be_empty.copy()
    is_closed[state.emptied] = True
    return is_closed


def _state_of(instance: Instance, solution: Solution) -> tuple[State, Integers]:
    """Return the state after all losses and moves of a valid solution, and its placement, (S, N).

    The state wants as many pods of each shape as the solution places, and none is placed yet.
    """
    index, node = instance.index, instance.node_position
    placed = np.zeros_like(index.shape_allowed, dtype=np.int64)
    shapes = instance.demand.shapes if instance.demand else ()
    position = {shape.id: s for s, shape in enumerate(shapes)}
    for entry in solution.placements:
        placed[position[entry.shape], node[entry.node]] += entry.count
    state = State(instance, placed.sum(axis=1))
    is_lost = np.zeros(len(index.size), dtype=bool)
    is_lost[[instance.gang_position[name] for name in solution.lost_gangs]] = True
    state.evict_groups(np.flatnonzero(is_lost[index.group_gang]))

    def group_of(gang: str, group: int) -> int:
        return int(index.first_group[instance.gang_position[gang]]) + group

    for lost in solution.lost_pods:
        state.evict(group_of(lost.gang, lost.group), lost.count)
    for moved in solution.moved_pods:
        group = group_of(moved.gang, moved.group)
        state.evict(group, moved.count)
        state.move(group, node[moved.to], moved.count)
    for name in solution.emptied_nodes:
        state.choose_empty(node[name])
    return state, placed


def _return_pods(state: State) -> dict[int, int]:
    """Let lost pods of a state return as `could_stay` describes; return their number by gang.

    After the time limit in force, no further pods return.
    """
    index = state.index
    is_closed = closed_nodes(state)
    before = state.kept.copy()
    lost = np.flatnonzero(before < index.size)
    order = lost[np.argsort(before[lost] - index.size[lost], kind="stable")].tolist()
    whole = [(g, index.size[g]) for g in order if before[g] < index.min_pods[g]]
    for g, least in [*whole, *((g, index.min_pods[g]) for g in order)]:
        if is_out_of_time():
            break
        _return(state, g, is_closed, least)
    returned = state.kept - before
    return {int(g): int(returned[g]) for g in np.flatnonzero(returned)}


def _return(state: State, gang: int, is_closed: Flags, least: int) -> None:
    """Let as many lost pods of a gang return as possible, but only if at least `least` remain."""
    index = state.index
    returned = []
    for k in state.groups_of(gang):
        low, high = 0, 0 if is_closed[index.group_node[k]] else int(state.lost[k])
        count = high
        while low < high:  # bisection: if some number of pods fits, each smaller number fits
            state.put_back(k, count)
            fits = bool((state.free[index.group_node[k]] >= 0).all()) and state.fits()
            state.evict(k, count)
            low, high = (count, high) if fits else (low, count - 1)
            count = (low + high + 1) // 2
        if low:
            state.put_back(k, low)
            returned.append((k, low))
        if state.lost[k] and least == index.size[gang]:
            break
    if state.kept[gang] < least:
        for k, count in returned:
            state.evict(k, count)
