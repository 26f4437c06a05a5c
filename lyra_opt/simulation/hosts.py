"""Free GPUs by host, their fragmentation, and best-fit placement of workers."""

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from heapq import heappop, heappush
from typing import Protocol

import numpy as np

from lyra_opt.simulation.cluster import Cluster, Pool


class HostIndex(Protocol):
    """An index of the hosts of a pool, which `Hosts` tells of every change."""

    def came(self, host: int) -> None:
        """Add a host that has just become present, with all its GPUs free."""

    def went(self, host: int) -> None:
        """Remove an empty host that is about to be withdrawn."""

    def changed(self, host: int, before: int, after: int) -> None:
        """Record that the free GPUs of a host have changed from `before` to `after`."""


class Hosts:
    """The free and the taken GPUs of a cluster, by host (the GPUs of one type on a server).

    `take` lets a job hold free GPUs, `release` ends the hold, and `give` makes the GPUs free again.
    Between `release` and `give` the GPUs are being handed over: no job holds them, and no job can
    get them.

    Parameters
    ----------
    cluster
        The cluster, with all own hosts free; hosts that can be borrowed are not yet present.
    counted
        Pools in which only the number of GPUs matters: their first host represents all hosts.

    Attributes
    ----------
    size, free
        Number of GPUs of each host that are present, and that are free.
    gpus_of_pool, free_of_pool, held_of_pool
        Number of GPUs of each pool that are present, that are free, and that jobs hold.
    handed_over
        GPUs that are neither held nor free.
    partly_free, stranded_gpus
        Number of hosts with some but not all GPUs free, and the number of their free GPUs.
    busy_servers
        Number of servers on which jobs hold GPUs.
    without_room
        Numbers of the demands that found no room since GPUs last became free.
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
        self._indexes: list[HostIndex | None] = [None] * len(pools)
        self.without_room: set[int | None] = set()
        self._array: np.ndarray | None = None
        self._lent: list[int] | None = None

    @property
    def gpus(self) -> int:
        """The number of GPUs that are present."""
        return sum(self.gpus_of_pool)

    @property
    def held_gpus(self) -> int:
        """The number of GPUs that jobs hold."""
        return sum(self.held_of_pool)

    @property
    def array(self) -> np.ndarray:
        """Free GPUs of each host: int64, shape (hosts,); kept up to date after the first access."""
        if self._array is None:
            self._array = np.array(self.free, np.int64)
        return self._array

    def attach(self, pool: int, index: HostIndex) -> None:
        """Register an index of a pool's hosts, and pass it the hosts that are present."""
        assert self._indexes[pool] is None, "a pool has only one index"
        self._indexes[pool] = index
        for host in self.cluster.pools[pool].hosts:
            if self.size[host]:
                index.came(host)
                if self.free[host] < self.size[host]:
                    index.changed(host, self.size[host], self.free[host])

    def holds(self, gpus: Mapping[int, int]) -> bool:
        """Return whether the given GPUs by host, at least 1 on each, are all free."""
        free = self.free
        for host, count in gpus.items():
            if not (0 <= host < len(free) and 1 <= count <= free[host]):
                return False
        return True

    def take(self, gpus: Mapping[int, int]) -> None:
        """Mark free GPUs as held by a job; O(hosts given)."""
        self._change(gpus, -1, +1)

    def release(self, gpus: Mapping[int, int]) -> None:
        """Mark held GPUs as being handed over: no job holds them, and they are not yet free."""
        self._change(gpus, 0, -1)
        self.handed_over += sum(gpus.values())

    def give(self, gpus: Mapping[int, int]) -> None:
        """Mark GPUs that were being handed over as free."""
        self._change(gpus, +1, 0)
        self.handed_over -= sum(gpus.values())

    def free_up(self, gpus: Mapping[int, int]) -> None:
        """Mark GPUs that a job holds as free, without a hand-over."""
        self._change(gpus, +1, -1)

    def _change(self, gpus: Mapping[int, int], freed: int, held: int) -> None:
        """Make GPUs free (`freed` 1) or taken (-1), and held by jobs (`held` 1) or not (-1)."""
        if freed > 0:
            self.without_room.clear()
        for host, count in gpus.items():
            pool = self.pool_of[host]
            is_counted = self.is_counted[pool]
            if freed:
                size, before = self.size[host], self.free[host]
                self.free[host] = after = before + freed * count
                assert 0 <= after <= size, "only free GPUs are taken, and they are freed once"
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

    def lend(self, hosts: Iterable[int]) -> None:
        """Add hosts whose servers have just been lent."""
        for host in hosts:
            self._resize(host, self.cluster.gpus_of_host[host])
            index = self._indexes[self.pool_of[host]]
            if index is not None:
                index.came(host)

    def withdraw(self, hosts: Iterable[int]) -> None:
        """Remove vacated hosts whose servers are reclaimed."""
        for host in hosts:
            assert self.free[host] == self.size[host] > 0, "only vacated hosts are withdrawn"
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
        """Return the borrowed hosts that are present, in order (cached)."""
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
"""Outdated heap entries per host after which a heap is cleaned up."""


