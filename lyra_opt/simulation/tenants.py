"""Tenants in a simulation: what each holds and borrows, and whose turn it is.

Sources: dominant resource fairness (Ghodsi et al., NSDI 2011), with GPU types as the resources; the
fair sharing of Kueue, from its documentation, for weights and trees.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.simulation.job_run import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.queues import JobQueue
    from lyra_opt.simulation.quotas import Quotas
    from lyra_opt.simulation.workload import Workload


class TenantUse(NamedTuple):
    """The use that one tenant made of the cluster in a simulation.

    Parameters
    ----------
    above_quota_gpu_s
        GPU-seconds that it held above its quota.
    below_quota_s
        Seconds in which it held fewer GPUs than its quota while a job of it waited.
    taken_back
        Number of times that a job of it was stopped because another tenant needed its own GPUs.
    """

    above_quota_gpu_s: float
    below_quota_s: float
    taken_back: int


class TenantLedger:
    """The GPUs that each tenant and group of a simulation holds, and its use so far.

    Only own GPUs count; servers on loan belong to no quota.

    Parameters
    ----------
    quotas
        The quotas of the cluster.
    workload, cluster
        The jobs, and the cluster on which they run.
    now_s
        The current time.

    Attributes
    ----------
    held
        Own GPUs that each tenant or group holds, by position in `Quotas.quotas`.

    Raises
    ------
    UserError
        If a job has no tenant with a quota.
    """

    def __init__(self, quotas: Quotas, workload: Workload, cluster: Cluster, now_s: float) -> None:
        self.quotas = quotas
        self._tenant = [quotas.tenant_of(job.tenant, job.id) for job in workload.jobs]
        self._own = [pool.number for pool in cluster.pools if not pool.is_lent]
        self._gpus_of_pool = {number: sum(cluster.pools[number].gpus) for number in self._own}
        places = range(len(quotas.quotas))
        self.held = [0 for _ in places]
        self._held_of_pool = [dict.fromkeys(self._own, 0) for _ in places]
        self._waiting = [0 for _ in places]
        self._known: list[tuple[bool, dict[int, int]]] = [(False, {}) for _ in workload.jobs]
        self._share = [quota.gpus / cluster.gpus for quota in quotas.quotas]
        self._limits = {borrows: quotas.limits(borrows=borrows) for borrows in (False, True)}
        self._since_s = [now_s for _ in places]
        self._above_gpu_s = [0.0 for _ in places]
        self._below_s = [0.0 for _ in places]
        self._taken_back = [0 for _ in places]

    def path_of(self, run: JobRun) -> tuple[int, ...]:
        """Return the positions of a job's tenant, its group, the group of that, and so on."""
        return self.quotas.paths[self._tenant[run.order]]

    def note(self, run: JobRun, now_s: float) -> None:
        """Note what a job holds from now on, and whether it waits."""
        waits = not run.parts and NEVER < run.waiting_since_s <= now_s
        held: dict[int, int] = {}
        for part in run.parts:
            if part.pool in self._gpus_of_pool:
                held[part.pool] = held.get(part.pool, 0) + part.held
        waited, before = self._known[run.order]
        if waited == waits and before == held:
            return
        self._known[run.order] = waits, held
        for place in self.path_of(run):
            self._count(place, now_s)
            self._waiting[place] += waits - waited
            of_pool = self._held_of_pool[place]
            for pool, gpus in before.items():
                of_pool[pool] -= gpus
            for pool, gpus in held.items():
                of_pool[pool] += gpus
            self.held[place] += sum(held.values()) - sum(before.values())

    def _count(self, place: int, now_s: float) -> None:
        """Add the time since the last change of a tenant or group to its sums."""
        elapsed_s, self._since_s[place] = now_s - self._since_s[place], now_s
        above = self.held[place] - self.quotas.quotas[place].gpus
        if above > 0:
            self._above_gpu_s[place] += above * elapsed_s
        elif above < 0 and self._waiting[place]:
            self._below_s[place] += elapsed_s

    def note_taken_back(self, run: JobRun) -> None:
        """Count that a job was stopped because another tenant needed its own GPUs."""
        self._taken_back[self._tenant[run.order]] += 1

    def use_of_tenants(self) -> dict[str, TenantUse]:
        """Return the use of each tenant, by name, at the end of a simulation."""
        return {
            name: TenantUse(self._above_gpu_s[place], self._below_s[place], self._taken_back[place])
            for name, place in self.quotas.tenants.items()
        }

    def fair_share(self, place: int) -> tuple[float, float]:
        """Return how much of its quota a tenant or group uses; who uses least comes first.

        The first number is its dominant share (the largest share of the GPUs of any type that it
        holds), divided by the share of the cluster that is its quota. The second is the dominant
        share, which decides between tenants without a quota.
        """
        dominant = max(
            self._held_of_pool[place][pool] / self._gpus_of_pool[pool] for pool in self._own
        )
        share = self._share[place]
        return (dominant / share if share else math.inf), dominant

    def room(self, tenant: int, *, borrows: bool) -> float:
        """Return how many own GPUs a tenant and its groups may still take; may be infinite.

        Parameters
        ----------
        tenant
            Its position in `Quotas.quotas`.
        borrows
            Whether tenants may hold more than their quotas, up to their limits.
        """
        most = self._limits[borrows]
        return min(most[place] - self.held[place] for place in self.quotas.paths[tenant])

    def entitled_in(self, tenant: int, gpus: int) -> set[str | None]:
        """Return the groups of whose quotas a tenant may claim `gpus` more GPUs; None: the cluster.

        In such a group, its member to which the tenant belongs stays within its own quota.
        """
        quotas, held = self.quotas.quotas, self.held
        return {
            quotas[place].group
            for place in self.quotas.paths[tenant]
            if held[place] + gpus <= quotas[place].gpus
        }

    def victims(self, run: JobRun, gpus: int, running: Iterable[JobRun]) -> list[JobRun]:
        """Return the jobs that may be stopped so that a waiting job gets GPUs of its quota.

        Let d and c be the members of the same group (or of none) to which the waiting job and a
        running job belong. The running job may be stopped if d stays within its quota when the
        waiting job starts, and c, the tenant of the running job, and all groups between them are
        above their quotas. Jobs that started later come first, and each job is tried as if those
        before it were stopped, so that stopping any of the jobs returned takes nobody's quota away
        except for a rest smaller than one job.

        Parameters
        ----------
        run, gpus
            The waiting job, and the own GPUs that it needs.
        running
            The jobs that hold own GPUs where the waiting job would start.

        Returns
        -------
        list of JobRun
            In the order in which they were tried. Complexity O(jobs log jobs).
        """
        quotas, held = self.quotas.quotas, list(self.held)
        entitled = self.entitled_in(self._tenant[run.order], gpus)
        if not entitled:
            return []
        found = []
        for other in sorted(running, key=lambda each: (-each.began_s, -each.order)):
            of_other = self.path_of(other)
            for place in of_other:
                if held[place] <= quotas[place].gpus:
                    break
                if quotas[place].group in entitled:
                    found.append(other)
                    taken = sum(self._known[other.order][1].values())
                    for each in of_other:
                        held[each] -= taken
                    break
        return found


