"""An imitation of KAI-Scheduler: two generators propose victims, and each proposal is simulated.

The rule first tries consolidation, in which no pod may be lost, then preemption. Each action looks
for victims for 1, 2, 4, ... of the pending pods, and then by bisection for the largest number of
pods that succeeds. The victims of a successful search are the start of the next search.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain, product

import numpy as np

from lyra_opt.core.stopwatch import require_time
from lyra_opt.preemption.heuristics.base import PreemptionHeuristic, State, first_fit, pods_in
from lyra_opt.preemption.index import Flags, Integers
from lyra_opt.preemption.instance import Instance, Moves

Pods = Counter[int]
"""Numbers of pods by pod group."""

MOST_CONSOLIDATED = 17
"""The number of gangs that consolidation considers: KAI's default of 16, plus 1."""
TOPOLOGY_SCORES = 10
"""The number of different scores that nodes get from the order of their domains."""


class KAI(PreemptionHeuristic):
    """Simulate growing sets of victims until the pending gang fits, and place the victims again.

    This is an imitation of the actions consolidation and preempt of KAI-Scheduler with the
    generators node-local greedy and multi-node gang. It is written from the code and is unchecked
    against the real program. It leaves out fair share and the order of queues, subgroups, minimum
    run times, the scores of other plug-ins, and search budgets in seconds.

    Gangs become victims in a fixed order: lower priority first, then gangs above their minimum,
    then later start, then last in the file. A gang above its minimum gives its last pod, and is
    then sorted into the order again. A gang at its minimum gives all its pods. After each gang, the
    generators make proposals. Node-local greedy proposes, for each node of the pods that were given
    last, all victims so far of the gangs on this node. Multi-node gang sorts the nodes with victims
    by capacity after eviction and proposes prefixes: the smallest prefix that covers the demand,
    then prefixes that grow by 1, 2, 4, ... nodes.

    A proposal is simulated with all its victims evicted. Pods prefer nodes where they fit without
    evictions, then the node with the fewest free GPUs, then file order. If a level is required, the
    domains are tried in turn, the domain that the pods would fill most first. After the pending
    pods, each gang of victims is placed again: up to its minimum, or one pod if it has its minimum.
    A pod that returns to its node stays. A pod that is placed elsewhere counts as moved if the
    instance allows it, otherwise as lost. The first proposal whose pending pods fit is accepted.

    Notes
    -----
    Commit d5bc503 (7 August 2026). Files in ``pkg/scheduler/actions``: ``common/solvers/*.go``,
    ``common/action.go``, ``consolidation/consolidation.go`` and ``preempt/preempt.go``. Files in
    ``pkg/scheduler/plugins``: ``nodelocalgreedy/generator.go``, ``multinodegang/generator.go``,
    ``topology/job_filtering.go``, ``nodeplacement/pack.go`` and
    ``nodeavailability/nodeavailability.go``.
    Consolidation needs an instance with moves. KAI considers 17 arbitrary gangs for it; the
    imitation draws them at random. In consolidation the pending gang takes its turn by priority,
    and counts as the newest gang; in preemption it comes first.
    Complexity O(log(pending pods) * pods * nodes) simulations of O(pods * nodes) in the worst case,
    so a time limit is advisable for large clusters. Guarantee: none. The rule can miss
    a set that exists, and it accepts the first set that works, whatever the set costs.
    """

    name = "kai"
    takes_several_shapes = True
    takes_required_level = True

    def choose(self, state: State, rng: np.random.Generator) -> bool:
        """Apply the first plan that consolidation or preemption finds."""
        instance, index = state.instance, state.index
        if not instance.resources:
            return False
        searches = [(np.flatnonzero(index.may_lose), False)]
        if instance.moves is not Moves.NONE:
            gangs = np.flatnonzero(index.may_move)
            if len(gangs) > MOST_CONSOLIDATED:
                gangs = np.sort(rng.permutation(gangs)[:MOST_CONSOLIDATED])
            searches.insert(0, (gangs, True))
        for (gangs, is_consolidation), is_node_local in product(searches, (True, False)):
            search = _Search(state, gangs, is_consolidation, is_node_local)
            plan = search.plan()
            if plan is not None:
                plan.apply_to(state)
                return True
        return False