class Group(IntEnum):
    """The group of workers, base or flexible, for which a server is reserved."""

    BASE = 0
    FLEXIBLE = 1


_NO_GROUP = len(Group)
"""Index of the servers without workers; other servers have the index of their group."""


class CountedFit:
    """A pool in which any GPU serves any worker, so that only the number of free GPUs matters.

    For one-GPU workers it gives the same answers as `BestFit`, whose methods it has. O(1).

    Parameters
    ----------
    hosts, pool
        The hosts of the cluster, and the number of a pool that they only count.
    """

    def __init__(self, hosts: Hosts, pool: int) -> None:
        self._hosts, self._pool = hosts, pool
        self._host = hosts.cluster.pools[pool].hosts.start

    def room(self, gpus_per_worker: int, group: Group) -> int:  # noqa: ARG002
        """Return how many workers of `gpus_per_worker` GPUs can be placed in the pool now."""
        return self._hosts.free_of_pool[self._pool] // gpus_per_worker

    def room_after(
        self,
        leaving: Iterable[Mapping[int, int]],
        gpus_per_worker: int,
        flexible_on: Iterable[int] = (),  # noqa: ARG002
    ) -> int:
        """Return how many workers would fit the pool if the GPUs in `leaving` were vacated."""
        vacated = sum(sum(gpus.values()) for gpus in leaving)
        return (self._hosts.free_of_pool[self._pool] + vacated) // gpus_per_worker

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:  # noqa: ARG002
        """Take GPUs for `workers` workers; return them as GPUs of the pool's first host."""
        gpus = {self._host: workers * gpus_per_worker}
        self._hosts.take(gpus)
        return gpus


