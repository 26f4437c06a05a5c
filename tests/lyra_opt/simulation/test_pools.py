"""Pools against a model that looks at every server: best fit, counts, groups, coming and going."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
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

from lyra_opt.simulation.pools import MOST_STALE, CountedPool, Group, ServerPool

GROUPS = st.sampled_from(list(Group))


class EveryServer:
    """The rule of the paper, one worker at a time, by looking at every server."""

    def __init__(self, gpus_per_server: int, replicas: int, *, mixes_groups: bool) -> None:
        self.gpus_per_server, self.replicas = gpus_per_server, replicas
        self.mixes_groups = mixes_groups
        self.holders: dict[int, list[tuple[Group, int]]] = {}

    def free(self, server: int) -> int:
        return self.gpus_per_server - sum(gpus for _, gpus in self.holders[server])

    def is_open_to(self, server: int, group: Group) -> bool:
        held = {holder for holder, _ in self.holders[server]}
        return self.mixes_groups or held <= {group}

    def room(self, gpus: int, group: Group) -> int:
        return (
            sum(self.free(s) // gpus for s in self.holders if self.is_open_to(s, group))
            // self.replicas
        )

    def place(self, workers: int, gpus: int, group: Group) -> dict[int, int]:
        placement: dict[int, int] = {}
        for _ in range(workers * self.replicas):
            fitting = [
                server
                for server in self.holders
                if self.free(server) >= gpus and self.is_open_to(server, group)
            ]
            server = min(fitting, key=lambda s: (not self.holders[s], self.free(s), s))
            self.holders[server].append((group, gpus))
            placement[server] = placement.get(server, 0) + 1
        return placement

    def remove(self, placement: dict[int, int], gpus: int, group: Group) -> None:
        for server, replicas in placement.items():
            for _ in range(replicas):
                self.holders[server].remove((group, gpus))


class ServerPoolMachine(RuleBasedStateMachine):
    """Jobs come and go in parts, servers come and go when empty."""

    held = Bundle("held")

    @initialize(
        gpus_per_server=st.integers(1, 6),
        replicas=st.integers(1, 3),
        servers=st.integers(0, 5),
        mixes_groups=st.booleans(),
    )
    def begin(self, gpus_per_server: int, replicas: int, servers: int, mixes_groups: bool) -> None:
        self.pool = ServerPool(
            gpus_per_server,
            replicas=replicas,
            servers=range(servers),
            mixes_groups=mixes_groups,
        )
        self.model = EveryServer(gpus_per_server, replicas, mixes_groups=mixes_groups)
        self.model.holders = {server: [] for server in range(servers)}
        self.flexible: list[tuple[dict[int, int], int, int]] = []
        self.new = servers

    @rule(target=held, data=st.data(), gpus=st.integers(1, 6), group=GROUPS, fills=st.booleans())
    def place(self, data: st.DataObject, gpus: int, group: Group, fills: bool) -> Any:
        room = self.pool.room(gpus, group)
        if not room:
            return None
        workers = room if fills else data.draw(st.integers(1, room))
        placement = self.pool.place(workers, gpus, group)
        assert placement == self.model.place(workers, gpus, group)
        entry = (placement, workers, gpus)
        if group is Group.FLEXIBLE:
            self.flexible.append(entry)
        return (*entry, group)

    @rule(entry=consumes(held), target=held, data=st.data())
    def remove(self, entry: Any, data: st.DataObject) -> Any:
        """Take away some workers, whichever replicas; the others stay."""
        if entry is None:
            return None
        placement, workers, gpus, group = entry
        leaving = data.draw(st.integers(1, workers))
        replicas = [server for server, count in placement.items() for _ in range(count)]
        chosen = data.draw(st.permutations(replicas))[: leaving * self.pool.replicas]
        removed = {server: chosen.count(server) for server in sorted(set(chosen))}
        self.pool.remove(removed, leaving, gpus)
        self.model.remove(removed, gpus, group)
        left = {s: n - removed.get(s, 0) for s, n in placement.items() if n > removed.get(s, 0)}
        if group is Group.FLEXIBLE:
            self.flexible.remove((placement, workers, gpus))
            if left:
                self.flexible.append((left, workers - leaving, gpus))
        return (left, workers - leaving, gpus, group) if left else None

    @rule(count=st.integers(1, 2))
    def add(self, count: int) -> None:
        servers = range(self.new, self.new + count)
        self.new += count
        self.pool.add(servers)
        self.model.holders.update({server: [] for server in servers})

    @precondition(lambda self: any(not held for held in self.model.holders.values()))
    @rule(data=st.data(), returns=st.booleans())
    def withdraw(self, data: st.DataObject, returns: bool) -> None:
        empty = [server for server, held in self.model.holders.items() if not held]
        server = data.draw(st.sampled_from(empty))
        self.pool.withdraw([server])
        del self.model.holders[server]
        assert server not in self.pool
        if returns:
            self.pool.add([server])
            self.model.holders[server] = []

    @invariant()
    def agrees(self) -> None:
        """No GPU is held twice, none is lost, and room is what one by one would find."""
        if not hasattr(self, "pool"):
            return
        pool, model = self.pool, self.model
        assert dict(pool.servers) == {server: model.free(server) for server in model.holders}
        assert pool.gpus == pool.gpus_per_server * len(model.holders)
        assert pool.free_gpus == sum(pool.servers.values())
        assert all(0 <= free <= pool.gpus_per_server for free in pool.servers.values())
        for gpus in range(1, 8):
            for group in Group:
                assert pool.room(gpus, group) == model.room(gpus, group)

    @invariant()
    def knows_what_would_be_free(self) -> None:
        """`room_after` is the room that there is once all flexible workers have left."""
        if not hasattr(self, "pool"):
            return
        emptied = copy.deepcopy(self.pool)
        for placement, workers, gpus in self.flexible:
            emptied.remove(placement, workers, gpus)
        for gpus in range(1, 8):
            found = self.pool.room_after(self.flexible, gpus)
            assert found == emptied.room(gpus, Group.BASE)


ServerPoolMachine.TestCase.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=25
)
TestServerPool = ServerPoolMachine.TestCase


@pytest.mark.parametrize("mixes_groups", [True, False])
def test_one_more_than_room_does_not_fit(mixes_groups: bool) -> None:
    """`room` is not only safe but tight, with replicas that do not divide the GPUs."""
    pool = ServerPool(8, replicas=3, servers=range(3), mixes_groups=mixes_groups)
    pool.place(1, 2, Group.FLEXIBLE)
    room = pool.room(2, Group.BASE)
    assert room == (3 if mixes_groups else 2)
    with pytest.raises(AssertionError, match="room"):
        copy.deepcopy(pool).place(room + 1, 2, Group.BASE)
    pool.place(room, 2, Group.BASE)
    assert pool.room(2, Group.BASE) == 0


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=20), st.integers(1, 4))
def test_counting_is_enough_for_one_gpu_workers(
    steps: list[tuple[int, bool]], gpus_per_server: int
) -> None:
    """So the engine may count where all workers have one GPU."""
    counted = CountedPool(3 * gpus_per_server)
    placed = ServerPool(gpus_per_server, servers=range(3))
    jobs = []
    for workers, stays in steps:
        room = counted.room(1, Group.BASE)
        assert placed.room(1, Group.BASE) == room
        if room >= workers:
            jobs.append(
                (
                    counted.place(workers, 1, Group.BASE),
                    placed.place(workers, 1, Group.BASE),
                    workers,
                )
            )
        elif jobs and not stays:
            in_counted, in_placed, gone = jobs.pop(0)
            counted.remove(in_counted, gone, 1)
            placed.remove(in_placed, gone, 1)
        assert (counted.gpus, counted.free_gpus) == (placed.gpus, placed.free_gpus)
        leaving = [(spots, gone, 1) for _, spots, gone in jobs]
        for gpus in (1, 2):
            assert counted.room_after(leaving, gpus) == counted.gpus // gpus


@pytest.mark.parametrize("mixes_groups", [True, False])
def test_memory_does_not_grow_with_time(mixes_groups: bool) -> None:
    """Entries of servers that have moved on are cleared away, and placement stays best fit."""
    pool = ServerPool(4, servers=range(3), mixes_groups=mixes_groups)
    model = EveryServer(4, 1, mixes_groups=mixes_groups)
    model.holders = {server: [] for server in range(3)}
    draw = random.Random(5)
    jobs: list[tuple[dict[int, int], int, Group]] = []
    for _ in range(3000):
        gpus, group = draw.randint(1, 4), draw.choice(list(Group))
        if pool.room(gpus, group) and draw.random() < 0.6:
            placement = pool.place(1, gpus, group)
            assert placement == model.place(1, gpus, group)
            jobs.append((placement, gpus, group))
        elif jobs:
            placement, gpus, group = jobs.pop(draw.randrange(len(jobs)))
            pool.remove(placement, 1, gpus)
            model.remove(placement, gpus, group)
    longest = max(len(entries) for levels in pool._servers for entries in levels)
    assert longest <= MOST_STALE * 4 + 1


def test_a_server_in_use_does_not_leave() -> None:
    """A job would be left on GPUs that serve inference."""
    pool = ServerPool(4, servers=range(2))
    pool.place(1, 1, Group.BASE)
    with pytest.raises(AssertionError, match="vacated"):
        pool.withdraw([0])
    pool.withdraw([1])
    assert (pool.gpus, pool.free_gpus) == (4, 3)