class _Search:
    """The search for victims among given gangs, with one of KAI's two generators of proposals."""

    def __init__(
        self, state: State, gangs: Integers, is_consolidation: bool, is_node_local: bool
    ) -> None:
        self.start, self.index = state, state.index
        self.gangs: list[int] = gangs.tolist()
        self.is_consolidation, self.is_node_local = is_consolidation, is_node_local
        self.packed = _packed_column(state.instance, self.index.shape_request.max(axis=0))

    def plan(self) -> "_Plan | None":
        """Return a plan for all pods, after a search for the largest number of pods that fits."""
        number = int(self.start.wanted.sum())
        recorded = Pods()
        low, high, probed = 0, number + 1, 1
        while low < number and high - low > 1:
            plan = self._probe(probed, recorded)
            if plan is None:
                high = probed
            else:
                low, recorded = probed, plan.victims
            probed = min(2 * low, number) if high > number else (low + high) // 2
        return self._probe(number, recorded) if low else None

    def _probe(self, pods: int, recorded: Pods) -> "_Plan | None":
        """Return the plan of the first proposal that makes room for the first `pods` pods."""
        outer = self.start.copy()
        outer.wanted = first_fit(pods, outer.wanted)
        for group, count in recorded.items():
            outer.evict(group, count)
        first = [recorded] if recorded else []
        for victims in chain(first, self._proposals(outer, recorded)):
            require_time()
            plan = _Plan(self.start, victims)
            if plan.succeeds(outer.wanted, is_consolidation=self.is_consolidation):
                return plan
        return None

    def _batches(self, outer: State) -> Iterator[tuple[int, Pods]]:
        """Evict all pods in the order of victims; yield each gang with the pods that it gives."""
        index = self.index

        def entry(gang: int) -> tuple[int, bool, float, int]:
            is_at_minimum = bool(outer.kept[gang] <= index.min_pods[gang])
            return int(index.priority[gang]), is_at_minimum, -float(index.start_s[gang]), -gang

        heap = [entry(gang) for gang in self.gangs if outer.kept[gang]]
        heapify(heap)
        while heap:
            _, is_at_minimum, _, negative = heappop(heap)
            gang = -negative
            batch = Pods({k: int(outer.stay[k]) for k in outer.groups_of(gang) if outer.stay[k]})
            if not is_at_minimum:
                batch = Pods({max(batch): 1})
            for group, count in batch.items():
                outer.evict(group, count)
            yield gang, batch
            if outer.kept[gang]:
                heappush(heap, entry(gang))

    def _proposals(self, outer: State, recorded: Pods) -> Iterator[Pods]:
        """Yield the sets of victims that KAI's generator proposes.

        Each set includes `recorded`: the victims of the last plan that made room for some of the
        pending pods.
        """
        batches: list[Pods] = []
        proposed: set[tuple[int, ...]] = {()}
        batches_of: dict[int, list[int]] = {}
        gangs_on: dict[int, set[int]] = {}
        batches_on: dict[int, list[int]] = {}
        for gang, batch in self._batches(outer):
            require_time()
            nodes = dict.fromkeys(self.index.group_node[list(batch)].tolist())
            batches_of.setdefault(gang, []).append(len(batches))
            for node in nodes:
                gangs_on.setdefault(node, set()).add(gang)
                batches_on.setdefault(node, []).append(len(batches))
            batches.append(batch)
            if next(outer.possible_areas(), None) is None:
                continue
            picks: Iterable[list[list[int]]]
            if self.is_node_local:
                picks = ([batches_of[each] for each in gangs_on[node]] for node in sorted(nodes))
            else:
                picks = self._prefixes(outer, batches_on)
            for picked in picks:
                numbers = tuple(sorted(set(chain.from_iterable(picked))))
                if numbers not in proposed:
                    proposed.add(numbers)
                    victims = Pods(recorded)
                    for number in numbers:
                        victims.update(batches[number])
                    yield victims

    def _prefixes(
        self, outer: State, batches_on: dict[int, list[int]]
    ) -> Iterator[list[list[int]]]:
        """Yield the batches on growing prefixes of the nodes with victims, smallest nodes first.

        Nodes on which no pending pod would fit are left out. `batches_on` is in the order in which
        nodes got their first victim, which breaks ties.
        """
        request, free = self.index.shape_request[:, self.packed], outer.free[:, self.packed]
        least = request[outer.wanted > 0].min()
        nodes = sorted((node for node in batches_on if free[node] >= least), key=free.__getitem__)
        need = int((outer.wanted * request).sum() - free.sum() + free[list(batches_on)].sum())
        covered = np.concatenate(([0], np.cumsum(free[nodes])))
        length, step = int(np.searchsorted(covered, max(need, 0))), 1
        while length <= len(nodes):
            yield [batches_on[node] for node in nodes[:length]]
            if length == len(nodes):
                return
            length, step = min(length + step, len(nodes)), 2 * step