class BestFit:
    """An index of a pool's servers that places workers by best fit.

    A worker goes to the server that already holds workers of its group and has the fewest free GPUs
    that suffice. Ties go to the lowest number, so that a job tends to stay within a rack. Only if
    there is no such server, the worker goes to the smallest empty server that suffices (Lyra,
    section 5.3). Base and flexible workers have separate servers unless `mixes_groups`.

    Parameters
    ----------
    hosts, pool
        The hosts of the cluster, and the number of the pool.
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
        groups = (*Group, _NO_GROUP)
        # Each group and number of free GPUs has a heap of hosts; `_first` skips outdated entries.
        self._heaps: list[list[list[int]]] = [[[] for _ in range(levels)] for _ in groups]
        self._counts = [[0] * levels for _ in groups]
        hosts.attach(pool, self)

    def room(self, gpus_per_worker: int, group: Group) -> int:
        """Return how many workers of `gpus_per_worker` GPUs can be placed in the pool now."""
        used, empty = self._counts[self._group_of(group)], self._counts[_NO_GROUP]
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
        """Return how many base workers would fit if the GPUs in `leaving` were vacated; O(servers).

        Parameters
        ----------
        leaving
            GPUs by host of each job that would leave.
        flexible_on
            Hosts on which flexible workers would stay.
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
        """Take GPUs for `workers` workers, for which there must be room; return them by host."""
        group = self._group_of(group)
        left = workers
        placed: dict[int, int] = {}
        for from_group in (group, _NO_GROUP):
            counts = self._counts[from_group]
            for free in range(gpus_per_worker, self._largest + 1):
                while left and counts[free]:
                    host = self._first(from_group, free)
                    self._group[host] = group
                    taken = min(left, free // gpus_per_worker)
                    left -= taken
                    placed[host] = taken * gpus_per_worker
                    self._hosts.take({host: taken * gpus_per_worker})
                if not left:
                    return placed
        raise AssertionError("callers check `room` before they place workers")

    def _group_of(self, group: Group) -> Group:
        return Group.BASE if self._mixes_groups else group

    def _first(self, group: int, free: int) -> int:
        """Remove and return the first host of a group with `free` free GPUs; it must exist."""
        heap = self._heaps[group][free]
        while True:
            host = heappop(heap)
            if self._is_current(host, group, free):
                return host

    def _is_current(self, host: int, group: int, free: int) -> bool:
        """Return whether a heap entry still matches the state of its host."""
        hosts = self._hosts
        is_empty = hosts.size[host] == free
        group_now = _NO_GROUP if is_empty else self._group[host]
        return hosts.free[host] == free and group_now == group

    def came(self, host: int) -> None:
        """Add a host that has just become present, with all its GPUs free."""
        self._enter(host, self._hosts.size[host])

    def went(self, host: int) -> None:
        """Remove an empty host that is about to be withdrawn."""
        self._counts[_NO_GROUP][self._hosts.size[host]] -= 1

    def changed(self, host: int, before: int, after: int) -> None:
        """Record that the free GPUs of a host have changed from `before` to `after`."""
        group = _NO_GROUP if before == self._hosts.size[host] else self._group[host]
        self._counts[group][before] -= 1
        self._enter(host, after)

    def _enter(self, host: int, free: int) -> None:
        if free == self._hosts.size[host]:
            group: int = _NO_GROUP
            self._group[host] = Group.BASE
        else:
            group = self._group[host]
        self._counts[group][free] += 1
        if not free:
            return
        heap = self._heaps[group][free]
        if len(heap) > MOST_STALE * (len(self._range) + 1):
            heap[:] = sorted(found for found in set(heap) if self._is_current(found, group, free))
        heappush(heap, host)


class Fit(Protocol):
    """Places workers in a pool; see `CountedFit` and `BestFit`."""

    def room(self, gpus_per_worker: int, group: Group) -> int:
        """Return how many workers of `gpus_per_worker` GPUs can be placed in the pool now."""

    def room_after(
        self,
        leaving: Iterable[Mapping[int, int]],
        gpus_per_worker: int,
        flexible_on: Iterable[int] = (),
    ) -> int:
        """Return how many workers would fit the pool if the GPUs in `leaving` were vacated."""

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:
        """Take GPUs for `workers` workers, for which there must be room; return them by host."""


class PoolRoom:
    """The room in a pool, counted in workers; several slower GPUs can replace one GPU.

    Parameters
    ----------
    pool
        A pool of the cluster.
    hosts
        The free GPUs of the cluster.
    kind
        Word for this pool in the names of instances.
    mixes_groups
        Whether base and flexible workers share servers.
    fit
        The object that places workers; None for best fit.

    Attributes
    ----------
    worker_speed
        Speed of a worker relative to reference GPUs, with `replicas` slower GPUs for each reference
        GPU; for jobs without measured throughputs.
    flexible_gpus
        Number of GPUs that flexible workers hold.
    """

    def __init__(
        self, pool: Pool, hosts: Hosts, *, kind: str, mixes_groups: bool, fit: Fit | None = None
    ) -> None:
        self.number, self.is_lent, self.kind = pool.number, pool.is_lent, kind
        gpu_type = pool.gpu_type
        self.replicas = gpu_type.replicas if pool.is_lent else 1
        self.worker_speed = gpu_type.worker_speed if pool.is_lent else gpu_type.relative_speed
        self.is_counted = hosts.is_counted[pool.number]
        if fit is None and self.is_counted:
            fit = CountedFit(hosts, pool.number)
        self.fit: Fit = fit or BestFit(hosts, pool.number, mixes_groups=mixes_groups)
        self.flexible_gpus = 0

    def fitting(self, gpus_per_worker: int, group: Group) -> int:
        """Return how many workers fit the pool now; `replicas` slower ones count as one worker."""
        return self.fit.room(gpus_per_worker, group) // self.replicas
