"""Where workers are placed in a pool: on servers that are in use already, best fit first."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lyra_opt.simulation.cluster import Pool
    from lyra_opt.simulation.hosts import Hosts


MOST_STALE = 8
"""Entries of hosts that have moved on, for each host, before they are cleared away."""


class Group(IntEnum):
    """Which workers a server holds; servers that hold none belong to neither group."""

    BASE = 0
    FLEXIBLE = 1


_EMPTY = len(Group)
"""The shelf of servers that hold no workers; those of the others are their groups."""


class CountedFit:
    """GPUs that are all alike: any GPU serves any worker, so that nothing but their number counts.

    For one-GPU workers it is as good as `BestFit`, whose methods it has, whichever servers hold
    them. O(1).

    Parameters
    ----------
    hosts, pool
        The number of a pool that is counted there.
    """

    def __init__(self, hosts: Hosts, pool: int) -> None:
        self._hosts, self._pool = hosts, pool
        self._host = hosts.cluster.pools[pool].hosts.start

    def room(self, gpus_per_worker: int, group: Group) -> int:  # noqa: ARG002
        """See `BestFit`."""
        return self._hosts.free_of_pool[self._pool] // gpus_per_worker

    def room_after(
        self,
        leaving: Iterable[Mapping[int, int]],
        gpus_per_worker: int,
        flexible_on: Iterable[int] = (),  # noqa: ARG002
    ) -> int:
        """See `BestFit`."""
        vacated = sum(sum(gpus.values()) for gpus in leaving)
        return (self._hosts.free_of_pool[self._pool] + vacated) // gpus_per_worker

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:  # noqa: ARG002
        """See `BestFit`."""
        gpus = {self._host: workers * gpus_per_worker}
        self._hosts.take(gpus)
        return gpus


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
    mixes_groups
        Whether base and flexible workers share servers.

    Notes
    -----
    `place` takes O(servers used * log servers) amortised, `room` O(GPUs of a server).
    """

    def __init__(self, hosts: Hosts, pool: int, *, mixes_groups: bool = True) -> None:
        self._hosts = hosts
        self._mixes_groups = mixes_groups
        of_pool = hosts.cluster.pools[pool]
        self._range = of_pool.hosts
        self._largest = max(of_pool.gpus)
        self._group: dict[int, Group] = {}
        levels = self._largest + 1
        # By shelf and free GPUs: the hosts, some of which have moved on since, and their number.
        self._heaps: list[list[list[int]]] = [[[] for _ in range(levels)] for _ in (*Group, _EMPTY)]
        self._counts = [[0] * levels for _ in (*Group, _EMPTY)]
        hosts.attach(pool, self)

    def room(self, gpus_per_worker: int, group: Group) -> int:
        """Return how many workers can be placed now."""
        used, empty = self._counts[self._shared(group)], self._counts[_EMPTY]
        return sum(
            (used[free] + empty[free]) * (free // gpus_per_worker)
            for free in range(gpus_per_worker, self._largest + 1)
        )

    def room_after(
        self,
        leaving: Iterable[Mapping[int, int]],
        gpus_per_worker: int,
        flexible_on: Iterable[int] = (),
    ) -> int:
        """Return for how many base workers there would be room if others left; O(servers).

        Parameters
        ----------
        leaving
            What they hold, GPUs by host.
        flexible_on
            Hosts that flexible workers stay on.
        """
        first = self._range.start
        free = self._hosts.free[first : self._range.stop]
        for gpus in leaving:
            for host, count in gpus.items():
                free[host - first] += count
        if not self._mixes_groups:
            for host in flexible_on:
                free[host - first] = 0
        return sum(gpus // gpus_per_worker for gpus in free)

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:
        """Take GPUs for workers for which there is room; return them by host."""
        group = self._shared(group)
        left = workers
        placed: dict[int, int] = {}
        for shelf in (group, _EMPTY):
            counts = self._counts[shelf]
            for free in range(gpus_per_worker, self._largest + 1):
                while left and counts[free]:
                    host = self._first(shelf, free)
                    self._group[host] = group
                    taken = min(left, free // gpus_per_worker)
                    left -= taken
                    placed[host] = taken * gpus_per_worker
                    self._hosts.take({host: taken * gpus_per_worker})
                if not left:
                    return placed
        raise AssertionError("there is room for what is placed")

    def _shared(self, group: Group) -> Group:
        return Group.BASE if self._mixes_groups else group

    def _first(self, shelf: int, free: int) -> int:
        """Take out the first host of those with so many free GPUs; there is one."""
        heap = self._heaps[shelf][free]
        while True:
            host = heappop(heap)
            if self._stands(host, shelf, free):
                return host

    def _stands(self, host: int, shelf: int, free: int) -> bool:
        """Whether a host is where an entry says that it is."""
        hosts = self._hosts
        is_empty = hosts.size[host] == free
        stands_on = _EMPTY if is_empty else self._group[host]
        return hosts.free[host] == free and stands_on == shelf

    def came(self, host: int) -> None:
        """See `FreeIndex`."""
        self._enter(host, self._hosts.size[host])

    def went(self, host: int) -> None:
        """See `FreeIndex`."""
        self._counts[_EMPTY][self._hosts.size[host]] -= 1

    def changed(self, host: int, before: int, after: int) -> None:
        """See `FreeIndex`."""
        shelf = _EMPTY if before == self._hosts.size[host] else self._group[host]
        self._counts[shelf][before] -= 1
        self._enter(host, after)

    def _enter(self, host: int, free: int) -> None:
        if free == self._hosts.size[host]:
            shelf: int = _EMPTY
            self._group[host] = Group.BASE
        else:
            shelf = self._group[host]
        self._counts[shelf][free] += 1
        if not free:
            return
        heap = self._heaps[shelf][free]
        if len(heap) > MOST_STALE * (len(self._range) + 1):
            heap[:] = sorted(found for found in set(heap) if self._stands(found, shelf, free))
        heappush(heap, host)


Fit = CountedFit | BestFit


class PoolRoom:
    """A pool as a composed policy sees it.

    Parameters
    ----------
    pool
        Of the cluster.
    hosts
        Which GPUs are free.
    kind
        What its instances are called.
    mixes_groups
        Whether base and flexible workers share its servers.

    Attributes
    ----------
    worker_speed
        What the replicas of a worker do there beside one on reference GPUs, for jobs whose
        throughput was not measured.
    flexible_gpus
        GPUs of flexible workers.
    """

    def __init__(self, pool: Pool, hosts: Hosts, *, kind: str, mixes_groups: bool) -> None:
        self.number, self.is_lent, self.kind = pool.number, pool.is_lent, kind
        gpu_type = pool.gpu_type
        self.replicas = gpu_type.replicas if pool.is_lent else 1
        self.worker_speed = gpu_type.worker_speed if pool.is_lent else gpu_type.relative_speed
        self.is_counted = hosts.is_counted[pool.number]
        self.fit: Fit = (
            CountedFit(hosts, pool.number)
            if self.is_counted
            else BestFit(hosts, pool.number, mixes_groups=mixes_groups)
        )
        self.flexible_gpus = 0

    def fitting(self, gpus_per_worker: int, group: Group) -> int:
        """Return how many workers, counted as on reference GPUs, there is room for."""
        return self.fit.room(gpus_per_worker, group) // self.replicas