class _Plan:
    """A simulation in which victims have left, and pods are placed on the free resources.

    Attributes
    ----------
    victims
        Number of victims of each pod group that do not return to their nodes.
    placed
        Number of pending pods of each shape on each node, (S, N).
    elsewhere
        Number of victims that are placed on another node, by pod group and node.
    """

    def __init__(self, state: State, victims: Pods) -> None:
        self.state, self.index = state, state.index
        self.victims = Pods(victims)
        groups, counts = np.array([[*victims], [*victims.values()]], dtype=np.int64)
        node, request = self.index.group_node[groups], self.index.group_request[groups]
        self.free, self.left = state.free.copy(), state.kept.copy()
        np.add.at(self.free, node, counts[:, None] * request)
        np.subtract.at(self.left, self.index.group_gang[groups], counts)
        self.placed = np.zeros_like(state.placed)
        self.elsewhere: dict[tuple[int, int], int] = {}

    def apply_to(self, state: State) -> None:
        """Evict the victims, place the pending pods, and move the victims that may move."""
        for group, count in self.victims.items():
            state.evict(group, count)
        for shape, node in np.argwhere(self.placed):
            state.place(int(shape), int(node), int(self.placed[shape, node]))
        for (group, node), count in self.elsewhere.items():
            if state.may_move_to(group)[node]:
                state.move(group, node, count)

    def succeeds(self, wanted: Integers, *, is_consolidation: bool) -> bool:
        """Place the pending pods and the victims again; return whether the plan is accepted."""
        index, demand = self.index, self.state.instance.demand
        assert demand is not None
        gangs = np.unique(index.group_gang[list(self.victims)])
        priority, is_small = index.priority[gangs], self.left[gangs] < index.min_pods[gangs]
        order = np.lexsort((index.start_s[gangs], ~is_small, -priority))
        is_first = (priority > demand.priority) | ((priority == demand.priority) & is_small)
        is_first &= is_consolidation
        for gang in gangs[order[is_first[order]]].tolist():
            self._place_again(gang)
        if not self._place_pending(wanted):
            return False
        for gang in gangs[order[~is_first[order]]].tolist():
            self._place_again(gang)
        self.victims = +self.victims
        return not is_consolidation or self.victims.total() <= sum(self.elsewhere.values())

    def _place_pending(self, wanted: Integers) -> bool:
        """Place the wanted pods in the first set of nodes where all fit, if there is one."""
        index, before = self.index, self.free.copy()
        for nodes, score in self._node_sets(wanted):
            for shape in np.flatnonzero(wanted):
                allowed = nodes & self.state.is_open & index.shape_allowed[shape]
                most = np.where(allowed, index.shape_per_node[shape], 0)
                found = self._fill(index.shape_request[shape], int(wanted[shape]), most, score)
                if found is None:
                    break
                for node, count in found:
                    self.placed[shape, node] += count
            else:
                return True
            self.free[:], self.placed[:] = before, 0
        return False

    def _place_again(self, gang: int) -> None:
        """Place victims of a gang again up to its minimum, or one more pod if it has its minimum.

        If not all of these pods fit, none is placed.
        """
        index, before = self.index, self.free.copy()
        to_place = max(int(index.min_pods[gang] - self.left[gang]), 1)
        spots = []
        for group in self.state.groups_of(gang):
            count = min(self.victims[group], to_place)
            most = np.where(self.state.may_hold(group), count, 0)
            found = self._fill(index.group_request[group], count, most, np.zeros_like(most))
            if found is None:
                self.free = before
                return
            to_place -= count
            spots += [(group, node, number) for node, number in found]
        for group, node, number in spots:
            if node == index.group_node[group]:
                self.victims[group] -= number
            else:
                self.elsewhere[group, node] = number

    def _fill(
        self, request: Integers, count: int, most: Integers, score: Integers
    ) -> list[tuple[int, int]] | None:
        """Place `count` alike pods on the best nodes, at most `most` on each; None if not all fit.

        The best node has the highest score, then room without evictions, then the fewest free
        resources. A node that gets a pod remains the best node, so it gets as many as it can hold.
        """
        room = np.minimum(most, pods_in(self.free, request))
        if room.sum() < count:
            return None
        nodes = np.flatnonzero(room)
        is_full = (self.index.free[nodes] < request).any(axis=1)
        free = self.free[nodes, _packed_column(self.state.instance, request)]
        found = []
        for node in nodes[np.lexsort((free, is_full, -score[nodes]))]:
            if not count:
                break
            number = min(count, int(room[node]))
            found.append((int(node), number))
            self.free[node] -= number * request
            count -= number
        return found

    def _node_sets(self, wanted: Integers) -> Iterator[tuple[Flags, Integers]]:
        """Yield the sets of nodes to try for the pending pods, and the scores of the nodes.

        With a level, these are the domains with room for the pending pods, in decreasing order of
        the share of a domain that the pods fill. If the level is not required, the whole cluster
        follows.
        """
        demand, index = self.state.instance.demand, self.index
        score = np.zeros(len(self.free), dtype=np.int64)
        assert demand is not None
        if demand.level is not None:
            has_domain = index.domain >= 0
            domain, free = index.domain[has_domain], self.free[has_domain]
            request = index.shape_request[wanted > 0]
            room = np.bincount(domain, weights=pods_in(free, request.max(axis=0)))
            order = np.argsort(-self._shares(wanted, domain, free), kind="stable")
            for each in order[(room[order] >= wanted.sum()) | (len(request) > 1)]:
                yield index.domain == each, score
            score[has_domain] = (np.argsort(order) + 1)[domain] * TOPOLOGY_SCORES // len(order)
        if demand.level is None or not demand.is_level_required:
            yield np.ones(len(self.free), dtype=bool), score

    def _shares(self, wanted: Integers, domain: Integers, free: Integers) -> np.ndarray:
        """Return the largest share of a free resource that the pods need, for each domain.

        The share of a resource of which nothing is free is 1000.
        """
        need = (wanted[:, None] * self.index.shape_request).sum(axis=0)
        held = np.zeros((self.index.domains, len(need)))
        np.add.at(held, domain, free)
        shares = np.where(held > 0, need / np.maximum(held, 1), 1000.0)
        return np.asarray(shares[:, need > 0].max(axis=1, initial=0.0))


def _packed_column(instance: Instance, request: Integers) -> int:
    """Return the column of the resource by which nodes are packed: GPU, else CPU, else the first.

    Resources that are not requested are left out.
    """
    names = instance.resources
    requested = [name for name, amount in zip(names, request, strict=True) if amount] or names
    preferred = [name for name in ("gpu", "cpu") if name in requested]
    return names.index([*preferred, *requested][0])
