"""Imitations of Volcano's gang preemption: bundles of pods in one domain are evicted together."""

from collections.abc import Iterator
from itertools import islice

import numpy as np

from lyra_opt.core.stopwatch import require_time
from lyra_opt.preemption.heuristics.base import PreemptionHeuristic, State, has_required_level
from lyra_opt.preemption.index import Flags

Bundle = tuple[bool, int, float, int, list[tuple[int, int]]]
"""Pods of one gang in one domain that the rule evicts together, as `_bundles` explains."""
MOST_DOMAINS = 8
"""The number of candidate domains that Volcano examines by default."""


class VolcanoGang(PreemptionHeuristic):
    """Evict bundles of pods in the first domain in which this makes room for the pending gang.

    This is an imitation of the action gangpreempt of Volcano, and of gangreclaim as far as both
    agree. It is written from the code and the design document, and is unchecked against the real
    program. It leaves out queue order, the filters and scores of other plug-ins, minima of roles
    and subgroups, and wider tiers of domains than the required level.

    The candidates are the domains of the required level whose capacity is at least the whole
    demand; the rule examines the first eight of them. Without a required level, the whole cluster
    is the only domain. In a domain, each gang that may lose pods has up to two bundles. The SAFE
    bundle holds pods above its minimum, first groups first. The WHOLE bundle holds its other pods
    in the domain. SAFE bundles come before WHOLE bundles; then lower priorities, later starts, and
    gangs later in the file come first. Bundles are evicted until the pending pods can be placed.
    The program tries this as soon as the free and freed resources of the domain are at least the
    total demand. The first domain that succeeds is chosen.

    Notes
    -----
    Commit ed72c7c (20 August 2026): ``gangpreempt/gangpreempt.go``, ``utils/bundle.go`` and
    ``utils/simulate.go`` in ``pkg/scheduler/actions``,
    ``pkg/scheduler/plugins/network-topology-aware/network_topology_aware.go``, and the design
    document ``docs/design/gang-aware-eviction-design.md``.
    The order of the domains within a tier is arbitrary in the program, which iterates over a map;
    the imitation uses file order. The efficiency of a bundle, which the design document describes,
    never decides, because the job order is compared first and leaves no ties: it ends in creation
    time and identifier.
    Complexity O(domains * (pod groups * log(gangs) + nodes)) for one shape. Guarantee: none. All
    bundles that were taken remain victims, even if only the last one made room (issues 5984, 5994),
    and SAFE pods of a high priority go before WHOLE bundles of a low priority (issue 5945).
    """

    name = "volcano-gang"
    takes_several_shapes = True
    takes_required_level = True
    trims = False
    """Whether SAFE bundles are evicted pod by pod, until the pending gang fits."""

    def choose(self, state: State, rng: np.random.Generator) -> bool:  # noqa: ARG002
        """Evict bundles in the first domain where this makes room."""
        for is_inside in _domains(state):
            trial = state.copy()
            if self._makes_room(trial, is_inside):
                state.become(trial)
                return True
        return False

    def _makes_room(self, trial: State, is_inside: Flags) -> bool:
        for is_whole, *_, pods in _bundles(trial, is_inside):
            require_time()
            steps = [pods]
            if self.trims and not is_whole:
                steps = [[(group, 1)] for group, count in pods for _ in range(count)]
            for step in steps:
                for group, count in step:
                    trial.evict(group, count)
                if trial.fits():
                    return True
        return False


class VolcanoGangTrim(VolcanoGang):
    """Evict pods as `volcano-gang` does, but spare surplus pods that do not have to be evicted.

    Both rules evict bundles: pods of one gang together. A SAFE bundle leaves the gang its minimum.
    If the last bundle is SAFE, this rule evicts its pods one by one until the pending gang fits.

    This is an imitation of Volcano with the open pull request 5995 (17 September 2026). It is
    written from the description of the request, and is unchecked against the real program. It
    leaves out what `volcano-gang` leaves out.

    Notes
    -----
    Complexity: as `volcano-gang`, with one test per pod of a SAFE bundle. Guarantee: none; earlier
    bundles and WHOLE bundles are not trimmed.
    """

    name = "volcano-gang-trim"
    trims = True


def _domains(state: State) -> Iterator[Flags]:
    """Yield the domains whose capacity covers the demand, each as flags over the nodes, (N,)."""
    index = state.index
    if not has_required_level(state.instance):
        yield np.ones(len(index.domain), dtype=bool)
        return
    need = (state.wanted[:, None] * index.shape_request).sum(axis=0)
    inside = (index.domain == domain for domain in range(index.domains))
    large = (each for each in inside if (index.capacity[each].sum(axis=0) >= need).all())
    yield from islice(large, MOST_DOMAINS)


def _bundles(state: State, is_inside: Flags) -> list[Bundle]:
    """Return the bundles of a domain in the order in which the rule takes them.

    Each has whether it is a WHOLE bundle, the priority of its gang, the negative start time and
    the negative position of the gang, and pairs of pod group and number of pods.
    """
    index = state.index
    spare = (index.size - index.min_pods).tolist()
    pods: dict[tuple[int, bool], list[tuple[int, int]]] = {}
    for group in np.flatnonzero(is_inside[index.group_node] & index.may_lose[index.group_gang]):
        gang, count = int(index.group_gang[group]), int(index.group_count[group])
        safe = min(count, spare[gang])
        spare[gang] -= safe
        for is_whole, part in ((False, safe), (True, count - safe)):
            if part:
                pods.setdefault((gang, is_whole), []).append((int(group), part))
    return sorted(
        (is_whole, int(index.priority[gang]), -float(index.start_s[gang]), -gang, part)
        for (gang, is_whole), part in pods.items()
    )
