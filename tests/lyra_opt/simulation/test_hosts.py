"""Finding room against a model that looks at every server: best fit, groups, coming and going."""

import copy
import random
from itertools import product

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.hosts import MOST_STALE, BestFit, Group, Hosts
from tests.draws import draws

GROUPS = st.sampled_from(list(Group))
MOST_SERVERS = 8


def cluster_of(*sizes):
    """Return servers of so many GPUs that come and go, beside one that stays: host 0."""
    return Cluster(
        name="small",
        gpu_types=(GpuType(name="own"), GpuType(name="lent")),
        servers=(
            Server(id="stays", gpus={"own": 1}),
            *(
                Server(id=f"s{n}", gpus={"lent": size}, is_lent=True)
                for n, size in enumerate(sizes)
            ),
        ),
    )


def fit_of(*sizes, mixes_groups=True, there=None):
    """Return servers that have come, as many as are `there`, and what finds room on them."""
    hosts = Hosts(cluster_of(*sizes))
    hosts.lend(range(1, 1 + (len(sizes) if there is None else there)))
    return hosts, BestFit(hosts, 1, mixes_groups=mixes_groups)


class EveryServer:
    """The rule of the paper, one worker at a time, by looking at every server."""

    def __init__(self, sizes, *, mixes_groups):
        self.sizes = sizes
        self.mixes_groups = mixes_groups
        self.holders = {}

    def free(self, host):
        return self.sizes[host - 1] - sum(gpus for _, gpus in self.holders[host])

    def is_open_to(self, host, group):
        held = {holder for holder, _ in self.holders[host]}
        return self.mixes_groups or held <= {group}

    def room(self, gpus, group):
        return sum(self.free(s) // gpus for s in self.holders if self.is_open_to(s, group))

    def place(self, workers, gpus, group):
        placed = {}
        for _ in range(workers):
            open_to = [host for host in self.holders if self.is_open_to(host, group)]
            fitting = [host for host in open_to if self.free(host) >= gpus]
            host = min(fitting, key=lambda s: (not self.holders[s], self.free(s), s))
            self.holders[host].append((group, gpus))
            placed[host] = placed.get(host, 0) + gpus
        return placed

    def remove(self, placed, gpus, group):
        for host, held in placed.items():
            for _ in range(held // gpus):
                self.holders[host].remove((group, gpus))


class BestFitMachine(RuleBasedStateMachine):
    """Jobs come and go in parts, servers of unequal size come and go when empty."""

    held = Bundle("held")
    handed_over = Bundle("handed_over")

    @initialize(
        sizes=st.one_of(
            st.integers(1, 6).map(lambda size: [size] * MOST_SERVERS),
            st.lists(st.integers(1, 6), min_size=MOST_SERVERS, max_size=MOST_SERVERS),
        ),
        there=st.integers(0, 5),
        mixes_groups=st.booleans(),
    )
    def begin(self, sizes, there, mixes_groups):
        self.hosts, self.fit = fit_of(*sizes, mixes_groups=mixes_groups, there=there)
        self.model = EveryServer(sizes, mixes_groups=mixes_groups)
        self.model.holders = {host: [] for host in range(1, 1 + there)}
        self.flexible = []
        self.held_gpus = 0

    @rule(target=held, data=st.data(), gpus=st.integers(1, 6), group=GROUPS, fills=st.booleans())
    def place(self, data, gpus, group, fills):
        room = self.fit.room(gpus, group)
        if not room:
            return None
        workers = room if fills else data.draw(st.integers(1, room))
        placed = self.fit.place(workers, gpus, group)
        assert placed == self.model.place(workers, gpus, group)
        self.held_gpus += sum(placed.values())
        if group is Group.FLEXIBLE:
            self.flexible.append(placed)
        return placed, workers, gpus, group

    @rule(entry=consumes(held), target=held, data=st.data())
    def remove(self, entry, data):
        """Take away some workers, whichever; the others stay."""
        if entry is None:
            return None
        placed, workers, gpus, group = entry
        leaving = data.draw(st.integers(1, workers))
        hosts = [host for host, count in placed.items() for _ in range(count // gpus)]
        chosen = data.draw(st.permutations(hosts))[:leaving]
        removed = {host: chosen.count(host) * gpus for host in sorted(set(chosen))}
        self.hosts.release(removed)
        self.hosts.give(removed)
        self.model.remove(removed, gpus, group)
        self.held_gpus -= sum(removed.values())
        left = {s: n - removed.get(s, 0) for s, n in placed.items() if n > removed.get(s, 0)}
        if group is Group.FLEXIBLE:
            self.flexible.remove(placed)
            if left:
                self.flexible.append(left)
        return (left, workers - leaving, gpus, group) if left else None

    @rule(entry=consumes(held), target=handed_over)
    def release(self, entry):
        """Let a job go, whose GPUs are not free yet."""
        if entry is None or entry[3] is Group.FLEXIBLE:
            return None
        self.hosts.release(entry[0])
        self.held_gpus -= sum(entry[0].values())
        return entry

    @rule(entry=consumes(handed_over))
    def give(self, entry):
        if entry is not None:
            placed, _, gpus, group = entry
            self.hosts.give(placed)
            self.model.remove(placed, gpus, group)

    @precondition(lambda self: len(self.model.holders) < MOST_SERVERS)
    @rule(data=st.data(), count=st.integers(1, 2))
    def lend(self, data, count):
        gone = [host for host in range(1, 1 + MOST_SERVERS) if host not in self.model.holders]
        coming = data.draw(st.permutations(gone))[:count]
        self.hosts.lend(coming)
        self.model.holders.update({host: [] for host in coming})

    @precondition(lambda self: any(not held for held in self.model.holders.values()))
    @rule(data=st.data(), returns=st.booleans())
    def withdraw(self, data, returns):
        empty = [host for host, held in self.model.holders.items() if not held]
        host = data.draw(st.sampled_from(empty))
        self.hosts.withdraw([host])
        del self.model.holders[host]
        assert host not in self.hosts.lent()
        if returns:
            self.hosts.lend([host])
            self.model.holders[host] = []

    @invariant()
    def agrees(self):
        """No GPU is held twice, none is lost, and room is what one by one would find."""
        hosts, model = self.hosts, self.model
        there = sorted(model.holders)
        free = [model.free(host) for host in there]
        size = [model.sizes[host - 1] for host in there]
        partly = [gpus for gpus, all_gpus in zip(free, size, strict=True) if 0 < gpus < all_gpus]
        found = [[list_of[host] for host in there] for list_of in (hosts.free, hosts.size)]
        assert (hosts.lent(), *found) == (there, free, size)
        assert (hosts.gpus_of_pool, hosts.free_of_pool) == ([1, sum(size)], [1, sum(free)])
        assert (hosts.gpus, hosts.held_of_pool) == (1 + sum(size), [0, self.held_gpus])
        assert (hosts.partly_free, hosts.stranded_gpus) == (len(partly), sum(partly))
        assert hosts.array.tolist() == hosts.free
        for gpus, group in product(range(1, 8), Group):
            assert self.fit.room(gpus, group) == model.room(gpus, group)

    @invariant()
    def knows_what_would_be_free(self):
        """`room_after` is the room that there is once all flexible workers have left."""
        emptied = copy.deepcopy(self.model)
        for host, holders in emptied.holders.items():
            emptied.holders[host] = [held for held in holders if held[0] is Group.BASE]
        for gpus in range(1, 8):
            assert self.fit.room_after(self.flexible, gpus) == emptied.room(gpus, Group.BASE)


BestFitMachine.TestCase.settings = draws(33, stateful_step_count=25)
TestBestFit = BestFitMachine.TestCase


@pytest.mark.parametrize("mixes_groups", [True, False])
def test_memory_does_not_grow_with_time(mixes_groups):
    """Entries of servers that have moved on are cleared away."""
    hosts, fit = fit_of(4, 4, 4, mixes_groups=mixes_groups)
    draw = random.Random(5)
    jobs = []
    for _ in range(3000):
        gpus, group = draw.randint(1, 4), draw.choice(list(Group))
        if fit.room(gpus, group) and draw.random() < 0.6:
            jobs.append(fit.place(1, gpus, group))
        elif jobs:
            placed = jobs.pop(draw.randrange(len(jobs)))
            hosts.release(placed)
            hosts.give(placed)
    longest = max(len(entries) for levels in fit._heaps for entries in levels)
    assert longest <= MOST_STALE * 4 + 1


def test_a_server_in_use_does_not_leave():
    """A job would be left on GPUs that serve inference; nor may one that is handed over."""
    hosts, fit = fit_of(4, 4)
    assert fit.place(1, 1, Group.BASE) == {1: 1}
    for gpus in ({}, {1: 1}):
        hosts.release(gpus)
        with pytest.raises(AssertionError, match="vacated"):
            hosts.withdraw([1])
    hosts.withdraw([2])
    assert (hosts.gpus_of_pool, hosts.free_of_pool) == ([1, 4], [1, 3])


def test_gpus_are_given_once():
    """And only such as are free are taken."""
    hosts, _ = fit_of(4)
    for gpus in ({1: 5}, {1: 0}, {1: -1}, {9: 1}, {-1: 1}):
        assert not hosts.holds(gpus)
    assert hosts.holds({1: 4, 0: 1})
    hosts.take({1: 3})
    with pytest.raises(AssertionError, match="only free GPUs are taken"):
        hosts.take({1: 2})
    hosts, _ = fit_of(4)
    with pytest.raises(AssertionError, match="they are freed once"):
        hosts.give({1: 1})
