"""Tenants in a simulation: what each holds and borrows, and whose turn it is.

Sources: dominant resource fairness (Ghodsi et al., NSDI 2011), with GPU types as the resources; the
fair sharing of Kueue, from its documentation, for weights and trees.
"""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.job_run import NEVER, JobRun
from lyra_opt.simulation.queues import JobQueue
from lyra_opt.simulation.quotas import Quotas
from lyra_opt.simulation.workload import Workload

_NOTHING: dict[int, int] = {}


class TenantUse(NamedTuple):
    """The use that one tenant or group made of the cluster in a simulation.

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
    changes
        Number of times that a job got or gave up own GPUs.
    limits
        Most own GPUs that each tenant or group may hold; infinite unless the policy sets them.

    Raises
    ------
    UserError
        If a job has no tenant with a quota.
    """

    def __init__(self, quotas: Quotas, workload: Workload, cluster: Cluster, now_s: float) -> None:
        self.quotas = quotas
        self._paths = [quotas.paths[quotas.tenant_of(job.tenant, job.id)] for job in workload.jobs]
        self._quota_gpus = [quota.gpus for quota in quotas.quotas]
        self._own = [pool.number for pool in cluster.pools if not pool.is_lent]
        self._gpus_of_pool = {number: sum(cluster.pools[number].gpus) for number in self._own}
        places = range(len(quotas.quotas))
        self.held = [0 for _ in places]
        self._held_of_pool = [dict.fromkeys(self._own, 0) for _ in places]
        self._waiting = [0 for _ in places]
        self._waits = [False for _ in workload.jobs]
        self._held_by_job = [_NOTHING for _ in workload.jobs]
        # Jobs that hold own GPUs, by tenant and index in the workload.
        self._running: list[dict[int, JobRun]] = [{} for _ in places]
        # Answers of `victims` that hold until any job gets or gives up own GPUs.
        self._victims: dict[tuple[frozenset[str | None], int], list[JobRun]] = {}
        self._share = [quota.gpus / cluster.gpus for quota in quotas.quotas]
        self._fair_shares: dict[int, tuple[float, float]] = {}  # until what is held changes
        self.changes = 0
        self.limits = [math.inf for _ in places]
        self._since_s = [now_s for _ in places]
        self._above_gpu_s = [0.0 for _ in places]
        self._below_s = [0.0 for _ in places]
        self._taken_back = [0 for _ in places]

    def path_of(self, run: JobRun) -> tuple[int, ...]:
        """Return the positions of a job's tenant, its group, the group of that, and so on."""
        return self._paths[run.order]

    def note(self, run: JobRun, now_s: float) -> None:
        """Note what a job holds from now on, and whether it waits."""
        held, waits = _NOTHING, False
        if run.parts:
            held = {}
            for part in run.parts:
                if part.pool in self._gpus_of_pool:
                    held[part.pool] = held.get(part.pool, 0) + part.held
        else:
            waits = NEVER < run.waiting_since_s <= now_s
        order = run.order
        path = self._paths[order]
        waited, before = self._waits[order], self._held_by_job[order]
        is_kept = before == held
        if waited == waits and is_kept:
            return
        self._waits[order], self._held_by_job[order] = waits, held
        if not is_kept:
            self.changes += 1
            self._victims.clear()
            if not before:
                self._running[path[0]][order] = run
            elif not held:
                del self._running[path[0]][order]
        for place in path:
            self._count(place, now_s)
            self._waiting[place] += waits - waited
            if is_kept:
                continue
            self._fair_shares.pop(place, None)
            of_pool = self._held_of_pool[place]
            for pool, gpus in before.items():
                of_pool[pool] -= gpus
                self.held[place] -= gpus
            for pool, gpus in held.items():
                of_pool[pool] += gpus
                self.held[place] += gpus

    def _count(self, place: int, now_s: float) -> None:
        """Add the time since the last change of a tenant or group to its sums."""
        elapsed_s, self._since_s[place] = now_s - self._since_s[place], now_s
        above = self.held[place] - self._quota_gpus[place]
        if above > 0:
            self._above_gpu_s[place] += above * elapsed_s
        elif above < 0 and self._waiting[place]:
            self._below_s[place] += elapsed_s

    def note_taken_back(self, run: JobRun) -> None:
        """Count that a job was stopped because another tenant needed its own GPUs."""
        for place in self._paths[run.order]:
            self._taken_back[place] += 1

    def use_of_tenants(self) -> dict[str, TenantUse]:
        """Return the use of each tenant and group, by name, at the end of a simulation."""
        return {
            name: TenantUse(self._above_gpu_s[place], self._below_s[place], self._taken_back[place])
            for name, place in self.quotas.position.items()
        }

    def fair_share(self, place: int) -> tuple[float, float]:
        """Return how much of its quota a tenant or group uses; who uses least comes first.

        The first number is its dominant share (the largest share of the GPUs of any type that it
        holds), divided by the share of the cluster that is its quota. The second is the dominant
        share, which decides between tenants without a quota.
        """
        found = self._fair_shares.get(place)
        if found is None:
            of_pool, share = self._held_of_pool[place], self._share[place]
            dominant = max([of_pool[pool] / gpus for pool, gpus in self._gpus_of_pool.items()])
            found = (dominant / share if share else math.inf), dominant
            self._fair_shares[place] = found
        return found

    def may_take(self, path: Iterable[int], gpus: int) -> bool:
        """Return whether the limits on a path (see `path_of`) allow `gpus` own GPUs more."""
        held, limits = self.held, self.limits
        for place in path:  # noqa: SIM110 - runs millions of times
            if held[place] + gpus > limits[place]:
                return False
        return True

    def room(self, path: Iterable[int]) -> float:
        """Return how many own GPUs more the limits on a path (see `path_of`) allow, or infinity."""
        return min(self.limits[place] - self.held[place] for place in path)

    def is_entitled(self, tenant: int, gpus: int) -> bool:
        """Return whether a tenant may claim `gpus` more GPUs of any quota; see `entitled_in`."""
        held, quota_gpus = self.held, self._quota_gpus
        for place in self.quotas.paths[tenant]:  # noqa: SIM110 - runs millions of times
            if held[place] + gpus <= quota_gpus[place]:
                return True
        return False

    def entitled_in(self, tenant: int, gpus: int) -> frozenset[str | None]:
        """Return the groups of whose quotas a tenant may claim `gpus` more GPUs; None: the cluster.

        In such a group, its member to which the tenant belongs stays within its own quota.
        """
        return frozenset(
            [
                self.quotas.quotas[place].group
                for place in self.quotas.paths[tenant]
                if self.held[place] + gpus <= self._quota_gpus[place]
            ]
        )

    def victims(self, run: JobRun, pool: int) -> list[JobRun]:
        """Return the jobs that may be stopped so that a waiting job gets GPUs of its quota.

        Let d and c be the members of the same group (or of none) to which the waiting job and a
        running job belong. The running job may be stopped if d stays within its quota when the
        waiting job starts, and c, the tenant of the running job, and all groups between them are
        above their quotas. Jobs that started later come first, and each job is tried as if those
        before it were stopped, so that stopping any of the jobs returned takes nobody's quota away
        except for a rest smaller than one job.

        Parameters
        ----------
        run
            The waiting job, which needs its base demand.
        pool
            The own pool in which it would start.

        Returns
        -------
        list of JobRun
            In the order in which they were tried; do not change it. Complexity O(jobs log jobs) for
            the running jobs of the tenants above their quotas. The answer is kept until a job gets
            or gives up own GPUs, because it depends on nothing else.
        """
        entitled = self.entitled_in(self._paths[run.order][0], run.job.min_gpus)
        if not entitled:
            return []
        if (kept := self._victims.get((entitled, pool))) is not None:
            return kept
        quotas, held = self.quotas.quotas, list(self.held)
        running = [
            other
            for place, runs in enumerate(self._running)
            if held[place] > quotas[place].gpus
            for other in runs.values()
            if pool in self._held_by_job[other.order]
        ]
        found = self._victims[entitled, pool] = []
        for other in sorted(running, key=lambda each: (-each.began_s, -each.order)):
            of_other = self.path_of(other)
            for place in of_other:
                if held[place] <= quotas[place].gpus:
                    break
                if quotas[place].group in entitled:
                    found.append(other)
                    taken = sum(self._held_by_job[other.order].values())
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
    state
        Returns the state that decides which of the waiting jobs of a tenant may start. A pass does
        not try jobs again that were refused in an equal state. None if more decides, such as the
        time.

    Notes
    -----
    `first` takes O(tenants and groups with waiting jobs).
    """

    def __init__(
        self,
        ledger: TenantLedger,
        make: Callable[[], JobQueue],
        may_start: Callable[[int, int], bool],
        state: Callable[[], object] | None = None,
    ) -> None:
        self._ledger, self._make, self._may_start = ledger, make, may_start
        self._state = state
        # The tenants without a job that may start in a state; of no use once the state changes.
        self._settled_state: object = None
        self._settled: set[int] = set()
        self._changes = 0
        # For each tenant: itself with its group, that group with its own group, and so on.
        paths = ledger.quotas.paths
        self._steps = [tuple(zip(path, (*path[1:], None), strict=True)) for path in paths]
        self._queues: dict[int, JobQueue] = {}
        self._waiting: dict[int, JobQueue] = {}  # those with jobs
        # The members with jobs to try in this pass, by the position of their group; None: the top.
        self._open: dict[int | None, set[int]] = {}
        self._tenant = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, run: JobRun) -> None:
        """Add a waiting job to the queue of its tenant."""
        tenant = self._ledger.path_of(run)[0]
        if tenant not in self._queues:
            self._queues[tenant] = self._make()
        self._queues[tenant].add(run)
        self._waiting[tenant] = self._queues[tenant]
        self._settled.discard(tenant)

    def begin(self) -> None:
        """Start a scheduling pass in which every kind of job of every tenant can be tried."""
        self._open = {}
        self._changes = self._ledger.changes
        state = None if self._state is None else self._state()
        if state is None or state != self._settled_state:
            self._settled_state = state
            self._settled.clear()
        settled, may_start = self._settled, self._may_start
        for tenant, queue in self._waiting.items():
            if tenant in settled:
                continue
            if not may_start(tenant, queue.smallest_gang()):
                settled.add(tenant)
            else:
                queue.begin()
                for member, group in self._steps[tenant]:
                    self._open.setdefault(group, set()).add(member)

    def first(self) -> JobRun | None:
        """Return the next job to try in this pass; None if no job is left."""
        members = self._open.get(None)
        if not members:
            return None
        while members:
            self._tenant = min(members, key=self._rank) if len(members) > 1 else next(iter(members))
            members = self._open.get(self._tenant)
        return self._queues[self._tenant].first()

    def _rank(self, member: int) -> tuple[tuple[float, float], int]:
        return self._ledger.fair_share(member), member

    def take(self) -> None:
        """Remove the job that `first` returned, because it starts."""
        queue = self._queues[self._tenant]
        queue.take()
        if not len(queue):
            del self._waiting[self._tenant]
        self._close_if_done()

    def block(self) -> None:
        """Skip the job that `first` returned, and all jobs of its tenant of its kind."""
        self._queues[self._tenant].block()
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._queues[self._tenant].first() is not None:
            return
        if self._ledger.changes == self._changes:
            self._settled.add(self._tenant)
        for member, group in self._steps[self._tenant]:
            self._open[group].remove(member)
            if self._open[group]:
                break
