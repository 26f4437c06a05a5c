"""A pool of the cluster as a policy sees it that places workers by best fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.simulation.best_fit import BestFit, CountedFit, Fit, Group

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import Pool
    from lyra_opt.simulation.hosts import Hosts


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
