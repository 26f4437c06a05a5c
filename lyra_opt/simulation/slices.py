"""Parts of GPUs: the free part of every opened GPU, and the rules that place jobs on them.

A job that asks for part of a GPU (a *slice*) stays inside one GPU. The first slice on a GPU *opens*
it: from then on, no job that asks for whole GPUs can get it. When its last slice leaves, the GPU is
whole again. Parts are counted in thousandths. Slices on one GPU do not slow each other down.

Each placement rule chooses a host and, on it, a GPU. Sources: the scheduler simulator of Weng et
al. (USENIX ATC 2023), https://github.com/hkust-adsl/kubernetes-scheduler-simulator, without its
terms for processors: ``best_fit_score.go``, ``first_fit_score.go``, ``worst_fit_score.go``
(``spread``), ``fgd_score.go`` with ``frag.go``, and ``open_gpu_share.go`` for the GPU of a host.
That simulator rounds its scores to whole numbers; these rules do not. Ties go to the first host in
the order of the cluster, then to the GPU that was opened first, and last to a whole GPU.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import accumulate, count
from typing import Protocol

import numpy as np

from lyra_opt.simulation.cluster import Cluster, Pool
from lyra_opt.simulation.hosts import MOST_STALE, Group, Hosts
from lyra_opt.simulation.job_run import JobRun, Part
from lyra_opt.simulation.workload import WHOLE_GPU, Job

BEST_FIT, FIRST_FIT, SPREAD, FGD = PLACEMENTS = ("best-fit", "first-fit", "spread", "fgd")
"""The names of the placement rules."""


class SlicePart(Part):
    """The part of one GPU that a running job holds.

    Parameters
    ----------
    pool, host
        Numbers of the pool and of the host.
    gpu
        Number of the GPU among the opened GPUs of the host.
    thousandths
        Thousandths of the GPU.
    worker_speed
        See `Part`.
    """

    __slots__ = ("gpu", "host", "thousandths")

    def __init__(
        self, pool: int, host: int, gpu: int, thousandths: int, worker_speed: float
    ) -> None:
        super().__init__(pool, {host: 1}, 1, 1, worker_speed)
        self.host, self.gpu, self.thousandths = host, gpu, thousandths


class Slices:
    """The opened GPUs of a cluster by host, and the slices that wait.

    Parameters
    ----------
    cluster, hosts
        The cluster, and its free GPUs. An opened GPU is taken from `hosts`.
    jobs
        All jobs of the simulation.

    Attributes
    ----------
    free
        For each host, the free thousandths of each of its opened GPUs by number, in the order in
        which they were opened.
    opened, held, running
        Number of opened GPUs; thousandths of them that are taken; and those that running jobs hold.
    unused_of_pool
        Free thousandths of the opened GPUs of each pool.
    """

    def __init__(self, cluster: Cluster, hosts: Hosts, jobs: Iterable[Job]) -> None:
        self._hosts, self._pools = hosts, cluster.pools
        self.free: list[dict[int, int]] = [{} for _ in hosts.size]
        self.opened = self.held = self.running = 0
        self.unused_of_pool = [0] * len(cluster.pools)
        self._fits: dict[int, SliceFit] = {}
        # Number of opened GPUs of each pool by free thousandths.
        self._opened_with = np.zeros((len(cluster.pools), WHOLE_GPU + 1), np.int64)
        known: dict[object, tuple[int, ...]] = {}
        self._needs: list[tuple[int, ...]] = []
        for job in jobs:
            key = job.gpu_thousandths, job.gpu_memory_mib, job.gpu_types
            if key not in known:
                known[key] = tuple(self._need(job, pool) for pool in cluster.pools)
            self._needs.append(known[key])
        self._waiting = Counter[tuple[int, ...]]()

    @staticmethod
    def _need(job: Job, pool: Pool) -> int:
        return pool.gpu_type.thousandths_for(job) if job.is_slice and not pool.is_lent else 0

    def needs(self, run: JobRun, pool: int) -> int:
        """Return the thousandths that a job needs of a GPU in a pool; 0 if it cannot run there."""
        return self._needs[run.order][pool]

    def waits(self, run: JobRun) -> None:
        """Note that a job waits for part of a GPU."""
        self._waiting[self._needs[run.order]] += 1

    def starts(self, run: JobRun) -> None:
        """Note that a job that waited for part of a GPU starts."""
        needs = self._needs[run.order]
        self._waiting[needs] -= 1
        if not self._waiting[needs]:
            del self._waiting[needs]

    def useless(self) -> int:
        """Return the number of partly free GPUs on which no waiting job fits; O(pools * kinds)."""
        found = 0
        for pool, opened_with in enumerate(self._opened_with):
            least = min((need[pool] for need in self._waiting if need[pool]), default=WHOLE_GPU)
            found += int(opened_with[1:least].sum())
        return found

    def attach(self, pool: int, fit: "SliceFit") -> None:
        """Register the object that is told when the opened GPUs of a pool change."""
        self._fits[pool] = fit

    def take(self, host: int, gpu: int | None, thousandths: int) -> int:
        """Take part of an opened GPU, or of a whole one if `gpu` is None; return its number."""
        free = self.free[host]
        if gpu is None:
            self._hosts.take({host: 1})
            gpu = next(number for number in count() if number not in free)
            self.opened += 1
            before = WHOLE_GPU
        else:
            before = free[gpu]
            self._forget(host, before)
        assert 1 <= thousandths <= before, "only free parts are taken"
        free[gpu] = before - thousandths
        self._note(host, free[gpu])
        self.held += thousandths
        return gpu

    def give(self, part: SlicePart) -> None:
        """Free the part of a GPU that a job held; a GPU without slices is whole again."""
        host, free = part.host, self.free[part.host]
        self._forget(host, free[part.gpu])
        free[part.gpu] += part.thousandths
        self.held -= part.thousandths
        self.running -= part.thousandths
        if free[part.gpu] == WHOLE_GPU:
            del free[part.gpu]
            self.opened -= 1
            self._hosts.free_up({host: 1})
        else:
            self._note(host, free[part.gpu])
            self._hosts.without_room.clear()

    def _forget(self, host: int, free: int) -> None:
        pool = self._hosts.pool_of[host]
        self._opened_with[pool, free] -= 1
        self.unused_of_pool[pool] -= free

    def _note(self, host: int, free: int) -> None:
        pool = self._hosts.pool_of[host]
        self._opened_with[pool, free] += 1
        self.unused_of_pool[pool] += free
        if pool in self._fits:
            self._fits[pool].changed(host)


class PlacementRule(Protocol):
    """Ranks GPUs and hosts for a job; the smallest value is best."""

    def gpu(self, free: int, part: int, whole: int) -> int:
        """Return the rank of a GPU for a slice.

        Parameters
        ----------
        free, part
            Free thousandths of the GPU, and those that the slice needs.
        whole
            Number of whole free GPUs of the host, which includes this one if `free` is 1000.
        """

    def host(self, total: int, whole: int, gpus: int, best: int) -> int:
        """Return the rank of a host.

        Parameters
        ----------
        total, whole
            Free thousandths of the host, and its whole free GPUs.
        gpus
            Whole GPUs that the worker needs; 0 for a slice.
        best
            For a slice, the rank of the best GPU of the host.
        """


class BestFitRule:
    """The host, and on it the GPU, with the least free thousandths that suffice."""

    def gpu(self, free: int, part: int, whole: int) -> int:  # noqa: ARG002
        """Return the free thousandths."""
        return free

    def host(self, total: int, whole: int, gpus: int, best: int) -> int:  # noqa: ARG002
        """Return the free thousandths."""
        return total


class FirstFitRule:
    """The first host with room in the order of the cluster, and its first opened GPU with room."""

    def gpu(self, free: int, part: int, whole: int) -> int:  # noqa: ARG002
        """Return 0 for every GPU."""
        return 0

    def host(self, total: int, whole: int, gpus: int, best: int) -> int:  # noqa: ARG002
        """Return 0 for every host."""
        return 0


class SpreadRule:
    """The host, and on it the GPU, with the most free thousandths (worst fit)."""

    def gpu(self, free: int, part: int, whole: int) -> int:  # noqa: ARG002
        """Return the free thousandths, negated."""
        return -free

    def host(self, total: int, whole: int, gpus: int, best: int) -> int:  # noqa: ARG002
        """Return the free thousandths, negated."""
        return -total


class FragmentationRule:
    """Fragmentation gradient descent (FGD): the choice that fragments the cluster least.

    The fragmentation of a host is the expected number of free thousandths that a worker drawn from
    the mix of all jobs cannot use. If the worker fits the host, these are the free thousandths of
    the GPUs with less room than it needs on each of its GPUs; if not, all of them. FGD chooses the
    host and GPU whose fragmentation grows least, or falls most.

    Parameters
    ----------
    workers
        Number of workers of each kind in the mix, by (whole GPUs, thousandths of a slice), of which
        one is 0.

    Notes
    -----
    Source: Weng et al. (USENIX ATC 2023), section 4, and ``NodeGpuShareFragAmount`` in ``frag.go``.
    If only GPUs count, fragmentation is a sum over GPUs: an opened GPU with f free thousandths adds
    f times the weight of all workers that need more; w whole GPUs add 1000 w times the weight of
    the workers that need more than w of them. So a choice is ranked in O(1), in integers.
    """

    def __init__(self, workers: Mapping[tuple[int, int], int]) -> None:
        of_part, of_gpus = [0] * (WHOLE_GPU + 1), Counter[int]()
        for (gpus, part), weight in workers.items():
            if gpus:
                of_gpus[gpus] += weight
            else:
                of_part[part] += weight
        at_most = list(accumulate(of_part))
        all_workers = at_most[-1] + of_gpus.total()
        self._opened = [free * (all_workers - at_most[free]) for free in range(WHOLE_GPU)]
        self._opened.append(0)
        # `_whole[w]` is the fragmentation of w whole free GPUs; more GPUs are added when needed.
        self._of_gpus, self._whole = of_gpus, [0]

    def _of_whole(self, whole: int) -> int:
        known = self._whole
        while len(known) <= whole:
            larger = sum(weight for gpus, weight in self._of_gpus.items() if gpus > len(known))
            known.append(WHOLE_GPU * len(known) * larger)
        return known[whole]

    def gpu(self, free: int, part: int, whole: int) -> int:
        """Return by how much fragmentation grows, in thousandths times workers of the mix."""
        grown = self._opened[free - part] - self._opened[free]
        if free == WHOLE_GPU:
            grown += self._of_whole(whole - 1) - self._of_whole(whole)
        return grown

    def host(self, total: int, whole: int, gpus: int, best: int) -> int:  # noqa: ARG002
        """Return by how much fragmentation grows, in thousandths times workers of the mix."""
        return self._of_whole(whole - gpus) - self._of_whole(whole) if gpus else best


def placement_rule(name: str, cluster: Cluster, pool: int, jobs: Iterable[Job]) -> PlacementRule:
    """Return the rule with a name from `PLACEMENTS` for one pool; `fgd` takes the mix of `jobs`."""
    if name == BEST_FIT:
        return BestFitRule()
    if name == FIRST_FIT:
        return FirstFitRule()
    if name == SPREAD:
        return SpreadRule()
    gpu_type = cluster.pools[pool].gpu_type
    workers = Counter[tuple[int, int]]()
    for job in jobs:
        if part := gpu_type.thousandths_for(job):
            kind = (0, part) if job.is_slice else (job.gpus_per_worker, 0)
            workers[kind] += job.min_workers
    return FragmentationRule(workers)


class _Ranking:
    """The hosts of a pool in the order of a rule for one demand, brought up to date when used."""

    __slots__ = ("changed", "heap", "rank_of")

    def __init__(self, hosts: range) -> None:
        self.heap: list[tuple[int, int]] = []
        self.rank_of: dict[int, int | None] = {}
        self.changed = set(hosts)


class SliceFit:
    """An index of a pool that places slices and workers with whole GPUs by a placement rule.

    Parameters
    ----------
    hosts
        The free GPUs of the cluster.
    pool
        The number of a pool with own GPUs.
    rule
        The placement rule.
    slices
        The opened GPUs; None if no job asks for part of a GPU.

    Notes
    -----
    Each distinct demand has a heap of hosts, in which the hosts that changed since its last use are
    ranked again. A choice takes O(changed hosts * (log hosts + opened GPUs of a host)).
    """

    def __init__(
        self, hosts: Hosts, pool: int, rule: PlacementRule, slices: Slices | None = None
    ) -> None:
        self._hosts, self._pool, self._rule = hosts, pool, rule
        self._slices = slices
        self._range = hosts.cluster.pools[pool].hosts
        self._rankings: dict[tuple[int, int], _Ranking] = {}
        hosts.attach(pool, self)
        if slices is not None:
            slices.attach(pool, self)

    def came(self, host: int) -> None:
        """Note that a host is present."""
        self.changed(host)

    def went(self, host: int) -> None:
        """Note that a host is withdrawn."""
        self.changed(host)

    def changed(self, host: int, before: int = 0, after: int = 0) -> None:  # noqa: ARG002
        """Note that the whole free GPUs or the opened GPUs of a host have changed."""
        for ranking in self._rankings.values():
            ranking.changed.add(host)

    def room(self, gpus_per_worker: int, group: Group) -> int:  # noqa: ARG002
        """Return how many workers of `gpus_per_worker` GPUs can be placed in the pool now."""
        if gpus_per_worker == 1:
            return self._hosts.free_of_pool[self._pool]
        free = self._hosts.array[self._range.start : self._range.stop]
        return int((free // gpus_per_worker).sum())

    def room_after(
        self,
        leaving: Iterable[Mapping[int, int]],
        gpus_per_worker: int,
        flexible_on: Iterable[int] = (),  # noqa: ARG002
    ) -> int:
        """Return how many workers would fit the pool if the GPUs in `leaving` were vacated."""
        first = self._range.start
        free = self._hosts.free[first : self._range.stop]
        for gpus in leaving:
            for host, vacated in gpus.items():
                free[host - first] += vacated
        return sum(gpus // gpus_per_worker for gpus in free)

    def place(self, workers: int, gpus_per_worker: int, group: Group) -> dict[int, int]:  # noqa: ARG002
        """Take GPUs for `workers` workers, for which there must be room, one after the other."""
        placed: dict[int, int] = {}
        for _ in range(workers):
            host = self._best(gpus_per_worker, 0)
            assert host is not None, "callers check `room` before they place workers"
            self._hosts.take({host: gpus_per_worker})
            placed[host] = placed.get(host, 0) + gpus_per_worker
        return placed

    def has_room_for(self, thousandths: int) -> bool:
        """Return whether any GPU has so many free thousandths."""
        return self._best(0, thousandths) is not None

    def place_slice(self, thousandths: int, worker_speed: float) -> SlicePart:
        """Take part of a GPU, for which there must be room."""
        host = self._best(0, thousandths)
        assert host is not None, "callers check `has_room_for` before they place slices"
        assert self._slices is not None, "only workloads with slices divide GPUs"
        gpu = self._slices.take(host, self._gpu_on(host, thousandths), thousandths)
        return SlicePart(self._pool, host, gpu, thousandths, worker_speed)

    def _gpu_on(self, host: int, thousandths: int) -> int | None:
        """Return the best opened GPU of a host for a slice; None for a whole GPU."""
        whole = self._hosts.free[host]
        choices: list[tuple[int, int | None]] = [
            (free, gpu) for gpu, free in self._opened(host).items() if free >= thousandths
        ]
        if whole:
            choices.append((WHOLE_GPU, None))
        return min(choices, key=lambda choice: self._rule.gpu(choice[0], thousandths, whole))[1]

    def _opened(self, host: int) -> Mapping[int, int]:
        return {} if self._slices is None else self._slices.free[host]

    def _best(self, gpus: int, part: int) -> int | None:
        """Return the best host for a worker with whole GPUs or for a slice; None if none fits."""
        ranking = self._rankings.get((gpus, part))
        if ranking is None:
            ranking = self._rankings[gpus, part] = _Ranking(self._range)
        heap, rank_of = ranking.heap, ranking.rank_of
        if ranking.changed:
            for host in ranking.changed:
                rank = rank_of[host] = self._rank(host, gpus, part)
                if rank is not None:
                    heappush(heap, (rank, host))
            ranking.changed.clear()
            if len(heap) > MOST_STALE * (len(self._range) + 1):
                heap[:] = [(rank, host) for host, rank in rank_of.items() if rank is not None]
                heapify(heap)
        while heap:
            rank, host = heap[0]
            if rank_of[host] == rank:
                return host
            heappop(heap)
        return None

    def _rank(self, host: int, gpus: int, part: int) -> int | None:
        whole, opened = self._hosts.free[host], self._opened(host)
        total = WHOLE_GPU * whole + sum(opened.values())
        if gpus:
            return self._rule.host(total, whole, gpus, 0) if gpus <= whole else None
        rule = self._rule.gpu
        ranks = [rule(free, part, whole) for free in opened.values() if free >= part]
        if whole:
            ranks.append(rule(WHOLE_GPU, part, whole))
        return self._rule.host(total, whole, 0, min(ranks)) if ranks else None
