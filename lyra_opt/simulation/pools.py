"""Pools of like GPUs on which a job runs as a whole, and where its workers are placed.

A pool is the training servers, or the inference servers on loan. GPUs of a slower kind make up for
it by number: `Pool.replicas` workers there do what one worker does on a training GPU, with the same
GPUs each (Lyra, EuroSys 2023, sections 2.1 and 7.5: more workers, the same global batch; three
inference servers count as one training server). Where no whole number makes up for it exactly, so
many are taken that they are faster, by `Pool.worker_speed`.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_STALE = 8
"""Entries of servers that have moved on, for each server, before they are cleared away."""

Placement = dict[int, int]
"""Replicas by server; empty in a pool that only counts."""

Leaving = tuple[Placement, int, int]
"""Workers of a job that may leave: where they are, how many, GPUs of each."""


class Group(IntEnum):
    """Which workers a server holds; servers that hold none belong to neither group."""

    BASE = 0
    FLEXIBLE = 1


class Pool(Protocol):
    """GPUs of one kind, and who holds them."""

    replicas: int
    """Workers that together are counted as one, being at least as fast as one on training GPUs."""
    worker_speed: float
    """How fast those are beside one worker on training GPUs; at least 1."""
    gpus: int
    """GPUs in all."""
    free_gpus: int
    """GPUs that nobody holds."""

    def room(self, gpus_per_worker: int, group: Group) -> int:
        """Return how many workers (counted as training workers) can be placed now."""

    def room_after(self, leaving: Iterable[Leaving], gpus_per_worker: int) -> int:
        """Return for how many base workers there would be room if all flexible ones left.

        Parameters
        ----------
        leaving
            What `remove` would be given for each job with flexible workers.
        """

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> Placement:
        """Place workers for which there is room."""

    def remove(self, placement: Placement, workers: int, gpus_per_worker: int) -> None:
        """Take away workers that `place` placed."""


class CountedPool:
    """GPUs that are all alike: any GPU serves any worker, so that nothing but their number counts.

    For one-GPU workers on training servers it is as good as `ServerPool`, whichever servers hold
    them.

    Parameters
    ----------
    gpus
        GPUs in all, at least 1.
    """

    replicas = 1
    worker_speed = 1.0

    def __init__(self, gpus: int) -> None:
        self.gpus = self.free_gpus = gpus

    def room(self, gpus_per_worker: int, group: Group) -> int:  # noqa: ARG002
        """See `Pool`."""
        return self.free_gpus // gpus_per_worker

    def room_after(self, leaving: Iterable[Leaving], gpus_per_worker: int) -> int:
        """See `Pool`."""
        vacated = sum(workers * gpus for _, workers, gpus in leaving)
        return (self.free_gpus + vacated) // gpus_per_worker

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> Placement:  # noqa: ARG002
        """See `Pool`."""
        self.free_gpus -= workers * gpus_per_worker
        return {}

    def remove(self, placement: Placement, workers: int, gpus_per_worker: int) -> None:  # noqa: ARG002
        """See `Pool`."""
        self.free_gpus += workers * gpus_per_worker


class ServerPool:
    """Servers with their free GPUs, filled best fit first.

    A worker goes to the server that holds workers of its group already and has the least free GPUs
    that suffice, the lowest number among equals (so that a job tends to stay within a rack); to an
    empty one only if there is none (Lyra, section 5.3). Base and flexible workers are kept on
    servers of their own unless `mixes_groups`.

    Parameters
    ----------
    gpus_per_server
        Of every server.
    replicas, worker_speed
        See `Pool`.
    servers
        The numbers of the servers that it begins with.
    mixes_groups
        Whether base and flexible workers share servers.

    Notes
    -----
    `place` takes O(servers used * log servers) amortised, `room` O(GPUs of a server).
    """

    def __init__(
        self,
        gpus_per_server: int,
        *,
        replicas: int = 1,
        worker_speed: float = 1.0,
        servers: Iterable[int] = (),
        mixes_groups: bool = True,
    ) -> None:
        self.gpus_per_server = gpus_per_server
        self.replicas = replicas
        self.worker_speed = worker_speed
        self.gpus = self.free_gpus = 0
        self._mixes_groups = mixes_groups
        self._free: dict[int, int] = {}
        self._group: dict[int, Group] = {}
        levels = gpus_per_server + 1
        # By group and free GPUs: the servers, some of which have moved on since, and their number.
        # Empty servers stand with the base group.
        self._servers: list[list[list[int]]] = [[[] for _ in range(levels)] for _ in Group]
        self._count: list[list[int]] = [[0] * levels for _ in Group]
        self.add(servers)

    def __contains__(self, server: int) -> bool:
        return server in self._free

    @property
    def servers(self) -> Mapping[int, int]:
        """Free GPUs by server."""
        return self._free

    def add(self, servers: Iterable[int]) -> None:
        """Take in empty servers."""
        for server in servers:
            self._free[server] = self.gpus_per_server
            self._group[server] = Group.BASE
            self._enter(server)
            self.gpus += self.gpus_per_server
            self.free_gpus += self.gpus_per_server

    def withdraw(self, servers: Iterable[int]) -> None:
        """Give up servers, which must be empty."""
        for server in servers:
            assert self._free[server] == self.gpus_per_server, "a server leaves when it is vacated"
            self._leave(server)
            del self._free[server], self._group[server]
            self.gpus -= self.gpus_per_server
            self.free_gpus -= self.gpus_per_server

    def room(self, gpus_per_worker: int, group: Group) -> int:
        """See `Pool`."""
        counts = self._count[self._shared(group)]
        replicas = sum(
            counts[free] * (free // gpus_per_worker)
            for free in range(gpus_per_worker, self.gpus_per_server)
        )
        empty = self._count[Group.BASE][self.gpus_per_server]
        return (replicas + empty * (self.gpus_per_server // gpus_per_worker)) // self.replicas

    def room_after(self, leaving: Iterable[Leaving], gpus_per_worker: int) -> int:
        """See `Pool`; O(servers)."""
        free = dict(self._free)
        for placement, _, gpus in leaving:
            for server, replicas in placement.items():
                free[server] += replicas * gpus
        return sum(gpus // gpus_per_worker for gpus in free.values()) // self.replicas

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> Placement:
        """See `Pool`."""
        group = self._shared(group)
        left = workers * self.replicas
        placement: Placement = {}
        for free in range(gpus_per_worker, self.gpus_per_server + 1):
            is_empty = free == self.gpus_per_server
            of_group = Group.BASE if is_empty else group
            fits = free // gpus_per_worker
            while left and self._count[of_group][free]:
                server = self._first(of_group, free)
                placed = min(left, fits)
                self._leave(server)
                self._group[server] = group
                self._free[server] = free - placed * gpus_per_worker
                self._enter(server)
                placement[server] = placement.get(server, 0) + placed
                left -= placed
            if not left:
                break
        assert left == 0, "there is room for what is placed"
        self.free_gpus -= workers * self.replicas * gpus_per_worker
        return placement

    def remove(self, placement: Placement, workers: int, gpus_per_worker: int) -> None:  # noqa: ARG002
        """See `Pool`."""
        for server, replicas in placement.items():
            self._leave(server)
            self._free[server] += replicas * gpus_per_worker
            self.free_gpus += replicas * gpus_per_worker
            if self._free[server] == self.gpus_per_server:
                self._group[server] = Group.BASE
            self._enter(server)

    def _shared(self, group: Group) -> Group:
        return Group.BASE if self._mixes_groups else group

    def _enter(self, server: int) -> None:
        group, free = self._group[server], self._free[server]
        self._count[group][free] += 1
        servers = self._servers[group][free]
        if len(servers) > MOST_STALE * (len(self._free) + 1):
            servers[:] = sorted(
                found
                for found in set(servers)
                if self._free.get(found) == free and self._group[found] == group
            )
        heappush(servers, server)

    def _leave(self, server: int) -> None:
        self._count[self._group[server]][self._free[server]] -= 1

    def _first(self, group: Group, free: int) -> int:
        """Return the first server of a group with so many free GPUs; there is one."""
        servers = self._servers[group][free]
        while True:
            server = heappop(servers)
            if self._free.get(server) == free and self._group[server] == group:
                return server
