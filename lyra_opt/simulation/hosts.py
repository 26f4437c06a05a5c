"""Which GPUs of a cluster are free, and how scattered they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lyra_opt.simulation.cluster import Cluster


class FreeIndex(Protocol):
    """Is told how many GPUs of a host are free, to find room fast."""

    def came(self, host: int) -> None:
        """Take note of a host that is there now, all of it free."""

    def went(self, host: int) -> None:
        """Take note of a host that is about to go."""

    def changed(self, host: int, before: int, after: int) -> None:
        """Take note that so many GPUs of a host are free now."""


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
        self._indexes: list[FreeIndex | None] = [None] * len(pools)
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

    def attach(self, pool: int, index: FreeIndex) -> None:
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
