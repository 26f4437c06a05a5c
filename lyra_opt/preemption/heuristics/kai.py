"""An imitation of KAI-Scheduler: victims proposed by two generators, simulated, and re-placed.

The rule first tries consolidation, in which no pod may be lost, then preemption. Each looks for
victims for 1, 2, 4, ... of the pending pods, and then by bisection for the largest number that
succeeds. The victims of one success are the start of the next search.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import require_time
from lyra_opt.preemption.heuristics.base import (
    REQUIRED_LEVEL,
    SEVERAL_SHAPES,
    Imitation,
    PreemptionHeuristic,
    pods_in,
)
from lyra_opt.preemption.instance import Moves, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lyra_opt.preemption.heuristics.base import State
    from lyra_opt.preemption.index import Flags, Integers
    from lyra_opt.preemption.instance import Instance

Pods = dict[int, int]
"""Numbers of pods by pod group."""

MOST_CONSOLIDATED = 17
"""The number of gangs that consolidation considers: KAI's default of 16, and one more."""
TOPOLOGY_SCORES = 10
"""The number of different scores that nodes get by the order of their domains."""


class KAI(PreemptionHeuristic):
    """Simulate growing sets of victims until the pending gang fits, and place the victims again.

    This is an imitation of the actions consolidation and preempt of KAI-Scheduler with the
    generators node-local greedy and multi-node gang. It is written from the code and is unchecked
    against the real program. It leaves out fair share and the order of queues, subgroups, minimum
    run times, the scores of other plug-ins, search budgets in seconds, and filters that only save
    time.

    Victims come in a fixed order: lower priority, gangs above their minimum first, later start,
    last in the file. A gang above its minimum gives its last pod; then it is sorted in again. A
    gang at its minimum gives all its pods. Node-local greedy proposes, for each node of the newest
    pods, the accumulated victims of all gangs on this node. Multi-node gang sorts the nodes with
    victims by capacity after eviction and proposes prefixes: the smallest that covers the demand,
    then prefixes that grow by 1, 2, 4, ... nodes.

    A proposal is simulated with all its victims evicted. Pods prefer nodes where they fit without
    evictions, then the node with the fewest free GPUs, then file order. A required level is tried
    domain by domain, the one that would be filled most first. After the pending pods, each gang of
    victims is placed again: up to its minimum, or one pod if it has its minimum. A pod that returns
    to its node stays. A pod that is placed elsewhere counts as moved if the instance allows it,
    otherwise as lost. The first proposal whose pending pods fit is accepted.

    Notes
    -----
    Consolidation needs an instance with moves. KAI considers 17 arbitrary gangs for it; the
    imitation draws them at random. In consolidation the pending gang takes its turn by priority,
    and counts as the newest gang; in preemption it comes first.
    Complexity O(log(pending pods) * pods * nodes) simulations of O(pods * nodes) in the worst case,
    so a time limit is advisable for large clusters. Guarantee: none; even an obvious set can be
    missed, because a generator proposes no set that is smaller than the newest victims.
    """

    name = "kai"
    handles = frozenset({SEVERAL_SHAPES, REQUIRED_LEVEL})
    imitates = Imitation(
        program="KAI-Scheduler",
        version="d5bc503 (7 August 2026)",
        sources=(
            "pkg/scheduler/actions/common/solvers/job_solver.go",
            "pkg/scheduler/actions/common/solvers/by_pod_solver.go",
            "pkg/scheduler/actions/common/solvers/pod_scenario_builder.go",
            "pkg/scheduler/actions/common/solvers/sub_scenario_emitter.go",
            "pkg/scheduler/actions/common/action.go",
            "pkg/scheduler/actions/consolidation/consolidation.go",
            "pkg/scheduler/actions/preempt/preempt.go",
            "pkg/scheduler/plugins/nodelocalgreedy/generator.go",
            "pkg/scheduler/plugins/multinodegang/generator.go",
            "pkg/scheduler/plugins/topology/job_filtering.go",
            "pkg/scheduler/plugins/nodeplacement/pack.go",
            "pkg/scheduler/api/podgroup_info/eviction_info.go",
        ),
        leaves_out=(
            "fair share and order of queues, reclaim between queues",
            "subgroups and minimum run times",
            "scores of other plug-ins",
            "search budgets in seconds",
        ),
    )

    def choose(self, state: State, rng: np.random.Generator) -> bool:
        """Apply the first plan that consolidation or preemption finds."""
        index = state.index
        if not state.instance.resources:
            return False
        plan = None
        if state.instance.moves is not Moves.NONE and _has_enough_free(state):
            gangs = np.flatnonzero(index.may_move)
            if len(gangs) > MOST_CONSOLIDATED:
                gangs = np.sort(rng.permutation(gangs)[:MOST_CONSOLIDATED])
            plan = _Search(state, gangs, is_consolidation=True).plan()
        if plan is None:
            plan = _Search(state, np.flatnonzero(index.may_lose), is_consolidation=False).plan()
        if plan is not None:
            plan.apply_to(state)
        return plan is not None


