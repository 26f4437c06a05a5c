"""Imitations of the preemption of kube-scheduler: pod by pod, and for whole groups of pods.

File names are relative to ``pkg/scheduler`` in the repository of Kubernetes.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import require_time, within_time
from lyra_opt.preemption.heuristics.base import PreemptionHeuristic, State, pods_in
from lyra_opt.preemption.index import Integers, PreemptionIndex
from lyra_opt.preemption.instance import Instance

CPU, MEMORY = "cpu", "memory"
DEFAULT_REQUESTS = {CPU: 100, MEMORY: 200 * 2**20}
"""Requests that scores assume for pods without one, in milli-CPUs and bytes
(``util/pod_resources.go``)."""
LEAST_NODES = 100
"""Least number of nodes that are scored, and of nodes that are candidates for preemption."""
CANDIDATES_PERCENT = 10
PRIORITY_SHIFT = 2**31  # makes all priorities positive, so that further victims increase the sum
POD_COUNTS = ("lost_pods", "disrupted_pods")


class _Plan(NamedTuple):
    """The victims on one node, and the numbers by which nodes are compared, smallest first."""

    key: tuple[int, int, int, int, float]
    victims: list[tuple[int, int]]


class KubePods(PreemptionHeuristic):
    """Preempt as kube-scheduler does by default: pod by pod, without regard to gangs.

    The pending pods are scheduled one after the other. A pod is bound to the node with the best
    score on which it fits. If it fits nowhere, victims are chosen on one node: all pods of lower
    priority leave it, and return one by one, if the pending pod still fits. Pods return in this
    order: those that a budget protects first, then by higher priority, then by earlier start. The
    nodes are compared by these criteria in turn: fewest broken budgets, lowest priority of the most
    important victim, smallest sum of priorities, fewest victims, and latest start of the earliest
    victim of highest priority. Remaining ties are broken at random.

    Preemption is asynchronous: while further pods are scheduled, the victims are still on their
    nodes, where room is reserved for the pods that preempted them. The imitation keeps the victims
    until all pending pods have been tried. In the real program this depends on how long the victims
    take to end.

    The score is the sum of `least_allocated` and `balanced_allocation`, which consider the
    resources ``cpu`` and ``memory``. If no node has them, the node with the fewest pods is best.
    In clusters of 100 or more nodes, only some nodes are scored, and only some are candidates for
    preemption. Budgets that count lost or disrupted pods act like a PodDisruptionBudget.
    kube-scheduler breaks them if it must, so a hard budget can make its victims invalid.

    It leaves out the scores of the plug-ins for images, taints, affinity and spreading, which are
    equal for all nodes without such rules; the time that victims take to end; hints from the
    previous pod (OpportunisticBatching); and nodes that are examined in parallel. Its cost is that
    of the real program in 92 % of 118 recorded decisions (``instances/preemption/recorded``).

    Source: Kubernetes 1.36.2, ``schedule_one.go``, ``framework/preemption/preemption.go`` and
    ``executor.go``, ``framework/plugins/defaultpreemption/default_preemption.go``,
    ``framework/plugins/noderesources``. Complexity O(pending pods * nodes * resources + running
    pods * log), because the plan of a node is computed again only after a pod was placed on it.
    Guarantee: none, because the rule counts pods, and the loss of one pod can cost a whole gang.
    """

    name = "kube-pods"
    takes_several_shapes = True

    def targets(self, index: PreemptionIndex) -> Iterator[Integers]:
        """Yield only the full number of pods, because the rule stops at a pod without a node."""
        yield index.shape_count

    def choose(self, state: State, rng: np.random.Generator) -> bool:
        """Schedule the pending pods by shape; the first pod without a node ends its shape."""
        run = _PodByPod(state, rng)
        for shape in range(len(state.wanted)):
            for _ in range(int(state.wanted[shape])):
                require_time()
                if not run.schedule(shape):
                    break
        state.wanted = state.placed.sum(axis=1)
        return bool((state.wanted >= state.index.shape_min).all())


class _PodByPod:
    """A run of the scheduler over the pending pods; all victims stay on their nodes to its end."""

    def __init__(self, state: State, rng: np.random.Generator) -> None:
        index = state.index
        self._state, self._rng, self._index = state, rng, index
        self._free = index.free.copy()  # victims hold their resources, reserved pods as well
        self._scores = _Scores(state.instance)
        self._budgets = _pod_budgets(state.instance)
        self._plans: dict[tuple[int, int], _Plan | None] = {}
        self._start = 0

    def schedule(self, shape: int) -> bool:
        """Place one pod of a shape, by preemption if necessary; return whether it gets a node."""
        index = self._index
        room = index.shape_per_node[shape] - self._state.placed[shape]
        is_open = index.shape_allowed[shape] & (room > 0)
        request = index.shape_request[shape]
        fitting = self._sampled(is_open & (self._free >= request).all(axis=1))
        node: int | None
        if len(fitting):
            scores = self._scores.of(shape, fitting)
            node = int(self._rng.choice(fitting[scores == scores.max()]))
            self._scores.add(shape, node)
        else:
            node = self._preempt(shape, is_open & (index.capacity >= request).all(axis=1))
            if node is None:
                return False
        self._free[node] -= request
        for other in range(len(index.shape_count)):
            self._plans.pop((other, node), None)
        self._state.place(shape, node)
        return True

    def _sampled(self, fits: np.ndarray) -> Integers:
        """Return the fitting nodes that are scored: the first ones after those scored last."""
        nodes = len(fits)
        order = np.roll(np.arange(nodes), -self._start)
        found: Integers = order[fits[order]]
        enough = _nodes_to_score(nodes)
        if len(found) > enough:
            self._start = int(found[enough])
        return found[:enough]

    def _preempt(self, shape: int, is_possible: np.ndarray) -> int | None:
        """Choose a node, evict its victims and return the node; None if no node has victims."""
        possible = np.flatnonzero(is_possible)
        enough = max(len(possible) * CANDIDATES_PERCENT // 100, LEAST_NODES)
        offset = int(self._rng.integers(len(possible))) if len(possible) else 0
        plans: dict[int, _Plan] = {}
        for node in within_time(np.roll(possible, -offset).tolist(), every=100):
            if (shape, node) not in self._plans:
                self._plans[shape, node] = self._victims_on(shape, node)
            plan = self._plans[shape, node]
            if plan is not None:
                plans[node] = plan
                if len(plans) >= enough and any(not each.key[0] for each in plans.values()):
                    break
        if not plans:
            return None
        best = min(plan.key for plan in plans.values())
        node = int(self._rng.choice([node for node in plans if plans[node].key == best]))
        for group, count in plans[node].victims:
            # Victims of an earlier pod are still on the node and can be chosen again.
            self._state.evict(group, max(0, count - int(self._state.lost[group])))
        return node

    def _victims_on(self, shape: int, node: int) -> _Plan | None:
        """Return the victims on a node; None if the pod does not fit or needs no victims."""
        index = self._index
        groups = self._state.groups_on(node)
        groups = groups[index.may_lose[index.group_gang[groups]]]
        gangs = index.group_gang[groups]
        groups = groups[np.lexsort((index.start_s[gangs], -index.priority[gangs]))]
        counts, requests = index.group_count[groups], index.group_request[groups]
        left = self._free[node] + counts @ requests - index.shape_request[shape]
        if not len(groups) or (left < 0).any():
            return None
        protected = self._protected(groups)
        kept, violations = np.zeros_like(counts), 0
        for is_first in (True, False):
            for position, request in enumerate(requests):
                count = protected[position] if is_first else counts[position] - protected[position]
                back = min(int(count), int(pods_in(left, request)))
                left -= back * request
                kept[position] += back
                violations += int(count) - back if is_first else 0
        lost = counts - kept
        victims = np.flatnonzero(lost)
        if not len(victims):
            return None
        gangs = index.group_gang[groups[victims]]
        levels, starts = index.priority[gangs], index.start_s[gangs]
        top, pods = int(levels[0]), int(lost.sum())
        sum_of_levels = int(lost[victims] @ (levels + PRIORITY_SHIFT))
        key = violations, top, sum_of_levels, pods, -float(starts[levels == top].min())
        return _Plan(key, list(zip(groups[victims].tolist(), lost[victims].tolist(), strict=True)))

    def _protected(self, groups: Integers) -> Integers:
        """Return how many pods of each group break a budget if all groups leave in this order."""
        found = np.zeros(len(groups), dtype=np.int64)
        for gangs, most in self._budgets:
            left = most
            for position, group in enumerate(groups):
                if int(self._index.group_gang[group]) in gangs:
                    count = int(self._index.group_count[group])
                    found[position] = max(found[position], count - max(0, left))
                    left -= count
        return np.clip(found, 0, self._index.group_count[groups])


class KubeGang(PreemptionHeuristic):
    """Preempt as kube-scheduler does for a group of pods, if gang preemption is switched on.

    The units that can be preempted are single pods and whole gangs of several pods. All units of
    lower priority leave the cluster. They return one by one, and a unit is a victim if the pending
    gang would not fit any more after its return. Units return in this order: those that a budget
    protects first, then by higher priority, then gangs before single pods, then larger gangs, then
    by earlier start. Remaining ties are broken at random. After each return, the pending gang is
    scheduled again from the beginning, so its pods may be on other nodes each time. Room for its
    minimum is enough.

    Budgets that count lost or disrupted pods act like a PodDisruptionBudget, as for `KubePods`.
    Gangs of several pods are PodGroups whose disruption mode is PodGroup; a minimum below their
    size does not matter. The rule leaves out PodGroups whose pods are disrupted one by one. In all
    118 recorded decisions its victims are those of the real program
    (``instances/preemption/recorded``).

    Source: Kubernetes 1.36.2 with the alpha features GenericWorkload, GangScheduling and
    WorkloadAwarePreemption (KEP-5710), ``framework/preemption/podgrouppreemption.go`` and
    ``types.go``, ``schedule_one_podgroup.go``. That version refuses to preempt for groups with a
    required level, and so does this rule. Newer versions of KEP-5710 keep the first placement
    fixed, and therefore choose other victims. Complexity O(gangs log gangs + pods * (shapes +
    resources)) for one shape; several shapes are placed by first fit after each return, instead of
    by score. Guarantee: the victims are minimal under inclusion for one shape without budgets. The
    cost can be arbitrarily high, because units of low priority are tried last and all together.
    """

    name = "kube-gang"
    takes_several_shapes = True

    def targets(self, index: PreemptionIndex) -> Iterator[Integers]:
        """Yield the minimum of the gang only: the real program preempts for no more."""
        yield index.shape_min

    def choose(self, state: State, rng: np.random.Generator) -> bool:
        """Evict all units, and let each return in order of importance if the gang still fits."""
        index = state.index
        state.evict_groups(np.flatnonzero(index.may_lose[index.group_gang]))
        if not state.fits():
            return False
        gangs = np.flatnonzero(index.may_lose)
        size = np.where(index.size > 1, index.size, 0)[gangs]
        # The sort below is stable, so a random order before it breaks ties at random.
        gangs, size = gangs[(shuffled := rng.permutation(len(gangs)))], size[shuffled]
        order = gangs[np.lexsort((index.start_s[gangs], -size, -index.priority[gangs]))].tolist()
        protected = _protected_units(state.instance, order)
        state.put_back_gangs(sorted(order, key=lambda gang: gang not in protected))
        return True


def _pod_budgets(instance: Instance) -> list[tuple[frozenset[int], int]]:
    """Return the gangs and the remaining pods of each budget that counts pods."""
    return [
        (
            frozenset(instance.gang_position[name] for name in budget.gangs),
            budget.most - budget.used,
        )
        for budget in instance.budgets
        if budget.counts in POD_COUNTS
    ]


def _protected_units(instance: Instance, order: Sequence[int]) -> set[int]:
    """Return the gangs that would break a budget if they left after all gangs before them.

    Source: ``filterVictimsWithPDBViolation`` of ``framework/preemption/preemption.go``. Once a pod
    of a gang breaks a budget, the other pods of the gang are not counted.
    """
    budgets = _pod_budgets(instance)
    left = [most for _, most in budgets]

    def breaks_one(gang: int) -> bool:
        mine = [each for each, (gangs, _) in enumerate(budgets) if gang in gangs]
        for each in mine * instance.gangs[gang].size:
            left[each] -= 1
            if left[each] < 0:
                return True
        return False

    return {gang for gang in order if breaks_one(gang)}


def _nodes_to_score(nodes: int) -> int:
    """Return after how many fitting nodes the search stops (``numFeasibleNodesToFind``)."""
    if nodes < LEAST_NODES:
        return nodes
    return max(nodes * max(50 - nodes // 125, 5) // 100, LEAST_NODES)


class _Scores:
    """The scores of nodes for a pod, which depend on the pods that are present."""

    def __init__(self, instance: Instance) -> None:
        index = instance.index
        self._index = index
        names = [name for name in (CPU, MEMORY) if name in instance.resources]
        self._columns = [instance.resources.index(name) for name in names]
        self._defaults = np.array([DEFAULT_REQUESTS[name] for name in names], dtype=np.int64)
        self._pods = np.zeros(len(index.free), dtype=np.int64)
        np.add.at(self._pods, index.group_node, index.group_count)
        self._capacity = index.capacity[:, self._columns]
        self._held = self._capacity - index.free[:, self._columns]
        self._assumed = np.zeros_like(self._held)
        assumed = self._at_least(index.group_request[:, self._columns])
        np.add.at(self._assumed, index.group_node, assumed * index.group_count[:, None])

    def _at_least(self, requests: Integers) -> Integers:
        return np.where(requests > 0, requests, self._defaults)

    def add(self, shape: int, node: int) -> None:
        """Record that a pod of a shape is bound to a node."""
        request = self._index.shape_request[shape, self._columns]
        self._pods[node] += 1
        self._held[node] += request
        self._assumed[node] += self._at_least(request)

    def of(self, shape: int, nodes: Integers) -> Integers:
        """Return the score of each node for a pod of a shape; the largest score is best."""
        capacity = self._capacity[nodes]
        if not capacity.any():
            return np.asarray(-self._pods[nodes])
        request = self._index.shape_request[shape, self._columns]
        scores = least_allocated(self._assumed[nodes] + self._at_least(request), capacity)
        if request.any():
            scores = scores + balanced_allocation(self._held[nodes], request, capacity)
        return scores


def least_allocated(requested: Integers, capacity: Integers) -> Integers:
    """Return the mean share of free resources from 0 to 100, rounded down twice, (N,).

    Source: ``framework/plugins/noderesources/least_allocated.go``.
    """
    known = capacity > 0
    free = np.maximum(capacity - requested, 0) * 100 // np.maximum(capacity, 1)
    return np.asarray((free * known).sum(axis=1) // np.maximum(known.sum(axis=1), 1))


def balanced_allocation(held: Integers, request: Integers, capacity: Integers) -> Integers:
    """Return how much a pod balances the used shares of CPU and memory, (N,); 75 if not at all.

    Source: ``framework/plugins/noderesources/balanced_allocation.go``.
    """

    def balance(amounts: Integers) -> Integers:
        shares = np.minimum(amounts / np.maximum(capacity, 1), 1.0)
        is_pair = (capacity > 0).sum(axis=1) == 2
        deviation = np.where(is_pair, np.abs(shares[:, 0] - shares[:, -1]) / 2, 0.0)
        return ((1 - deviation) * 100).astype(np.int64)

    return np.asarray(50 + (50 + balance(held + request) - balance(held)) // 2)
