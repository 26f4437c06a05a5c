"""How fast jobs run, depending on their workers, their GPU types and their placement.

Each of the three factors may be absent. Sources: elastic scaling from Lyra (EuroSys 2023), section
5; throughput by GPU type, and that the slowest GPU of a gang sets its pace, from Gavel (OSDI 2020)
and Hadar (arXiv 2503.10918); slowdown by distance from Dally (arXiv 2401.16492).

Each job counts its work in its own unit, so that conversion loses no precision. A job with measured
throughputs counts steps. If distance matters, a job counts the seconds that its whole gang needs
close together. All other jobs count worker-seconds on reference GPUs.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from lyra_opt.core.errors import UserError
from lyra_opt.core.rules import require_number
from lyra_opt.heterogeneous.instance import PackedRate
from lyra_opt.network.links import Tier
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.goodput.tuning import JobTuning
from lyra_opt.simulation.job_run import JobRun, Part
from lyra_opt.simulation.workload import WHOLE_GPU, Job, Workload

MIXED_EFFICIENCY = 0.7
"""Relative throughput of a job on own and borrowed GPUs at once; Lyra, section 7.1."""


class Room(Enum):
    """How a gang may be placed in a pool: nowhere, on a single server, or anywhere."""

    NOWHERE = 0
    TOGETHER = 1
    """Only with all its GPUs on one server."""
    ANYWHERE = 2


class _Unit(NamedTuple):
    """The unit in which the work of a job is counted."""

    work: float
    base_rate: float
    """Work per second of the base demand on reference GPUs that are close together."""
    is_measured: bool


class Speed:
    """Computes how fast jobs run on a cluster.

    Parameters
    ----------
    cluster
        The cluster on which the jobs run.
    mixed_efficiency
        Throughput of a heterogeneous job on own and borrowed GPUs at once, relative to the ideal.
    tuned
        The rates of jobs that a scheme tunes while they run; None if no job is tuned.
    ignores_distance
        Whether gangs run at full speed however far apart their GPUs are.
    packed
        Throughputs of pairs of jobs that share GPUs.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        mixed_efficiency: float = MIXED_EFFICIENCY,
        tuned: JobTuning | None = None,
        ignores_distance: bool = False,
        packed: Sequence[PackedRate] = (),
    ) -> None:
        require_number("mixed_efficiency", mixed_efficiency, minimum=0, above=True, maximum=1)
        self.cluster = cluster
        self.mixed_efficiency = mixed_efficiency
        self.tuned = tuned
        self._types = {gpu_type.name for gpu_type in cluster.gpu_types}
        self._type_of_pool = [pool.gpu_type.name for pool in cluster.pools]
        self.communication = None if ignores_distance else cluster.communication
        """The communication model; None if distance does not slow gangs."""
        self.spans = Spans(cluster)
        """Computes the tier that a gang spans."""
        self._known: dict[tuple[str, int, Tier, int], float] = {}
        self._packed: dict[tuple[str | None, str | None], Mapping[str, float]] = {
            (each.kind, each.beside): each.throughput for each in packed
        }

    def require_runs(self, workload: Workload) -> None:
        """Check that each job fits the empty cluster's own servers and has a known speed there.

        Raises
        ------
        UserError
            If a job can never run; the message names the first such job and the reason.
        """
        for job in workload.jobs:
            if (obstacle := self.obstacle(job)) is not None:
                raise UserError(obstacle)
        if self.communication is None:
            return
        topology = self.cluster.topology
        assert topology is not None, "a communication model needs a topology"
        known = self.communication.models()
        for job in workload.jobs:
            if job.model is None:
                raise UserError(
                    f"job {job.id} names no model, so its speed across the network is unknown; "
                    "give it a model"
                )
            if job.model not in known:
                raise self.communication.unknown(job.model, job.id)
            self.communication.tier_efficiency(job.model, job.min_gpus, topology)

    def least_gpu_s(self, job: Job) -> float:
        """Return the GPU-seconds that a job's gang needs on its fastest own GPU type."""
        return job.min_gpus * job.share * self.unit_of(job).work / max(self.rates_of(job).values())

    def share_on(self, job: Job, pool: int) -> float:
        """Return the share of a GPU of a pool that a slice needs, rounded down; 1 for whole GPUs.

        It is 0 if the slice does not fit the GPUs of the pool.
        """
        if not job.is_slice:
            return 1.0
        share = job.slice_on(self.cluster.pools[pool].gpu_type.memory_mib) / WHOLE_GPU
        return math.nextafter(share, 0.0)

    def least_gpus(self, job: Job) -> float:
        """Return the fewest own GPUs that a job's base demand needs; for a slice, a part of one."""
        if not job.is_slice:
            return job.min_gpus
        own = (pool.number for pool in self.cluster.pools if not pool.is_lent)
        return min(share for pool in own if (share := self.share_on(job, pool)) > 0)

    def obstacle(self, job: Job) -> str | None:
        """Return why a job can never run on the own servers, as a clause; None if it can."""
        cluster = self.cluster
        if not cluster.holds(job):
            each = f" of {job.gpus_per_worker} GPUs" if job.gpus_per_worker > 1 else ""
            asked = f"{job.min_workers:,} GPUs" if not each else f"{job.min_workers} workers{each}"
            own = cluster.own_gpus
            there = f"{cluster.gpus:,} GPUs"
            if len(own) > 1 or job.gpu_types:
                asked += (
                    f" of type {' or '.join(job.gpu_types)}" if job.gpu_types else " of one type"
                )
                there = ", ".join(f"{count:,} of {name}" for name, count in own.items())
            return f"job {job.id} needs {asked}, but cluster {cluster.name} has {there}"
        if job.gpu_memory_mib is not None and not self.rates_of(job):
            there = ", ".join(
                f"{name} {cluster.type_of[name].memory_mib or 'unknown'}"
                for name in cluster.own_gpus
                if job.takes(name)
            )
            return (
                f"job {job.id} asks for {job.gpu_memory_mib:,} MiB of one GPU, but in cluster "
                f"{cluster.name} the GPUs that it takes have (MiB): {there}; set memory_mib of "
                "the GPU types"
            )
        if job.measured is not None and not self.rates_of(job):
            wanted = " that it asks for" if job.gpu_types else ""
            return (
                f"job {job.id} has a gang of {job.min_gpus} GPUs, but no GPU type{wanted} in "
                f"cluster {cluster.name} can run it"
            )
        return None

    def unit_of(self, job: Job) -> _Unit:
        """Return the unit of a job's work: steps, seconds of its gang, or worker-seconds.

        See the docstring of the module.
        """
        gang = job.measured
        if gang is not None and not self._types.isdisjoint(gang.throughput):
            return _Unit(gang.steps, gang.best_rate, is_measured=True)
        if self.communication is not None:
            return _Unit(job.work_worker_s / job.min_workers, 1.0, is_measured=False)
        return _Unit(job.work_worker_s, float(job.min_workers), is_measured=False)

    def worker_s(self, job: Job) -> float:
        """Return the worker-seconds on reference GPUs that one unit of a job's work takes."""
        if job.measured is None and self.communication is None:
            return 1.0  # a shortcut, because schemes with preemption ask at every decision
        return job.min_workers / self.unit_of(job).base_rate

    def believed_left_worker_s(self, run: JobRun) -> float:
        """Return a job's remaining worker-seconds as the scheduler estimates them; above 0."""
        job = run.job
        if self.communication is None and job.measured is None:
            left_worker_s, work_worker_s = run.left, job.work_worker_s
        else:
            unit_worker_s = self.worker_s(job)
            left_worker_s, work_worker_s = run.left * unit_worker_s, run.work * unit_worker_s
        if job.estimated_work_worker_s is None:
            return left_worker_s
        done = work_worker_s - left_worker_s
        # A job that has exceeded its estimated work still has 1 % of that estimate to do.
        return max(job.estimated_work_worker_s - done, 0.01 * job.estimated_work_worker_s)

    def scaled(self, job: Job, workers: int) -> float:
        """Return the work, in worker-seconds per second, of `workers` workers on reference GPUs."""
        return job.rate(workers) if self.tuned is None else self.tuned.rate(job, workers)

    def scaled_now(self, run: JobRun) -> float:
        """Return a job's current speed, in worker-seconds on reference GPUs per second."""
        return run.job.rate(run.workers) if self.tuned is None else self.tuned.rate_of(run)

    def set_rate(self, run: JobRun) -> None:
        """Set a job's work per second from the GPUs that it holds and the job that shares them.

        O(parts), plus O(hosts) if distance matters. Copies have rates of their own
        (`rate_of_copy`).
        """
        job, parts = run.job, run.parts
        if job.measured is None or not self.unit_of(job).is_measured:
            if self.communication is None:
                rate = self.scaled_now(run)
            elif run.workers == job.min_workers:
                rate = 1.0
            else:
                rate = self.scaled(job, run.workers) / job.min_workers
            if len(parts) == 1:
                rate *= parts[0].worker_speed
            else:
                rate *= self._joint_worker_speed(job, parts)
        else:
            rate = self._measured_rate(job, parts)
            if run.beside is not None:
                rate = min(rate, self._rate_beside(job, run.beside.job, parts))
            if run.workers != job.min_workers:
                rate *= self.scaled(job, run.workers) / job.min_workers
        if self.communication is not None:
            run.tier, run.efficiency = self._placed(job, run.gpus, run.held_gpus)
            rate *= run.efficiency
        run.rate = rate

    def rate_of_copy(self, run: JobRun, parts: Sequence[Part]) -> float:
        """Return the work per second of one copy of a job that has several."""
        job, unit = run.job, self.unit_of(run.job)
        if unit.is_measured:
            rate = self._measured_rate(job, parts)
        else:
            rate = unit.base_rate * self._joint_worker_speed(job, parts)
        if self.communication is not None:
            rate *= self._placed(job, [host for part in parts for host in part.by_host()])[1]
        return rate

    def note_copies(self, run: JobRun) -> None:
        """Set the widest tier that a copy of a job spans, and the mean efficiency of its copies."""
        of_copy: dict[int, list[int]] = {}
        for part in run.parts:
            of_copy.setdefault(part.copy, []).extend(part.by_host())
        found = [self._placed(run.job, hosts) for hosts in of_copy.values()]
        run.tier = max(tier for tier, _ in found)
        run.efficiency = sum(efficiency for _, efficiency in found) / len(found)

    def _joint_worker_speed(self, job: Job, parts: Sequence[Part]) -> float:
        """Return the speed of a job's workers, over several pools, relative to reference GPUs.

        A heterogeneous job has the mean speed of its workers times `mixed_efficiency`. Any other
        job runs at the speed of its slowest workers.
        """
        if len(parts) == 1:
            return parts[0].worker_speed
        if not job.heterogeneous:
            return min(part.worker_speed for part in parts)
        workers = sum(part.workers for part in parts)
        mean = sum(part.workers * part.worker_speed for part in parts) / workers
        return mean * self.mixed_efficiency

    def _measured_rate(self, job: Job, parts: Sequence[Part]) -> float:
        assert job.measured is not None, "only jobs with measured throughputs count steps"
        servers = self.cluster.server_of_host
        places = {servers[host] for part in parts for host in part.by_host()}
        types = {self._type_of_pool[part.pool] for part in parts}
        return job.measured.rate(types, is_spread=len(places) > 1)

    def _rate_beside(self, job: Job, other: Job, parts: Sequence[Part]) -> float:
        """Return a job's steps per second while `other` shares its GPUs; 0 if unknown."""
        assert job.measured is not None, "only jobs with measured throughputs count steps"
        if other.measured is None:
            return 0.0
        rates = self._packed.get((job.measured.kind, other.measured.kind), {})
        return min(rates.get(self._type_of_pool[part.pool], 0.0) for part in parts)

    def _placed(
        self, job: Job, hosts: Collection[int], gpus: int | None = None
    ) -> tuple[Tier, float]:
        """Return the tier that a gang on these hosts spans, and its efficiency there (cached).

        Parameters
        ----------
        gpus
            Number of GPUs; None for the base demand.
        """
        assert self.communication is not None, "called only if distance matters"
        assert job.model is not None, "every job names its model if distance matters"
        gang = job.min_gpus if gpus is None else gpus
        tier, units = self.spans.of(hosts, gang)
        key = job.model, gang, tier, units
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.communication.efficiency(*key)
        return tier, found

    def relative_speed(self, job: Job, pool: int) -> float:
        """Return a worker's speed in a pool, relative to reference GPUs; 0 if the job cannot run.

        The workers are close together. Only fungible and heterogeneous jobs run on borrowed GPUs,
        and a job that asks for GPU types runs on no other types.
        """
        return max(self.near_and_far(job, pool))

    def near_and_far(self, job: Job, pool: int) -> tuple[float, float]:
        """Return a worker's relative speed in a pool: on one server, and spread over several.

        Both are relative to reference GPUs, without network delays.
        """
        of_pool = self.cluster.pools[pool]
        gpu_type = of_pool.gpu_type
        if of_pool.is_lent and not (job.fungible or job.heterogeneous):
            return 0.0, 0.0
        if not gpu_type.thousandths_for(job):
            return 0.0, 0.0
        if job.measured is None or not (unit := self.unit_of(job)).is_measured:
            return gpu_type.relative_speed, gpu_type.relative_speed
        near = job.measured.rate((gpu_type.name,), is_spread=False) / unit.base_rate
        return near, job.measured.rate((gpu_type.name,), is_spread=True) / unit.base_rate

    def pools_of(self, job: Job, *, is_lent: bool | None = None) -> list[tuple[float, int]]:
        """Return (relative speed, pool number) of the pools that can hold a job, fastest first.

        This is for policies that place jobs by numbers of GPUs. Among equally fast pools, own pools
        come first.

        Parameters
        ----------
        is_lent
            False for own pools only, True for borrowed pools only, None for all.
        """
        found = [
            (-self.relative_speed(job, pool.number), pool.number)
            for pool in self.cluster.pools
            if is_lent in (None, pool.is_lent)
            and self.room_for(job, pool.number) is not Room.NOWHERE
        ]
        return [(-negative, pool) for negative, pool in sorted(found) if negative < 0]

    def room_for(self, job: Job, pool: int) -> Room:
        """Return how a policy that only counts GPUs may place a job's gang in a pool."""
        near, far = self.near_and_far(job, pool)
        if self.cluster.most_workers(pool, job.gpus_per_worker) < job.min_workers:
            return Room.NOWHERE
        if near > 0 and far > 0:
            return Room.ANYWHERE
        largest = max(self.cluster.pools[pool].gpus)
        if near > 0 and job.min_gpus <= largest:
            return Room.TOGETHER
        return Room.ANYWHERE if far > 0 and job.min_gpus > largest else Room.NOWHERE

    def runs_on_a_server(self, job: Job) -> bool:
        """Return whether an own server has enough GPUs of one type on which the job can run."""
        cluster = self.cluster
        return any(
            self.near_and_far(job, pool.number)[0] > 0
            and job.min_gpus <= cluster.most_on_a_server[pool.gpu_type.name]
            for pool in cluster.pools
            if not pool.is_lent
        )

    def rates_of(self, job: Job) -> dict[str, float]:
        """Return a job's best work per second on each own GPU type that can hold its gang.

        Types on which the job has no rate, or for which it does not ask, are left out.
        """
        cluster = self.cluster
        unit = self.unit_of(job)
        rates: dict[str, float] = {}
        for name, count in cluster.gpus_of_type.items():
            found = 0.0
            if not cluster.type_of[name].thousandths_for(job):
                continue
            if not unit.is_measured:
                if job.min_gpus <= count:
                    found = unit.base_rate * cluster.type_of[name].relative_speed
            else:
                assert job.measured is not None, "only jobs with measured throughputs count steps"
                if job.min_gpus <= cluster.most_on_a_server[name]:
                    found = job.measured.rate((name,), is_spread=False)
                has_several = count > cluster.most_on_a_server[name]
                if has_several and 1 < job.min_gpus <= count:
                    found = max(found, job.measured.rate((name,), is_spread=True))
            if found > 0:
                rates[name] = found
        return rates


class Spans:
    """Computes the tier that a gang spans from the hosts of its GPUs.

    Parameters
    ----------
    cluster
        A cluster without racks counts as a single rack.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._rack_of = cluster.rack_of_host
        self._server_of = cluster.server_of_host
        self._is_a_server = all(host == server for host, server in enumerate(self._server_of))

    def of(self, hosts: Collection[int], gpus: int) -> tuple[Tier, int]:
        """Return the network tier that a gang spans, and its number of GPUs, machines or racks."""
        if len(hosts) > 1:
            machines = (
                len(hosts) if self._is_a_server else len({self._server_of[host] for host in hosts})
            )
            if machines > 1:
                racks = len({self._rack_of[host] for host in hosts})
                return (Tier.RACK, machines) if racks == 1 else (Tier.NETWORK, racks)
        return Tier.MACHINE, gpus