class _Plan(NamedTuple):
    """The result of a simulation.

    Parameters
    ----------
    placed
        Number of pending pods of each shape on each node, (S, N).
    lost
        Victims that are not placed again.
    elsewhere
        Number of victims that are placed on another node, by pod group and node.
    """

    placed: Integers
    lost: Pods
    elsewhere: dict[tuple[int, int], int]

    @property
    def victims(self) -> Pods:
        """The pods that are lost or placed elsewhere, by pod group."""
        found = dict(self.lost)
        for (group, _), count in self.elsewhere.items():
            found[group] = found.get(group, 0) + count
        return found

    def apply_to(self, state: State) -> None:
        """Evict the victims, place the pending pods, and move the victims that may move."""
        for group, count in self.victims.items():
            state.evict(group, count)
        for shape, node in np.argwhere(self.placed):
            state.place(int(shape), int(node), int(self.placed[shape, node]))
        for (group, node), count in self.elsewhere.items():
            if state.may_move_to(group, node):
                state.move(group, node, count)


class _Search:
    """The search for victims among some gangs."""

    def __init__(self, state: State, gangs: Integers, *, is_consolidation: bool) -> None:
        self.start = state
        self.index = state.index
        self.gangs = [int(gang) for gang in gangs]
        self.is_consolidation = is_consolidation
        self.failed: set[tuple[int, frozenset[tuple[int, int]]]] = set()
        self.packed = _packed_column(state.instance, self.index.shape_request.max(axis=0))

    def plan(self) -> _Plan | None:
        """Return the plan for all wanted pods that the first successful generator finds."""
        for propose in (self._node_local, self._multi_node):
            plan = self._plan_by(propose)
            if plan is not None:
                return plan
        return None

    def _plan_by(self, propose: Callable[[State, Pods], Iterator[Pods]]) -> _Plan | None:
        number = int(self.start.wanted.sum())
        recorded: Pods = {}

        def succeeds(pods: int) -> bool:
            nonlocal recorded
            found = self._probe(propose, pods, recorded)
            if found is not None:
                recorded = found.victims
            return found is not None

        low, high, probed = 0, number + 1, 1
        while succeeds(probed):
            low = probed
            if low == number:
                break
            probed = min(2 * probed, number)
        else:
            high = probed
        while low < number and high - low > 1:
            middle = (low + high) // 2
            if succeeds(middle):
                low = middle
            else:
                high = middle
        return self._probe(propose, number, recorded) if low else None

    def _probe(
        self, propose: Callable[[State, Pods], Iterator[Pods]], pods: int, recorded: Pods
    ) -> _Plan | None:
        """Return the plan of the first proposal that makes room for the first pending pods."""
        wanted = self.start.wanted
        outer = self.start.copy()
        outer.wanted = np.clip(pods - (np.cumsum(wanted) - wanted), 0, wanted)
        for group, count in recorded.items():
            outer.evict(group, count)
        for victims in propose(outer, recorded):
            tried = (pods, frozenset(victims.items()))
            if not victims or tried in self.failed:
                continue
            plan = self._simulate(outer.wanted, victims)
            if plan is not None:
                return plan
            self.failed.add(tried)
        return None

    def _batches(self, recorded: Pods) -> Iterator[tuple[int, Pods]]:
        """Yield the next gang in victim order and the pods that it gives, until none is left."""
        index = self.index
        left = index.group_count.copy()
        for group, count in recorded.items():
            left[group] -= count
        pods = {
            gang: int(left[slice(*index.first_group[gang : gang + 2])].sum()) for gang in self.gangs
        }

        def entry(gang: int) -> tuple[int, bool, float, int]:
            is_at_minimum = pods[gang] <= index.min_pods[gang]
            return int(index.priority[gang]), is_at_minimum, -float(index.start_s[gang]), -gang

        heap = [entry(gang) for gang in self.gangs if pods[gang]]
        heapify(heap)
        while heap:
            require_time()
            *_, negative = heappop(heap)
            gang = -negative
            groups = [group for group in self.start.groups_of(gang) if left[group]]
            if pods[gang] > index.min_pods[gang]:
                batch = {groups[-1]: 1}
            else:
                batch = {group: int(left[group]) for group in groups}
            for group, count in batch.items():
                left[group] -= count
                pods[gang] -= count
            yield gang, batch
            if pods[gang]:
                heappush(heap, entry(gang))

    def _node_local(self, outer: State, recorded: Pods) -> Iterator[Pods]:
        """Propose the recorded victims and the accumulated victims of the gangs on one node."""
        if recorded and _may_fit(outer):
            yield recorded
        given: dict[int, Pods] = {}
        gangs_on: dict[int, set[int]] = {}
        for gang, batch in self._batches(recorded):
            nodes = {int(self.index.group_node[group]) for group in batch}
            given[gang] = _sum(given.get(gang, {}), batch)
            for node in nodes:
                gangs_on.setdefault(node, set()).add(gang)
            for group, count in batch.items():
                outer.evict(group, count)
            if _may_fit(outer):
                for node in sorted(nodes):
                    yield _sum(recorded, *(given[each] for each in sorted(gangs_on[node])))

    def _multi_node(self, outer: State, recorded: Pods) -> Iterator[Pods]:
        """Propose the recorded victims and the batches on the nodes of a prefix."""
        if recorded and _may_fit(outer):
            yield recorded
        batches: list[Pods] = []
        batches_on: dict[int, list[int]] = {}
        for _, batch in self._batches(recorded):
            for node in dict.fromkeys(int(self.index.group_node[group]) for group in batch):
                batches_on.setdefault(node, []).append(len(batches))
            batches.append(batch)
            for group, count in batch.items():
                outer.evict(group, count)
            if _may_fit(outer):
                nodes = self._by_capacity(outer, batches_on)
                for length in self._lengths(outer, nodes, set(batches_on)):
                    picked = {each for node in nodes[:length] for each in batches_on[node]}
                    yield _sum(recorded, *(batches[each] for each in sorted(picked)))

    def _by_capacity(self, outer: State, batches_on: dict[int, list[int]]) -> list[int]:
        """Return the nodes with victims that can hold a pending pod, smallest capacity first.

        The dictionary is in the order in which nodes got their first victim, which breaks ties.
        """
        least = self.index.shape_request[outer.wanted > 0, self.packed].min()
        free = outer.free[:, self.packed]
        return sorted((node for node in batches_on if free[node] >= least), key=free.__getitem__)

    def _lengths(self, outer: State, nodes: list[int], with_victims: set[int]) -> Iterator[int]:
        """Yield the lengths of the prefixes of `nodes` to try."""
        free = outer.free[:, self.packed]
        need = int((outer.wanted * self.index.shape_request[:, self.packed]).sum())
        need -= int(free.sum() - free[list(with_victims)].sum())
        covered = np.concatenate(([0], np.cumsum(free[nodes])))
        length, step = int(np.searchsorted(covered, max(need, 0))), 1
        while length <= len(nodes):
            yield length
            if length == len(nodes):
                return
            length, step = min(length + step, len(nodes)), 2 * step

    def _simulate(self, wanted: Integers, victims: Pods) -> _Plan | None:
        """Return the result of evicting victims and placing everything again; None if it fails."""
        require_time()
        index = self.index
        cluster = _Cluster(self.start, victims)
        gangs = sorted(
            {int(index.group_gang[group]) for group in victims},
            key=lambda gang: self._turn(gang, victims),
        )
        before = 0
        if self.is_consolidation:
            assert self.start.instance.demand is not None
            pending = (-self.start.instance.demand.priority, False, np.inf, 0)
            before = sum(self._turn(gang, victims) < pending for gang in gangs)
        for gang in gangs[:before]:
            cluster.place_again(gang)
        if not cluster.place_pending(wanted):
            return None
        for gang in gangs[before:]:
            cluster.place_again(gang)
        if self.is_consolidation and cluster.lost:
            return None
        return _Plan(cluster.placed, cluster.lost, cluster.elsewhere)

    def _turn(self, gang: int, victims: Pods) -> tuple[int, bool, float, int]:
        """Return the order in which gangs are placed again."""
        index = self.index
        has_minimum = _left(self.start, gang, victims) >= index.min_pods[gang]
        return -int(index.priority[gang]), bool(has_minimum), float(index.start_s[gang]), gang


