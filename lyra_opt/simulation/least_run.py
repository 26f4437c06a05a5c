"""The best rate of each job on a cluster, its least run time, and the parts of its JCT.

The best rate of a job is the highest rate over everything that it may hold in an empty cluster: the
own pools and, if servers are borrowed, all servers that can be lent; GPU types alone or combined;
every number of workers that fits, up to the job's maximum; on one server, or spread where the
network costs least; and, if the job may run as copies, any number of copies, each on its own
server. The rates are those of `lyra_opt.simulation.speed.Speed`. No simulation exceeds the best
rate, but a job may be unable to reach it, because the bound ignores that hosts of a pool are in
different racks.

Workers on pools of several speeds run at the speed of the slowest pool. Workers of heterogeneous
jobs run at their mean speed times the mixed efficiency. So it suffices to try, for each number of
workers, all GPUs with at least a given speed, and the mix of the fastest GPUs.

The JCT of a job is a sum of parts. While a job runs at rate r, below its best rate R, a second does
the work of ``r / R`` seconds at the best rate. The rest of the second is lost, in this order: by
its number of workers, with which the best rate is R' instead of R; by its GPU types, with which the
best rate is R'' with these workers; and by its placement:

    1 - r / R = (R - R') / R + (R' - R'') / R + (R'' - r) / R,  where r <= R'' <= R' <= R.

The number of copies counts as the number of workers. Running on several GPU types, or on own and
borrowed GPUs, counts as the type. Sharing GPUs with another job counts as placement. So the loss by
the number of workers assumes the best types and placement for that number. A job does its own work
and the work that preemptions lose, so

    JCT = least run time + queuing + lost work / R + these three losses + pauses,

where pauses are times in which the job holds GPUs without working: restarts, the hand-over of its
own GPUs when it moves, and merges of copies. Copies that start or merge at different times pause
for as long as they could have worked. For jobs that are tuned while they run, the best rate is that
of the tuned job. If it changes with the progress, it is the highest over all progress, and the loss
before counts as placement.

Source: this project.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from lyra_opt.core.arrays import BoolArray, FloatArray, IntArray
from lyra_opt.core.errors import UserError
from lyra_opt.network.links import Tier
from lyra_opt.simulation.communication import CommunicationModel
from lyra_opt.simulation.job_run import JobRates, JobRun
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.topology import Topology
from lyra_opt.simulation.workload import Job, Workload

_SHAPE = attrgetter(
    *("min_workers", "max_workers", "gpus_per_worker", "scaling_loss", "fungible"),
    *("heterogeneous", "gpu_types", "model", "gpu_thousandths", "gpu_memory_mib"),
)
"""The fields that determine the rates of a job without measured throughputs."""


class Room(NamedTuple):
    """The number and the speed of identical workers that fit in one pool."""

    pool: int
    """Number of the pool."""
    pace: float
    """Speed of a worker relative to reference GPUs; for a measured job, the rate of its gang."""
    workers: int
    gpus_per_worker: int


class Place(NamedTuple):
    """A set of GPUs on which all workers of a job may run."""

    rooms: list[Room]
    is_spread: bool | None
    """True on several servers, False on one server; None if that makes no difference."""


class BestRates:
    """Computes the best rates of jobs on a cluster; jobs of equal shape share a cached result.

    Parameters
    ----------
    speed
        The speed of jobs on the cluster.
    borrows
        Whether jobs may run on borrowed servers.
    copy_efficiency
        Value of a step with 1, 2, ... copies (`lyra_opt.simulation.tenure.Rounds.copy_efficiency`);
        None if jobs have no copies.
    """

    def __init__(
        self, speed: Speed, *, borrows: bool, copy_efficiency: Sequence[float] | None = None
    ) -> None:
        self._speed = speed
        self._pools = [pool for pool in speed.cluster.pools if borrows or not pool.is_lent]
        self._has_lent = any(pool.is_lent for pool in self._pools)
        self._copy_efficiency = copy_efficiency
        of_server: dict[int, list[tuple[int, int]]] = {}
        for place, pool in enumerate(self._pools):
            for server, gpus in zip(pool.servers, pool.gpus, strict=True):
                of_server.setdefault(server, []).append((place, gpus))
        # Number of servers that have the same numbers of GPUs in the same pools.
        self._servers = Counter(map(tuple, of_server.values()))
        self._known: dict[object, JobRates] = {}
        self._known_efficiencies: dict[tuple[str, int, bool], float] = {}

    def of(self, job: Job) -> JobRates:
        """Return the best rates of a job that fits the cluster."""
        return self.of_all((job,))[0]

    def of_all(self, jobs: Iterable[Job]) -> list[JobRates]:
        """Return the best rates of several jobs that fit the cluster, in order.

        O(jobs + distinct jobs * workers * (pools + distinct servers)).
        """
        known = self._known
        found = []
        for job in jobs:
            key = self.shape_of(job)
            rates = known.get(key)
            if rates is None:
                rates = known[key] = self._rates(job)
            found.append(rates)
        return found

    def shape_of(self, job: Job) -> object:
        """Return a cache key; jobs with equal keys have equal best rates."""
        if job.measured is not None:
            near, far = job.measured.throughput, job.measured.spread_throughput
            spread = None if far is None else tuple(far.items())
            return _SHAPE(job), tuple(near.items()), spread
        if self._speed.tuned is not None and job.is_elastic:
            return job.id
        return _SHAPE(job)

    def _rates(self, job: Job) -> JobRates:
        tuned = self._speed.tuned
        least = job.min_workers if tuned is None else tuned.least_workers(job)
        workers = np.arange(least, job.max_workers + 1)
        of_workers = np.zeros(len(workers))
        for place in self.places(job):
            self._raise(of_workers, job, workers, place)
        of_copies = np.zeros(0)
        if self._copy_efficiency is not None:
            of_copies = self._of_copies(job, self._copy_efficiency)
        best = max(of_workers.max(), of_copies.max(initial=0.0))
        return JobRates(float(best), least, tuple(of_workers.tolist()), tuple(of_copies.tolist()))

    def _of_copies(self, job: Job, efficiency: Sequence[float]) -> FloatArray:
        """Return the best joint rate of 1, 2, ... copies."""
        workers = np.array([job.min_workers])
        of_server: list[float] = []
        for place, count in self.places_of_copies(job):
            best = np.zeros(1)
            self._raise(best, job, workers, place)
            if best[0] > 0:
                of_server += [float(best[0])] * count
        worth = [efficiency[min(copies, len(efficiency) - 1)] for copies in range(len(of_server))]
        rates: FloatArray = np.cumsum(sorted(of_server, reverse=True)) * worth
        return rates

    def depends_on_placement(self, job: Job) -> bool:
        """Return whether the placement of a job's GPUs affects its rate, not only their types."""
        speed = self._speed
        if speed.communication is not None:
            return True
        if speed.tuned is not None and speed.tuned.depends_on_placement:
            return job.is_elastic
        return (
            job.measured is not None
            and job.measured.spread_throughput is not None
            and speed.unit_of(job).is_measured
        )

    def where_placed(self, run: JobRun) -> float:
        """Return a running job's highest rate over all placements of its workers and GPU types."""
        job, speed = run.job, self._speed
        if speed.tuned is not None:
            return speed.tuned.rate(job, run.workers)
        held_gpus = np.array([run.held_gpus])
        near, far = (float(self.efficiency(job, held_gpus, each)[0]) for each in (False, True))
        if not speed.unit_of(job).is_measured:
            return run.rate / run.efficiency * max(near, far)
        assert job.measured is not None, "only jobs with measured throughputs count steps"
        pools = [self._speed.cluster.pools[part.pool] for part in run.parts if part.workers]
        types = {pool.gpu_type.name for pool in pools}
        scaled = speed.scaled(job, run.workers) / job.min_workers
        rates = [far * job.measured.rate(types, is_spread=True)]
        numbers = {pool.number for pool in pools}
        if any(
            sum(gpus for place, gpus in server if self._pools[place].number in numbers)
            >= run.held_gpus
            for server in self._servers
        ):
            rates.append(near * job.measured.rate(types, is_spread=False))
        return scaled * max(rates)

    def places_of_copies(self, job: Job) -> Iterator[tuple[Place, int]]:
        """Yield each kind of server for a copy of a job, and the number of such servers.

        Yield nothing if jobs have no copies.
        """
        if self._copy_efficiency is None:
            return
        is_spread = False if self.depends_on_placement(job) else None
        for server, count in self._servers.items():
            rooms = self._rooms(job, server, is_spread=False, has_replicas=False)
            yield Place(rooms, is_spread), count

    def places(self, job: Job) -> Iterator[Place]:
        """Yield sets of GPUs on which a job may run; at least one allows its best rate."""
        depends = self.depends_on_placement(job)
        cluster, width = self._speed.cluster, job.gpus_per_worker
        everywhere = tuple(
            (place, cluster.most_workers(pool.number, width) * width)
            for place, pool in enumerate(self._pools)
        )
        kinds = [everywhere]
        if self._has_lent and not job.heterogeneous:
            kinds = [
                tuple(each for each in everywhere if self._pools[each[0]].is_lent is is_lent)
                for is_lent in (False, True)
            ]
        # A job with measured throughputs never uses replicas.
        may_have_replicas = self._has_lent and not self._speed.unit_of(job).is_measured
        for has_replicas in (False, True) if may_have_replicas else (False,):
            for pools in kinds:
                rooms = self._rooms(job, pools, is_spread=True, has_replicas=has_replicas)
                yield Place(rooms, True if depends else None)
            for server in self._servers if depends else ():
                rooms = self._rooms(job, server, is_spread=False, has_replicas=has_replicas)
                yield Place(rooms, is_spread=False)

    def _rooms(
        self, job: Job, gpus_of: Sequence[tuple[int, int]], *, is_spread: bool, has_replicas: bool
    ) -> list[Room]:
        """Return how many workers of a job fit in each of several pools, and their speed.

        Parameters
        ----------
        gpus_of
            Pairs of an index in `self._pools` and a number of GPUs.
        has_replicas
            Whether several slower borrowed GPUs replace one reference GPU.
        """
        speed, width = self._speed, job.gpus_per_worker
        is_measured = speed.unit_of(job).is_measured
        rooms = []
        for place, gpus in gpus_of:
            pool = self._pools[place]
            pace = speed.near_and_far(job, pool.number)[is_spread]
            if pace <= 0:
                continue
            replicas = 1
            if is_measured:
                assert job.measured is not None, "only jobs with measured throughputs count steps"
                pace = job.measured.rate((pool.gpu_type.name,), is_spread=is_spread)
            elif has_replicas and pool.is_lent:
                replicas, pace = pool.gpu_type.replicas, pool.gpu_type.worker_speed
            rooms.append(Room(pool.number, pace, gpus // width // replicas, width * replicas))
        return rooms

    def _raise(self, best: FloatArray, job: Job, workers: IntArray, place: Place) -> None:
        """Update `best`, the highest rate by number of workers, with the rates on a set of GPUs."""
        mixes = self.mixes(job)
        scaled = self.scaled(job, workers)
        there = 0
        paces = np.zeros(len(workers))
        for room in sorted(place.rooms, key=attrgetter("pace"), reverse=True):
            efficiency = self.efficiency(job, workers * room.gpus_per_worker, place.is_spread)
            if mixes:
                paces += room.pace * np.clip(workers - there, 0, room.workers)
            there += room.workers
            fits = workers <= (room.workers if mixes else there)
            _raise_where(best, fits, scaled * room.pace * efficiency)
            if mixes and there > room.workers:
                mean = paces / workers
                _raise_where(
                    best, workers <= there, scaled * mean * self.mixed_efficiency * efficiency
                )

    @property
    def mixed_efficiency(self) -> float:
        """Throughput on own and borrowed GPUs together, relative to the ideal."""
        return self._speed.mixed_efficiency

    @property
    def is_concave(self) -> bool:
        """Whether the rate is concave in the number of workers."""
        return self._speed.communication is None and self._speed.tuned is None

    def mixes(self, job: Job) -> bool:
        """Return whether a job runs at the mean speed of its workers, not at the lowest speed."""
        return job.heterogeneous and not self._speed.unit_of(job).is_measured

    def scaled(self, job: Job, workers: IntArray) -> FloatArray:
        """Return a job's work per second for each number of workers, on reference GPUs."""
        speed = self._speed
        if speed.communication is not None or speed.unit_of(job).is_measured:
            return self._worker_s(job, workers) / job.min_workers
        return self._worker_s(job, workers)

    def _worker_s(self, job: Job, workers: IntArray) -> FloatArray:
        """Return the worker-seconds per second of each number of workers, on reference GPUs."""
        if self._speed.tuned is not None:
            return np.array([self._speed.scaled(job, int(count)) for count in workers])
        extra = (workers - job.min_workers).astype(np.float64)
        return job.min_workers + extra * (1.0 - job.scaling_loss)

    def efficiency(self, job: Job, held_gpus: IntArray, is_spread: bool | None) -> FloatArray:
        """Return the best network efficiency of each gang size, on one server or spread."""
        communication, topology = self._speed.communication, self._speed.cluster.topology
        if communication is None:
            return np.ones(len(held_gpus))
        assert topology is not None, "distance is that of a topology"
        assert job.model is not None, "jobs say what they train where distance counts"
        known = self._known_efficiencies
        found = []
        for gpus in held_gpus.tolist():
            key = job.model, gpus, bool(is_spread)
            if key not in known:
                tiers = (Tier.RACK, Tier.NETWORK) if is_spread else (Tier.MACHINE,)
                known[key] = best_efficiency(communication, topology, job.model, gpus, tiers)
            found.append(known[key])
        return np.array(found)


def _raise_where(best: FloatArray, fits: BoolArray, rates: FloatArray) -> None:
    np.maximum(best, rates, out=best, where=fits)


def best_efficiency(
    communication: CommunicationModel,
    topology: Topology,
    model: str,
    gang: int,
    tiers: Iterable[Tier] = Tier,
) -> float:
    """Return the best efficiency of a gang at the given tiers of an empty cluster.

    It is 0 if the gang does not fit, or if the model does not cover a gang of this size, which is
    then never simulated. All numbers of units are tried, because a user's model need not be
    monotone.

    Parameters
    ----------
    communication
        The communication model.
    topology
        The racks.
    model
        Name of the trained model, which `communication` must cover.
    gang
        Number of GPUs.
    tiers
        The tiers to try.
    """
    try:
        return max(
            (
                communication.efficiency(model, gang, tier, units)
                for tier in tiers
                if topology.can_span(tier, gang)
                for units in _numbers_of_units(tier, gang, topology)
            ),
            default=0.0,
        )
    except UserError:
        return 0.0


def _numbers_of_units(tier: Tier, gang: int, topology: Topology) -> range:
    """Return the numbers of GPUs, machines or racks to try for a gang at a network tier.

    Some of them do not fit.
    """
    fewest = topology.fewest_units(tier, gang)
    if tier is Tier.MACHINE:
        return range(fewest, fewest + 1)
    if tier is Tier.RACK:
        most = max(rack.machines for rack in topology.racks)
    else:
        most = len(topology.racks)
    return range(fewest, max(fewest, min(gang, most)) + 1)


def least_run_s(
    workload: Workload,
    speed: Speed,
    *,
    borrows: bool,
    copy_efficiency: Sequence[float] | None = None,
) -> FloatArray:
    """Return each job's least run time in seconds, at its best rate: float64, shape (jobs,).

    Parameters
    ----------
    workload
        The jobs, in order of submission.
    speed, borrows, copy_efficiency
        See `BestRates`.

    Raises
    ------
    UserError
        If a job can never run on the cluster, or its model is not covered.
    """
    speed.require_runs(workload)
    found = BestRates(speed, borrows=borrows, copy_efficiency=copy_efficiency)
    best = np.array([rates.best for rates in found.of_all(workload.jobs)])
    if not best.all():
        job = workload.jobs[int(np.argmin(best))].id
        raise UserError(f"job {job} has speed 0 on all GPUs of {speed.cluster.name} that hold it")
    least_s: FloatArray = np.array([speed.unit_of(job).work for job in workload.jobs]) / best
    return least_s


def note_slowness(run: JobRun, best_rates: BestRates) -> None:
    """Add the time that a job lost by running below its best rate since its rate was set; O(1)."""
    rates, copies = run.best_rates, run.copies
    ran_s = run.running_s - run.rated_s
    if copies is None:
        rate = placed = run.rate
        with_workers = rates.of_workers[run.workers - rates.least_workers]
        if run.beside is not None or best_rates.depends_on_placement(run.job):
            placed = min(max(rate, best_rates.where_placed(run)), with_workers)
    else:
        rate = placed = math.fsum(copies.rates)
        with_workers = rates.of_copies[len(copies.rates) - 1]
        worked_s = (copies.left - run.left) / rate
        run.idle_copies_s += ran_s - worked_s
        ran_s = worked_s
    share_s = ran_s / rates.best
    run.fewer_workers_s += (rates.best - with_workers) * share_s
    run.slower_type_s += (with_workers - placed) * share_s
    run.slower_placement_s += (placed - rate) * share_s


def time_parts(runs: Sequence[JobRun]) -> Mapping[str, FloatArray]:
    """Return the parts, in seconds, that add up to the JCT of each completed job.

    Each part is a float64 array of shape (jobs,). By name, in the order of the plots:
    ``least_run_s``, ``queue_first_s`` (before the first start), ``queue_again_s`` (after the first
    start), ``lost_work_s``, ``fewer_workers_s``, ``slower_type_s``, ``slower_placement_s``,
    ``pause_s``.
    """

    def column(name: str) -> FloatArray:
        return np.array([getattr(run, name) for run in runs], np.float64)

    best = np.array([run.best_rates.best for run in runs])
    first_s = column("start_s") - np.array([run.job.submit_s for run in runs])
    return {
        "least_run_s": column("work") / best,
        "queue_first_s": first_s,
        "queue_again_s": column("queued_s") - first_s,
        "lost_work_s": column("lost_work") / best,
        **{
            name: column(name)
            for name in ("fewer_workers_s", "slower_type_s", "slower_placement_s")
        },
        "pause_s": column("paused_s") + column("idle_copies_s"),
    }
