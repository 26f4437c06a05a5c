"""Lyra's schemes on a network of tiers: gangs run to completion, as fast as their place allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.errors import UserError
from lyra_opt.simulation.cluster import Cluster, Options
from lyra_opt.simulation.engine import Simulation
from lyra_opt.simulation.leases.placed import PlacedEfficiency
from lyra_opt.simulation.leases.stays import Stay, record_of
from lyra_opt.simulation.scheme import find_scheme
from lyra_opt.simulation.workload import TrainingJob, Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.network.topology import Topology
    from lyra_opt.simulation.leases.record import NetworkRecord
    from lyra_opt.simulation.leases.setup import NetworkCluster, NetworkJob, NetworkWorkload
    from lyra_opt.simulation.run import JobRun


def run_elastic_scheme(
    name: str,
    workload: NetworkWorkload,
    cluster: NetworkCluster,
    *,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> NetworkRecord:
    """Replay gangs under a scheme of `lyra_opt.simulation.scheme`.

    A gang of n GPUs is an inelastic job of n workers with a GPU each, whose rate is multiplied by
    the efficiency of where Lyra's best fit puts it, which looks at no network. There are no
    inference servers, hence no loans, so nobody is preempted; nothing is handed over.

    Raises
    ------
    UserError
        If machines are of unequal size, or a job can never run.

    Notes
    -----
    Complexity: that of `lyra_opt.simulation.engine.Simulation`, and O(jobs log jobs + machines
    given) for what is counted.
    """
    topology = cluster.topology
    cluster.require_runs(workload)
    gpus_per_server = equal_machine_gpus(name, topology)
    placed = PlacedEfficiency(cluster)
    stays: dict[int, Stay] = {}

    def efficiency(run: JobRun) -> float:
        gpus: dict[int, int] = {}
        for share in run.shares:
            for placement in share.placements:
                for machine, workers in placement.items():
                    gpus[machine] = gpus.get(machine, 0) + workers
        job = workload.jobs[run.order]
        tier, found = placed.of(job.model, job.gang, gpus)
        now_s = simulation.now_s
        assert run.order not in stays, "inelastic jobs that nobody preempts are placed once"
        stays[run.order] = Stay(
            order=run.order,
            gpus=gpus,
            tier=tier,
            efficiency=found,
            began_s=now_s,
            computes_from_s=now_s,
            ended_s=now_s,
            free_s=now_s,
        )
        return found

    simulation = Simulation(
        Workload(name=workload.name, jobs=tuple(map(_training_job, workload.jobs))),
        Cluster(servers=topology.machines, gpus_per_server=gpus_per_server),
        find_scheme(name),
        options=Options(seed=seed),
        progress=progress,
        efficiency=efficiency,
    )
    simulation.run()
    for run in simulation.runs:
        stays[run.order].ended_s = stays[run.order].free_s = run.completion_s
    return record_of(workload, cluster, [stays[run.order] for run in simulation.runs])


def equal_machine_gpus(name: str, topology: Topology) -> int:
    """Return the GPUs of each machine; `UserError` that names the scheme if they are not equal."""
    sizes = sorted({rack.gpus_per_machine for rack in topology.racks})
    if len(sizes) > 1:
        raise UserError(
            f"scheme {name} runs on machines of equal size alone, but those of {topology.name} "
            f"have {', '.join(map(str, sizes))} GPUs"
        )
    return sizes[0]


def _training_job(job: NetworkJob) -> TrainingJob:
    return TrainingJob(
        id=job.id,
        submit_s=job.submit_s,
        work_worker_s=job.work_gpu_s,
        min_workers=job.gang,
        max_workers=job.gang,
        checkpoints=True,
    )