class _Cluster:
    """The free resources of all nodes in a simulation, and the pods that are placed again."""

    def __init__(self, state: State, victims: Pods) -> None:
        self.state, self.index = state, state.index
        self.victims = victims
        self.free = state.free.copy()
        self.placed = np.zeros_like(state.placed)
        self.lost: Pods = {}
        self.elsewhere: dict[tuple[int, int], int] = {}
        for group, count in victims.items():
            node = self.index.group_node[group]
            self.free[node] += count * self.index.group_request[group]

    def place_pending(self, wanted: Integers) -> bool:
        """Place the wanted pods in the first set of nodes where all fit, if there is one."""
        for nodes, score in self._node_sets(wanted):
            before = self.free.copy()
            for shape in np.flatnonzero(wanted):
                allowed = nodes & self.state.is_open & self.index.shape_allowed[shape]
                found = self._fill(
                    self.index.shape_request[shape],
                    int(wanted[shape]),
                    allowed,
                    score,
                    int(self.index.shape_per_node[shape]),
                )
                if found is None:
                    break
                for node, count in found:
                    self.placed[shape, node] += count
            else:
                return True
            self.free = before
            self.placed[:] = 0
        return False

    def place_again(self, gang: int) -> None:
        """Place the minimum of a gang's victims, or one if it has its minimum; others are lost."""
        index = self.index
        to_place = max(int(index.min_pods[gang]) - _left(self.state, gang, self.victims), 1)
        before = self.free.copy()
        back: Pods = {}
        elsewhere: dict[tuple[int, int], int] = {}
        groups = [group for group in self.state.groups_of(gang) if group in self.victims]
        for group in groups:
            count = min(self.victims[group], to_place)
            found = self._fill(index.group_request[group], count, self._targets(group))
            if found is None:
                self.free, back, elsewhere = before, {}, {}
                break
            to_place -= count
            for node, number in found:
                if node == index.group_node[group]:
                    back[group] = number
                else:
                    elsewhere[group, node] = number
        self.elsewhere.update(elsewhere)
        for group in groups:
            kept = back.get(group, 0) + sum(
                number for (each, _), number in elsewhere.items() if each == group
            )
            if kept < self.victims[group]:
                self.lost[group] = self.victims[group] - kept

    def _targets(self, group: int) -> Flags:
        """Return which nodes the pods of a group may be placed on, their own included."""
        index, instance = self.index, self.state.instance
        gang = int(index.group_gang[group])
        selector = instance.gangs[gang].pods[group - int(index.first_group[gang])].selector
        is_allowed = self.state.is_open.copy()
        if selector:
            is_allowed &= [matches(node, selector) for node in instance.nodes]
        return is_allowed

    def _fill(
        self,
        request: Integers,
        count: int,
        allowed: Flags,
        score: Integers | None = None,
        per_node: int | None = None,
    ) -> list[tuple[int, int]] | None:
        """Place alike pods on the best nodes one after the other; None if not all fit.

        The best node has the highest score, then room without evictions, then the fewest free
        resources. A node that gets a pod remains the best one, so it gets as many as it can hold.
        """
        room = np.where(allowed, pods_in(self.free, request), 0)
        if per_node is not None:
            room = np.minimum(room, per_node)
        nodes = np.flatnonzero(room)
        if room[nodes].sum() < count:
            return None
        column = _packed_column(self.state.instance, request)
        is_idle = (self.index.free[nodes] >= request).all(axis=1)
        scores = np.zeros(len(nodes)) if score is None else score[nodes]
        found = []
        for node in nodes[np.lexsort((self.free[nodes, column], ~is_idle, -scores))]:
            number = min(count, int(room[node]))
            if number:
                found.append((int(node), number))
                self.free[node] -= number * request
                count -= number
        return found

    def _node_sets(self, wanted: Integers) -> Iterator[tuple[Flags, Integers | None]]:
        """Yield the sets of nodes to try for the pending pods, and the scores of the nodes.

        With a level, these are the domains with room for the pending pods, the one that they fill
        most first; if the level is not required, the whole cluster follows.
        """
        demand, index = self.state.instance.demand, self.index
        assert demand is not None
        everywhere = np.ones(len(self.free), dtype=bool)
        if demand.level is None:
            yield everywhere, None
            return
        need = (wanted[:, None] * index.shape_request).sum(axis=0)
        largest = index.shape_request[wanted > 0].max(axis=0)
        inside = [index.domain == domain for domain in range(index.domains)]
        order = sorted(
            range(index.domains),
            key=lambda domain: -_share(need, self.free[inside[domain]].sum(axis=0)),
        )
        for domain in order:
            room = pods_in(self.free[inside[domain]], largest).sum()
            if len(np.flatnonzero(wanted)) > 1 or room >= wanted.sum():
                yield inside[domain], None
        if not demand.is_level_required:
            score = np.zeros(len(self.free), dtype=np.int64)
            for position, domain in enumerate(order, 1):
                score[inside[domain]] = position * TOPOLOGY_SCORES // len(order)
            yield everywhere, score


