"""An imitation of Karpenter's consolidation: empty a prefix of the nodes and move their pods."""

from collections.abc import Sequence

import numpy as np

from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import require_time
from lyra_opt.preemption.heuristics.base import PreemptionHeuristic, State, first_fit, pods_in
from lyra_opt.preemption.instance import Instance, Moves

MOST_CANDIDATES = 100
"""The limit of Karpenter's search over prefixes, which can try one candidate more."""
POD_COST = 2**25
"""The disruption cost of a pod of priority 0, in units of one priority level."""
LARGEST_POD_COST = 10 * POD_COST
"""The largest disruption cost of a pod; the least is 0."""


class Karpenter(PreemptionHeuristic):
    """Empty the nodes whose pods are cheapest to disrupt, as long as all their pods can move.

    This is an imitation of Karpenter's consolidation: of emptiness, multi-node consolidation and
    single-node consolidation, in this order. It is written from the code and is unchecked against
    the real program. It leaves out new nodes, prices, node pools, disruption budgets and waiting
    times. It supports instances without a demand that ask to empty nodes and allow moves.

    Nodes that are already empty are chosen first. The candidates are the other nodes whose pods may
    all move, in increasing order of disruption cost. This is a base cost for the node plus the
    costs of its pods; a pod costs the same base cost plus its priority, but at least 0 and at most
    ten base costs. The list has as many candidates as nodes must still be emptied. A binary search
    looks for a long prefix of the list, of at least two nodes, whose pods can all move elsewhere at
    the same time. If no prefix is found, the first single candidate whose pods can move is emptied.
    All this is repeated until enough nodes are empty. Pods move by first fit over the nodes in file
    order; pods with more CPU come first, then with more memory, then with more of the other
    resources. Nodes that must be empty are emptied in any case: pods that do not fit elsewhere are
    lost.

    Parameters
    ----------
    tries_single_nodes
        Whether single-node consolidation follows. Without it, a node early in the list whose pods
        cannot move prevents every plan (issue 1962).

    Notes
    -----
    Commit 2266468 (20 August 2026). Files in ``pkg/controllers/disruption`` and
    ``pkg/controllers/provisioning/scheduling``: ``multinodeconsolidation.go``,
    ``singlenodeconsolidation.go``, ``consolidation.go``, ``helpers.go``, ``types.go``, ``queue.go``
    and ``scheduler.go``.
    Complexity O(nodes to empty * candidates) simulations of O(pod groups * nodes). Guarantee: none.
    The moves are not minimised. The rule can also fail to empty enough nodes although other sets of
    nodes or other moves would do it.
    """

    name = "karpenter"
    variants = (Moves.VICTIMS, Moves.ANY)
    takes_empty_nodes = True

    def __init__(self, *, tries_single_nodes: bool = True) -> None:
        self.tries_single_nodes = tries_single_nodes

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return which feature the rule cannot handle, such as pending pods; None if it can."""
        if instance.demand is not None:
            return Unsupported(f"{self.name} empties nodes and does not handle pending pods")
        return super().supports(instance)

    def choose(self, state: State, rng: np.random.Generator) -> bool:  # noqa: ARG002
        """Choose nodes until enough are chosen, and move their pods."""
        count = state.instance.empty_nodes
        candidates, chosen = _candidates(state)
        chosen = chosen[:count]
        while len(chosen) < count:
            found = _longest_prefix(state, chosen, candidates[: count - len(chosen)])
            if not found and self.tries_single_nodes:
                singles = ([node] for node in candidates if _emptied(state, [*chosen, node]))
                found = next(singles, [])
            if not found:
                return False
            chosen = [*chosen, *found]
            candidates = [node for node in candidates if node not in found]
        emptied = _emptied(state, chosen)
        state.become(emptied or state)
        return emptied is not None


def _candidates(state: State) -> tuple[list[int], list[int]]:
    """Return the candidates in increasing order of cost, and the nodes that are already empty."""
    index = state.index
    node, gang, nodes = index.group_node, index.group_gang, len(state.free)
    pod_cost = np.clip(POD_COST + index.priority[gang], 0, LARGEST_POD_COST)
    pods = np.bincount(node, state.stay, nodes)
    cost = np.bincount(node, state.stay * pod_cost, nodes)  # the base cost of nodes is the same
    is_blocked = np.bincount(node, state.stay * ~index.may_move[gang], nodes) > 0
    full = np.flatnonzero(index.can_be_chosen_empty & (pods > 0) & ~is_blocked)
    empty = np.flatnonzero(index.can_be_chosen_empty & (pods == 0))
    return full[np.argsort(cost[full], kind="stable")].tolist(), empty.tolist()


def _longest_prefix(state: State, chosen: list[int], candidates: list[int]) -> list[int]:
    """Return a prefix of at least two candidates that can be emptied together, or an empty list."""
    found: list[int] = []
    low, high = 1, min(len(candidates) - 1, MOST_CANDIDATES)
    while low <= high:
        middle = (low + high) // 2
        prefix = candidates[: middle + 1]
        if _emptied(state, [*chosen, *prefix]):
            found, low = prefix, middle + 1
        else:
            high = middle - 1
    return found


def _emptied(state: State, chosen: Sequence[int]) -> State | None:
    """Return the state after the pods of the chosen nodes have moved; None if a pod cannot move.

    Pods on nodes that must be empty may remain lost.
    """
    require_time()
    index, trial = state.index, state.copy()
    for node in chosen:
        trial.choose_empty(node)
    names = state.instance.resources
    first = [names.index(name) for name in ("cpu", "memory") if name in names]
    columns = [*first, *(column for column in range(len(names)) if column not in first)]

    groups = np.flatnonzero(trial.lost)
    requests = index.group_request[groups]
    keys = [index.start_s[index.group_gang[groups]], *(-requests[:, c] for c in reversed(columns))]
    for group in groups[np.lexsort(keys)].tolist():
        fitting = pods_in(trial.free, index.group_request[group]) * trial.may_move_to(group)
        moving = first_fit(int(trial.lost[group]), fitting)
        for node in np.flatnonzero(moving).tolist():
            trial.move(group, node, int(moving[node]))
        if trial.lost[group] and not index.must_be_empty[index.group_node[group]]:
            return None
    return trial
