"""How fast jobs run: by their workers, by the type of their GPUs, and by where these are.

The three factors are chosen apart, and each may be absent. Source: elastic scaling from Lyra
(EuroSys 2023), section 5; throughput by type, and that the slowest GPU of a gang sets its pace,
from Gavel (OSDI 2020) and Hadar (arXiv 2503.10918); slowdown by distance from Dally (arXiv
2401.16492).

What is left of a job is counted in a unit of its own, so that nothing is lost by converting it: the
steps of a measured job; where distance matters, the seconds that its whole gang needs close
together; else worker-seconds on reference GPUs.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.rules import require_number
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from lyra_opt.heterogeneous.instance import PackedRate
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.goodput.tuning import JobTuning
    from lyra_opt.simulation.job_run import JobRun, Part
    from lyra_opt.simulation.workload import Job, Workload

MIXED_EFFICIENCY = 0.7
"""Throughput of a job on both kinds of GPUs, as a share of the ideal; Lyra, section 7.1."""


class Room(Enum):
    """Where in a pool a gang runs at all."""

    NOWHERE = 0
    TOGETHER = 1
    """On one server alone."""
    ANYWHERE = 2


class _Unit(NamedTuple):
    """In what the work of a job is counted."""

    work: float
    base_rate: float
    """Work a second of the base demand on reference GPUs close together."""
    is_measured: bool


class Speed:
    """How fast jobs run on a cluster.

    Parameters
    ----------
    cluster
        Where they run.
    mixed_efficiency
        Throughput of a heterogeneous job on own and borrowed GPUs at once, as a share of the
        ideal.
    tuned
        The rates of jobs that are tuned while they run; None where none is.
    ignores_distance
        Whether gangs run anywhere as fast as close together, whatever the cluster says.
    packed
        How fast kinds of jobs are beside one another on the same GPUs.
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
        if require_number("mixed_efficiency", mixed_efficiency, minimum=0, above=True) > 1:
            raise FieldError("mixed_efficiency", mixed_efficiency, "must be at most 1")
        self.cluster = cluster
        self.mixed_efficiency = mixed_efficiency
        self.tuned = tuned
        self._types = {gpu_type.name for gpu_type in cluster.gpu_types}
        self._type_of_pool = [pool.gpu_type.name for pool in cluster.pools]
        self.communication = None if ignores_distance else cluster.communication
        """How well gangs compute where they are placed; None where distance costs nothing."""
        self.spans = Spans(cluster)
        """What gangs span where they are placed."""
        self._known: dict[tuple[str, int, Tier, int], float] = {}
        self._packed: dict[tuple[str | None, str | None], Mapping[str, float]] = {
            (each.kind, each.beside): each.throughput for each in packed
        }

    def require_runs(self, workload: Workload) -> None:
        """Check that each job fits the own servers when nothing else runs, and has a speed there.

        Raises
        ------
        UserError
            That names the first job that can never run, and why.
        """
        for job in workload.jobs:
            if (obstacle := self.obstacle(job)) is not None:
                raise UserError(obstacle)
        if self.communication is None:
            return
        topology = self.cluster.topology
        assert topology is not None, "distance is that of a topology"
        known = self.communication.models()
        for job in workload.jobs:
            if job.model is None:
                raise UserError(
                    f"job {job.id} does not say what it trains, so that nothing is known of how "
                    "well it computes across the network"
                )
            if job.model not in known:
                raise self.communication.unknown(job.model, job.id)
            self.communication.tier_efficiency(job.model, job.min_gpus, topology)

    def least_gpu_s(self, job: Job) -> float:
        """Return the GPU-seconds of a job's gang on the own type that suits it best."""
        return job.min_gpus * self.unit_of(job).work / max(self.rates_of(job).values())

    def obstacle(self, job: Job) -> str | None:
        """Return why a job can never run on own servers, in a clause; None if it can."""
        cluster = self.cluster
        if not cluster.holds(job):
            each = f" of {job.gpus_per_worker}" if job.gpus_per_worker > 1 else ""
            asked = f"{job.min_workers:,} GPUs" if not each else f"{job.min_workers} workers{each}"
            own = cluster.own_gpus
            there = f"{cluster.gpus:,}"
            if len(own) > 1 or job.gpu_types:
                asked += f" of type {' or '.join(job.gpu_types)}" if job.gpu_types else " of a type"
                there = ", ".join(f"{count:,} of {name}" for name, count in own.items())
            return f"job {job.id} needs {asked}, but {cluster.name} has {there}"
        if job.measured is not None and not self.rates_of(job):
            wanted = " that it asks for" if job.gpu_types else ""
            return (
                f"job {job.id} has a gang of {job.min_gpus}, which no type of GPUs{wanted} of "
                f"cluster {cluster.name} can run"
            )
        return None

    def unit_of(self, job: Job) -> _Unit:
        """Return how the work of a job is counted; see the module."""
        gang = job.measured
        if gang is not None and not self._types.isdisjoint(gang.throughput):
            return _Unit(gang.steps, gang.best_rate, is_measured=True)
        if self.communication is not None:
            return _Unit(job.work_worker_s / job.min_workers, 1.0, is_measured=False)
        return _Unit(job.work_worker_s, float(job.min_workers), is_measured=False)

    def worker_s(self, job: Job) -> float:
        """Return the worker-seconds on reference GPUs that a unit of work stands for."""
        unit = self.unit_of(job)
        return job.min_workers / unit.base_rate

    def believed_left_worker_s(self, run: JobRun) -> float:
        """Return what is left as far as the scheduler knows, above 0 until it completes."""
        job = run.job
        if self.communication is None and job.measured is None:
            left_worker_s, work_worker_s = run.left, job.work_worker_s
        else:
            unit_worker_s = self.worker_s(job)
            left_worker_s, work_worker_s = run.left * unit_worker_s, run.work * unit_worker_s
        if job.estimated_work_worker_s is None:
            return left_worker_s
        done = work_worker_s - left_worker_s
        # A job that outlives its estimate is taken to be nearly done.
        return max(job.estimated_work_worker_s - done, 0.01 * job.estimated_work_worker_s)

    def scaled(self, job: Job, workers: int) -> float:
        """Return the worker-seconds that so many workers do a second on reference GPUs."""
        return job.rate(workers) if self.tuned is None else self.tuned.rate(job, workers)

    def scaled_now(self, run: JobRun) -> float:
        """Return the same of what a job holds, as far as it has come."""
        return run.job.rate(run.workers) if self.tuned is None else self.tuned.rate_of(run)

    # Where a job is placed.

    def set_rate(self, run: JobRun) -> None:
        """Set the work a second of a job by what it holds, and who holds it with it.

        O(parts + hosts where distance counts).

        Copies add up elsewhere (`rate_of_copy`).
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
        """Return the work a second of one of several copies of a job."""
        job, unit = run.job, self.unit_of(run.job)
        if unit.is_measured:
            rate = self._measured_rate(job, parts)
        else:
            rate = unit.base_rate * self._joint_worker_speed(job, parts)
        if self.communication is not None:
            rate *= self._placed(job, [host for part in parts for host in part.by_host()])[1]
        return rate

    def note_copies(self, run: JobRun) -> None:
        """Set what copies of a job span, and the mean of their efficiencies."""
        of_copy: dict[int, list[int]] = {}
        for part in run.parts:
            of_copy.setdefault(part.copy, []).extend(part.by_host())
        found = [self._placed(run.job, hosts) for hosts in of_copy.values()]
        run.tier = max(tier for tier, _ in found)
        run.efficiency = sum(efficiency for _, efficiency in found) / len(found)

    def _joint_worker_speed(self, job: Job, parts: Sequence[Part]) -> float:
        """Return how fast workers are beside those on reference GPUs, where they work together.

        On average over them, and a share of that, for jobs that can be on several kinds at once;
        others keep the pace of the slowest.
        """
        if len(parts) == 1:
            return parts[0].worker_speed
        if not job.heterogeneous:
            return min(part.worker_speed for part in parts)
        workers = sum(part.workers for part in parts)
        mean = sum(part.workers * part.worker_speed for part in parts) / workers
        return mean * self.mixed_efficiency

    def _measured_rate(self, job: Job, parts: Sequence[Part]) -> float:
        assert job.measured is not None, "only measured jobs have steps"
        servers = self.cluster.server_of_host
        places = {servers[host] for part in parts for host in part.by_host()}
        types = {self._type_of_pool[part.pool] for part in parts}
        return job.measured.rate(types, is_spread=len(places) > 1)

    def _rate_beside(self, job: Job, other: Job, parts: Sequence[Part]) -> float:
        """Return the steps a second of a job while another one holds its GPUs too; 0 if unknown."""
        assert job.measured is not None, "only measured jobs have steps"
        if other.measured is None:
            return 0.0
        rates = self._packed.get((job.measured.kind, other.measured.kind), {})
        return min(rates.get(self._type_of_pool[part.pool], 0.0) for part in parts)

    def _placed(
        self, job: Job, hosts: Collection[int], gpus: int | None = None
    ) -> tuple[Tier, float]:
        """Return what a gang on these hosts spans, and its efficiency there; kept for all alike.

        Parameters
        ----------
        gpus
            How many it has; None for its base demand.
        """
        assert self.communication is not None, "distance counts"
        assert job.model is not None, "jobs say what they train where distance counts"
        gang = job.min_gpus if gpus is None else gpus
        tier, units = self.spans.of(hosts, gang)
        key = job.model, gang, tier, units
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.communication.efficiency(*key)
        return tier, found

    # What a policy is told of a job before it is placed.

    def relative_speed(self, job: Job, pool: int) -> float:
        """Return what a worker does in a pool beside one on reference GPUs; 0 where it cannot run.

        A GPU for each GPU asked for, close together. Borrowed GPUs are for fungible and
        heterogeneous jobs alone, and a job that asks for types runs on no others.
        """
        return max(self.near_and_far(job, pool))

    def near_and_far(self, job: Job, pool: int) -> tuple[float, float]:
        """Return what a worker does in a pool on one server, and on several, distance apart."""
        of_pool = self.cluster.pools[pool]
        gpu_type = of_pool.gpu_type
        if of_pool.is_lent and not (job.fungible or job.heterogeneous):
            return 0.0, 0.0
        if not job.takes(gpu_type.name):
            return 0.0, 0.0
        if job.measured is None or not (unit := self.unit_of(job)).is_measured:
            return gpu_type.relative_speed, gpu_type.relative_speed
        near = job.measured.rate((gpu_type.name,), is_spread=False) / unit.base_rate
        return near, job.measured.rate((gpu_type.name,), is_spread=True) / unit.base_rate

    def pools_of(self, job: Job, *, is_lent: bool | None = None) -> list[tuple[float, int]]:
        """Return the pools in which a rule that looks at numbers may place a job, fastest first.

        Each as its relative speed and its number; own ones come first among equals.

        Parameters
        ----------
        is_lent
            Whether only own pools are asked for (False), or only borrowed ones (True).
        """
        found = [
            (-self.relative_speed(job, pool.number), pool.number)
            for pool in self.cluster.pools
            if is_lent in (None, pool.is_lent)
            and self.room_for(job, pool.number) is not Room.NOWHERE
        ]
        return [(-negative, pool) for negative, pool in sorted(found) if negative < 0]

    def room_for(self, job: Job, pool: int) -> Room:
        """Return how a gang may be placed in a pool by a rule that looks at numbers alone."""
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
        """Whether there is an own server with GPUs of one type on which alone the job can run."""
        cluster = self.cluster
        return any(
            self.near_and_far(job, pool.number)[0] > 0
            and job.min_gpus <= cluster.most_on_a_server[pool.gpu_type.name]
            for pool in cluster.pools
            if not pool.is_lent
        )

    def rates_of(self, job: Job) -> dict[str, float]:
        """Return the best work a second of a job on each own type alone that can hold its gang.

        Types on which it has no rate, or for which it does not ask, are left out.
        """
        cluster = self.cluster
        unit = self.unit_of(job)
        rates: dict[str, float] = {}
        for name, count in cluster.gpus_of_type.items():
            found = 0.0
            if not job.takes(name):
                continue
            if not unit.is_measured:
                if job.min_gpus <= count:
                    found = unit.base_rate * cluster.type_of[name].relative_speed
            else:
                assert job.measured is not None, "its steps are counted"
                if job.min_gpus <= cluster.most_on_a_server[name]:
                    found = job.measured.rate((name,), is_spread=False)
                has_several = count > cluster.most_on_a_server[name]
                if has_several and 1 < job.min_gpus <= count:
                    found = max(found, job.measured.rate((name,), is_spread=True))
            if found > 0:
                rates[name] = found
        return rates


class Spans:
    """What gangs span, by the hosts on which they are.

    Parameters
    ----------
    cluster
        Without racks, all servers are in one.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._rack_of = cluster.rack_of_host
        self._server_of = cluster.server_of_host
        self._is_a_server = all(host == server for host, server in enumerate(self._server_of))

    def of(self, hosts: Collection[int], gpus: int) -> tuple[Tier, int]:
        """Return the tier that a gang of so many GPUs spans, and how many units of it."""
        if len(hosts) > 1:
            machines = (
                len(hosts) if self._is_a_server else len({self._server_of[host] for host in hosts})
            )
            if machines > 1:
                racks = len({self._rack_of[host] for host in hosts})
                return (Tier.RACK, machines) if racks == 1 else (Tier.NETWORK, racks)
        return Tier.MACHINE, gpus
