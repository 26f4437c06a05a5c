"""Which GPUs of a cluster are free, how scattered they are, and where workers fit best."""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lyra_opt.simulation.cluster import Cluster, Pool


class Hosts:
    """The GPUs of a cluster by host (see `lyra_opt.simulation.cluster.Pool`): free, or taken.

    GPUs are taken from `free` by `take`, let go by `release`, and are free again after `give`. In
    between they are handed over: nobody holds them, and nobody can have them.

    Parameters
    ----------
    cluster
        The cluster, all of it free; hosts that can be borrowed are not there yet.
    counted
        Pools of which only the number of GPUs matters: their first host stands for all.

    Attributes
    ----------
    size, free
        GPUs of each host that are there, and those of them that are free.
    gpus_of_pool, free_of_pool, held_of_pool
        The same by pool, and the GPUs that jobs hold.
    handed_over
        GPUs that are neither held nor free.
    partly_free, stranded_gpus
        Hosts with both free GPUs and others, and how many free GPUs they have.
    busy_servers
        Servers of which jobs hold GPUs.
    without_room
        Whatever found no room since GPUs came free last; emptied when some do.
    """

    def __init__(self, cluster: Cluster, counted: Collection[int] = ()) -> None:
        self.cluster = cluster
        self.pool_of = cluster.pool_of_host
        self._server_of = cluster.server_of_host
        pools = cluster.pools
        self.is_counted = [pool.number in counted for pool in pools]
        self.size: list[int] = []
        for pool in pools:
            there = [0] * len(pool.hosts) if pool.is_lent else list(pool.gpus)
            if self.is_counted[pool.number]:
                there = [sum(there)] + [0] * (len(there) - 1)
            self.size += there
        self.free = list(self.size)
        self.gpus_of_pool = [0 if pool.is_lent else sum(pool.gpus) for pool in pools]
        self.free_of_pool = list(self.gpus_of_pool)
        self.held_of_pool = [0] * len(pools)
        self.handed_over = self.partly_free = self.stranded_gpus = self.busy_servers = 0
        self._held_of_server = [0] * len(cluster.servers)
        self._indexes: list[BestFit | None] = [None] * len(pools)
        self.without_room: set[int | None] = set()
        self._array: np.ndarray | None = None
        self._lent: list[int] | None = None

    @property
    def gpus(self) -> int:
        """GPUs that are there."""
        return sum(self.gpus_of_pool)

    @property
    def held_gpus(self) -> int:
        """Those of them that jobs hold."""
        return sum(self.held_of_pool)

    @property
    def array(self) -> np.ndarray:
        """Free GPUs of each host, int64, shape (hosts,); kept up to date once asked for."""
        if self._array is None:
            self._array = np.array(self.free, np.int64)
        return self._array

    def attach(self, pool: int, index: BestFit) -> None:
        """Tell an index of a pool's hosts from now on, beginning with those that are there."""
        assert self._indexes[pool] is None, "one index tells where there is room in a pool"
        self._indexes[pool] = index
        for host in self.cluster.pools[pool].hosts:
            if self.size[host]:
                index.came(host)
                if self.free[host] < self.size[host]:
                    index.changed(host, self.size[host], self.free[host])

    def holds(self, gpus: Mapping[int, int]) -> bool:
        """Whether so many GPUs, by host, at least 1 each, are free."""
        free = self.free
        for host, count in gpus.items():
            if not (0 <= host < len(free) and 1 <= count <= free[host]):
                return False
        return True

    def take(self, gpus: Mapping[int, int]) -> None:
        """Let a job hold GPUs that are free; O(hosts given)."""
        self._change(gpus, -1, +1)

    def release(self, gpus: Mapping[int, int]) -> None:
        """Let go GPUs that a job holds, without freeing them."""
        self._change(gpus, 0, -1)
        self.handed_over += sum(gpus.values())

    def give(self, gpus: Mapping[int, int]) -> None:
        """Free GPUs that have been let go."""
        self._change(gpus, +1, 0)
        self.handed_over -= sum(gpus.values())

    def free_up(self, gpus: Mapping[int, int]) -> None:
        """Free GPUs that a job holds, at once."""
        self._change(gpus, +1, -1)

    def _change(self, gpus: Mapping[int, int], freed: int, held: int) -> None:
        """Let GPUs become free (+1) or taken (-1), and held by jobs (+1) or not (-1)."""
        if freed > 0:
            self.without_room.clear()
        for host, count in gpus.items():
            pool = self.pool_of[host]
            is_counted = self.is_counted[pool]
            if freed:
                size, before = self.size[host], self.free[host]
                self.free[host] = after = before + freed * count
                assert 0 <= after <= size, "GPUs are taken that are free, and given back once"
                self.free_of_pool[pool] += after - before
                if not is_counted:
                    if self._array is not None:
                        self._array[host] = after
                    index = self._indexes[pool]
                    if index is not None:
                        index.changed(host, before, after)
                    if before and before < size:
                        self.partly_free -= 1
                        self.stranded_gpus -= before
                    if after and after < size:
                        self.partly_free += 1
                        self.stranded_gpus += after
            if held:
                self.held_of_pool[pool] += held * count
                if not is_counted:
                    server = self._server_of[host]
                    used = self._held_of_server[server]
                    self._held_of_server[server] = now_used = used + held * count
                    if not (used and now_used):
                        self.busy_servers += held

    # Loans.

    def lend(self, hosts: Iterable[int]) -> None:
        """Take in hosts that were not there."""
        for host in hosts:
            self._resize(host, self.cluster.gpus_of_host[host])
            index = self._indexes[self.pool_of[host]]
            if index is not None:
                index.came(host)

    def withdraw(self, hosts: Iterable[int]) -> None:
        """Give up hosts, which must be empty."""
        for host in hosts:
            assert self.free[host] == self.size[host] > 0, "a host leaves when it is vacated"
            index = self._indexes[self.pool_of[host]]
            if index is not None:
                index.went(host)
            self._resize(host, 0)

    def _resize(self, host: int, size: int) -> None:
        self._lent = None
        self.without_room.clear()
        change = size - self.size[host]
        pool = self.pool_of[host]
        self.size[host] = self.free[host] = size
        self.gpus_of_pool[pool] += change
        self.free_of_pool[pool] += change
        if self._array is not None:
            self._array[host] = size

    def lent(self) -> list[int]:
        """Return the borrowed hosts that are there, in order; kept until they change."""
        if self._lent is None:
            self._lent = [
                host
                for pool in self.cluster.pools
                if pool.is_lent
                for host in pool.hosts
                if self.size[host]
            ]
        return self._lent


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
        """Take note of a host that is there now, all of it free."""
        self._enter(host, self._hosts.size[host])

    def went(self, host: int) -> None:
        """Take note of a host that is about to go."""
        self._counts[_EMPTY][self._hosts.size[host]] -= 1

    def changed(self, host: int, before: int, after: int) -> None:
        """Take note that so many GPUs of a host are free now."""
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