class FairQueue:
    """A queue of waiting jobs in which the tenant that uses least of its quota is served first.

    It has the methods of `lyra_opt.simulation.queues.JobQueue`. Each tenant has a queue of its own.
    In a tree, the group that uses least of its quota comes first, then its member that does, and so
    on; ties go to the first in the file.

    Parameters
    ----------
    ledger
        What each tenant holds.
    make
        Returns an empty queue for a tenant.
    may_start
        Returns whether a tenant, given by its position, may start a job of so many GPUs now. If it
        may not start its smallest, a pass does not try its jobs.

    Notes
    -----
    `first` takes O(tenants and groups with waiting jobs).
    """

    def __init__(
        self,
        ledger: TenantLedger,
        make: Callable[[], JobQueue],
        may_start: Callable[[int, int], bool],
    ) -> None:
        self._ledger, self._make, self._may_start = ledger, make, may_start
        self._queues: dict[int, JobQueue] = {}
        # The members with jobs to try in this pass, by the position of their group; None: the top.
        self._open: dict[int | None, set[int]] = {}
        self._tenant = 0

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, run: JobRun) -> None:
        """Add a waiting job to the queue of its tenant."""
        tenant = self._ledger.path_of(run)[0]
        if tenant not in self._queues:
            self._queues[tenant] = self._make()
        self._queues[tenant].add(run)

    def begin(self) -> None:
        """Start a scheduling pass in which every kind of job of every tenant can be tried."""
        self._open = {}
        for tenant, queue in self._queues.items():
            if len(queue) and self._may_start(tenant, queue.smallest_gang()):
                queue.begin()
                for member, group in self._steps(tenant):
                    self._open.setdefault(group, set()).add(member)

    def first(self) -> JobRun | None:
        """Return the next job to try in this pass; None if no job is left."""
        members = self._open.get(None)
        if not members:
            return None
        while members:
            self._tenant = min(members, key=lambda place: (self._ledger.fair_share(place), place))
            members = self._open.get(self._tenant)
        return self._queues[self._tenant].first()

    def take(self) -> None:
        """Remove the job that `first` returned, because it starts."""
        self._queues[self._tenant].take()
        self._close_if_done()

    def block(self) -> None:
        """Skip the job that `first` returned, and all jobs of its tenant of its kind."""
        self._queues[self._tenant].block()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._queues[self._tenant].first() is not None:
            return
        for member, group in self._steps(self._tenant):
            self._open[group].remove(member)
            if self._open[group]:
                break

    def _steps(self, tenant: int) -> Iterator[tuple[int, int | None]]:
        """Yield a tenant with its group, that group with its own group, and so on."""
        path = self._ledger.quotas.paths[tenant]
        yield from zip(path, (*path[1:], None), strict=True)
