"""The rule of people who drain by hand: first the nodes from which the fewest pods must leave."""

from heapq import heappop, heappush

import numpy as np

from lyra_opt.core.stopwatch import require_time
from lyra_opt.preemption.heuristics.base import PreemptionHeuristic, State

Evictions = list[int]
"""Lost pods, each given by its pod group; a group can occur several times."""


class FewestPodsFirst(PreemptionHeuristic):
    """Empty the nodes with the fewest pods, or make room where the fewest pods must leave.

    This is an imitation of people who choose nodes by ``kubectl get pods`` and empty them with
    ``kubectl drain`` (https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/). It
    describes no program and is unchecked. It leaves out what people know
    about their jobs: it looks at one node after the other and does not see that pods on several
    nodes belong to one gang. Pods that would start again elsewhere count as lost.

    Nodes to be emptied are those with the fewest pods; the pods are counted once, at the start.
    Nodes with a pod that may not be lost are left out. For pending pods of one shape, the rule
    repeatedly takes the node where the fewest pods must leave for one more pending pod, and evicts
    them, until all pending pods fit. On a node, the pod that covers most of the shortage leaves
    first. With a required level, this is done in each domain, and the domain with the fewest
    evicted pods is chosen. Ties are broken by file order.

    Notes
    -----
    Complexity O(nodes log(nodes) + pods * pod groups of a node) for each domain. Guarantee: none.
    The rule counts the pods on a node, not the rest of their gangs, so its cost is unbounded.
    """

    name = "fewest-pods-first"
    takes_required_level = True
    takes_empty_nodes = True

    def choose(self, state: State, rng: np.random.Generator) -> bool:  # noqa: ARG002
        """Empty nodes, then make room for the pending pods."""
        for node in _fewest_pods(state)[: state.instance.empty_nodes]:
            require_time()
            state.choose_empty(node)
        if state.fits():
            return True
        trial = state.copy()
        found = [
            (len(evictions), area, evictions)
            for area in range(state.areas)
            if (evictions := _evictions_in(trial, area)) is not None
        ]
        for group in min(found)[2] if found else ():
            state.evict(group, 1)
        return bool(found)


def _fewest_pods(state: State) -> list[int]:
    """Return the nodes that can be chosen to be emptied, those with the fewest pods first."""
    index = state.index
    pods = np.bincount(index.group_node, weights=state.stay, minlength=len(state.free))
    is_allowed = index.can_be_chosen_empty.copy()
    is_allowed[index.group_node[~index.may_lose[index.group_gang] & (state.stay > 0)]] = False
    nodes = np.flatnonzero(is_allowed)
    return list(nodes[np.argsort(pods[nodes], kind="stable")].tolist())


def _evictions_in(trial: State, area: int) -> Evictions | None:
    """Evict pods in one area until the pending pods fit; return these pods, or None if they cannot.

    `trial` is changed.
    """
    missing = trial.missing()[0]
    taken: Evictions = []
    steps: list[tuple[int, int, Evictions]] = []

    def consider(node: int) -> None:
        step = _for_one_more(trial, node)
        if step is not None:
            heappush(steps, (len(step), node, step))

    allowed = (trial.area == area) & trial.is_open & trial.index.shape_allowed[0]
    for node in np.flatnonzero(allowed).tolist():
        consider(node)
    while trial.room_in[0, area] < missing:
        require_time()
        if not steps:
            return None
        _, node, step = heappop(steps)
        for group in step:
            trial.evict(group, 1)
        taken += step
        consider(node)
    return taken


def _for_one_more(state: State, node: int) -> Evictions | None:
    """Return pods whose loss makes room for one more pending pod on a node; None if none can."""
    index = state.index
    request = index.shape_request[0]
    room = int(state.room[0, node])
    if room == index.shape_per_node[0]:
        return None
    short = np.maximum((room + 1) * request - state.free[node], 0)
    groups = state.groups_on(node)
    groups = groups[index.may_lose[index.group_gang[groups]]]
    left, requests = state.stay[groups], index.group_request[groups]
    taken: Evictions = []
    while short.any():
        is_short = short > 0
        covered = np.minimum(requests, short)[:, is_short] / short[is_short]
        coverage = np.where(left > 0, covered.sum(axis=1), 0.0)
        if not coverage.any():
            return None
        best = int(np.argmax(coverage))
        left[best] -= 1
        taken.append(int(groups[best]))
        short = np.maximum(short - requests[best], 0)
    return taken
