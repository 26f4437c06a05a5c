"""Where workers are placed in a pool: on servers that are in use already, best fit first.

GPUs of a slower kind may make up for it by number: `replicas` workers there do what one worker does
on a reference GPU, with the same GPUs each (Lyra, EuroSys 2023, sections 2.1 and 7.5: more workers,
the same global batch; three inference servers count as one training server). Where no whole number
makes up for it exactly, so many are taken that they are faster.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lyra_opt.simulation.hosts import Hosts

MOST_STALE = 8
"""Entries of hosts that have moved on, for each host, before they are cleared away."""


class Group(IntEnum):
    """Which workers a server holds; servers that hold none belong to neither group."""

    BASE = 0
    FLEXIBLE = 1


class Fit(Protocol):
    """Finds room in a pool, and takes it."""

    replicas: int
    """Workers that are counted as one."""

    def room(self, gpus_per_worker: int, group: Group) -> int:
        """Return how many workers (counted as on reference GPUs) can be placed now."""

    def room_after(self, leaving: Iterable[Mapping[int, int]], gpus_per_worker: int) -> int:
        """Return for how many base workers there would be room if others left.

        Parameters
        ----------
        leaving
            What they hold, GPUs by host.
        """

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:
        """Take GPUs for workers for which there is room; return them by host."""

    def holds_together(self, gpus: int) -> bool:
        """Whether a server has room for a gang of the base group."""

    def place_together(self, gpus: int) -> dict[int, int]:
        """Take GPUs of one server for a gang for which one has room."""


class CountedFit:
    """GPUs that are all alike: any GPU serves any worker, so that nothing but their number counts.

    For one-GPU workers it is as good as `BestFit`, whichever servers hold them. O(1).

    Parameters
    ----------
    hosts, pool
        The number of a pool that is counted there.
    """

    replicas = 1

    def __init__(self, hosts: Hosts, pool: int) -> None:
        self._hosts, self._pool = hosts, pool
        self._host = hosts.cluster.pools[pool].hosts.start

    def room(self, gpus_per_worker: int, group: Group) -> int:  # noqa: ARG002
        """See `Fit`."""
        return self._hosts.free_of_pool[self._pool] // gpus_per_worker

    def room_after(self, leaving: Iterable[Mapping[int, int]], gpus_per_worker: int) -> int:
        """See `Fit`."""
        vacated = sum(sum(gpus.values()) for gpus in leaving)
        return (self._hosts.free_of_pool[self._pool] + vacated) // gpus_per_worker

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:  # noqa: ARG002
        """See `Fit`."""
        gpus = {self._host: workers * gpus_per_worker}
        self._hosts.take(gpus)
        return gpus

    def holds_together(self, gpus: int) -> bool:
        """See `Fit`; servers are not told apart."""
        raise NotImplementedError

    def place_together(self, gpus: int) -> dict[int, int]:
        """See `Fit`; servers are not told apart."""
        raise NotImplementedError


class BestFit:
    """Servers with their free GPUs, filled best fit first.

    A worker goes to the server that holds workers of its group already and has the least free GPUs
    that suffice, the lowest number among equals (so that a job tends to stay within a rack); to the
    smallest empty one that suffices only if there is none (Lyra, section 5.3). Base and flexible
    workers are kept on servers of their own unless `mixes_groups`.

    Parameters
    ----------
    hosts, pool
        The number of the pool there.
    replicas
        See `Fit`.
    mixes_groups
        Whether base and flexible workers share servers.

    Notes
    -----
    `place` takes O(servers used * log servers) amortised, `room` O(GPUs of a server).
    """

    def __init__(
        self, hosts: Hosts, pool: int, *, replicas: int = 1, mixes_groups: bool = True
    ) -> None:
        self.replicas = replicas
        self._hosts = hosts
        self._mixes_groups = mixes_groups
        of_pool = hosts.cluster.pools[pool].hosts
        self._range = of_pool
        self._largest = max(hosts.cluster.gpus_of_host[of_pool.start : of_pool.stop])
        self._group: dict[int, Group] = {}
        levels = self._largest + 1
        # By group and free GPUs, and by size where they are empty: the hosts, some of which have
        # moved on since, and their number.
        self._used: list[list[list[int]]] = [[[] for _ in range(levels)] for _ in Group]
        self._used_count: list[list[int]] = [[0] * levels for _ in Group]
        self._empty: list[list[int]] = [[] for _ in range(levels)]
        self._empty_count = [0] * levels
        hosts.attach(pool, self)

    def room(self, gpus_per_worker: int, group: Group) -> int:
        """See `Fit`."""
        used, empty = self._used_count[self._shared(group)], self._empty_count
        replicas = sum(
            (used[free] + empty[free]) * (free // gpus_per_worker)
            for free in range(gpus_per_worker, self._largest + 1)
        )
        return replicas // self.replicas

    def room_after(self, leaving: Iterable[Mapping[int, int]], gpus_per_worker: int) -> int:
        """See `Fit`; O(servers)."""
        first = self._range.start
        free = self._hosts.free[first : self._range.stop]
        for gpus in leaving:
            for host, count in gpus.items():
                free[host - first] += count
        return sum(gpus // gpus_per_worker for gpus in free) // self.replicas

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:
        """See `Fit`."""
        group = self._shared(group)
        left = workers * self.replicas
        placed: dict[int, int] = {}
        hosts = self._hosts
        for heaps, counts in (
            (self._used[group], self._used_count[group]),
            (self._empty, self._empty_count),
        ):
            for free in range(gpus_per_worker, self._largest + 1):
                fits = free // gpus_per_worker
                while left and counts[free]:
                    host = self._first(heaps, free, group)
                    self._group[host] = group
                    taken = min(left, fits)
                    left -= taken
                    placed[host] = taken * gpus_per_worker
                    hosts.take({host: taken * gpus_per_worker})
                if not left:
                    return placed
        raise AssertionError("there is room for what is placed")

    def place_together(self, gpus: int) -> dict[int, int]:
        """See `Fit`; best fit, servers in use first; O(GPUs of a server + log servers)."""
        for heaps, counts in (
            (self._used[Group.BASE], self._used_count[Group.BASE]),
            (self._empty, self._empty_count),
        ):
            for free in range(gpus, self._largest + 1):
                if counts[free]:
                    host = self._first(heaps, free, Group.BASE)
                    self._group[host] = Group.BASE
                    self._hosts.take({host: gpus})
                    return {host: gpus}
        raise AssertionError("there is room for what is placed")

    def holds_together(self, gpus: int) -> bool:
        """See `Fit`."""
        used = self._used_count[Group.BASE]
        return any(used[gpus:]) or any(self._empty_count[gpus:])

    def _shared(self, group: Group) -> Group:
        return Group.BASE if self._mixes_groups else group

    def _first(self, heaps: list[list[int]], free: int, group: Group) -> int:
        """Take out the first host of those with so many free GPUs; there is one."""
        heap = heaps[free]
        while True:
            host = heappop(heap)
            if self._stands(heaps, host, free, group):
                return host

    def _stands(self, heaps: list[list[int]], host: int, free: int, group: Group) -> bool:
        """Whether a host is where an entry says that it is."""
        hosts = self._hosts
        if hosts.free[host] != free:
            return False
        is_empty = hosts.size[host] == free
        return is_empty if heaps is self._empty else not is_empty and self._group[host] == group

    # What the hosts tell.

    def came(self, host: int, gpus: int) -> None:
        """See `FreeIndex`."""
        self._enter(host, gpus)

    def went(self, host: int) -> None:
        """See `FreeIndex`."""
        self._empty_count[self._hosts.size[host]] -= 1

    def changed(self, host: int, before: int, after: int) -> None:
        """See `FreeIndex`."""
        if before == self._hosts.size[host]:
            self._empty_count[before] -= 1
            self._group.setdefault(host, Group.BASE)
        else:
            self._used_count[self._group[host]][before] -= 1
        self._enter(host, after)

    def _enter(self, host: int, free: int) -> None:
        if free == self._hosts.size[host]:
            self._group[host] = Group.BASE
            self._empty_count[free] += 1
            self._push(self._empty, host, free, Group.BASE)
        else:
            group = self._group[host]
            self._used_count[group][free] += 1
            if free:
                self._push(self._used[group], host, free, group)

    def _push(self, heaps: list[list[int]], host: int, free: int, group: Group) -> None:
        heap = heaps[free]
        if len(heap) > MOST_STALE * (len(self._range) + 1):
            heap[:] = sorted(
                found for found in set(heap) if self._stands(heaps, found, free, group)
            )
        heappush(heap, host)