def _has_enough_free(state: State) -> bool:
    """Return whether the free resources of the open nodes cover the pending pods in sum."""
    need = (state.wanted[:, None] * state.index.shape_request).sum(axis=0)
    return bool((state.free[state.is_open].sum(axis=0) >= need).all())


def _may_fit(outer: State) -> bool:
    """Return whether each shape on its own has room in some area."""
    return next(outer.possible_areas(), None) is not None


def _left(state: State, gang: int, victims: Pods) -> int:
    """Return the number of pods of a gang that are not victims."""
    return int(state.kept[gang]) - sum(victims.get(group, 0) for group in state.groups_of(gang))


def _sum(*parts: Pods) -> Pods:
    total: Pods = {}
    for part in parts:
        for group, count in part.items():
            total[group] = total.get(group, 0) + count
    return total


def _packed_column(instance: Instance, request: Integers) -> int:
    """Return the resource by which nodes are packed: GPUs, or else CPU, or else the first."""
    names = instance.resources
    requested = [name for name, amount in zip(names, request, strict=True) if amount] or names
    preferred = [name for name in ("gpu", "cpu") if name in requested]
    return names.index([*preferred, *requested][0])


def _share(need: Integers, free: Integers) -> float:
    """Return the largest share of the free resources that is needed; 1000 without any."""
    shares = [1000.0 if free[r] <= 0 else need[r] / free[r] for r in np.flatnonzero(need)]
    return max(shares, default=0.0)
