"""Policies in rounds on a network of tiers: one type of GPUs, and a speed for every place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.instance import GangJob, GpuServer, GpuType
from lyra_opt.simulation.leases.placed import PlacedEfficiency
from lyra_opt.simulation.leases.stays import Stay, record_of
from lyra_opt.simulation.rounds.engine import RoundSimulation
from lyra_opt.simulation.rounds.setup import (
    HeterogeneousCluster,
    HeterogeneousWorkload,
    RoundOptions,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.heterogeneous.instance import Placement
    from lyra_opt.heterogeneous.policy import RoundPolicy
    from lyra_opt.simulation.leases.record import NetworkRecord
    from lyra_opt.simulation.leases.setup import NetworkCluster, NetworkJob, NetworkWorkload

GPU = "gpu"
"""The one type that there is."""


def run_round_policy(
    policy: RoundPolicy,
    workload: NetworkWorkload,
    cluster: NetworkCluster,
    *,
    options: RoundOptions | None = None,
    progress: Callable[[float], None] | None = None,
) -> NetworkRecord:
    """Replay gangs under a policy that decides in rounds, and forks no jobs.

    The policy knows two speeds of a gang: on one machine, and on several, for which it is told
    that of the nearest tier that can hold the gang on several. A gang that no machine holds has
    the latter on one machine too, where it never is. It runs at the speed of where it is placed.
    Restarts cost what `options` say; nothing else is handed over.

    Raises
    ------
    UserError
        If a job can never run.
    """
    cluster.require_runs(workload)
    options = options or RoundOptions()
    stays = _Stays(workload, cluster, options)
    simulation = RoundSimulation(
        HeterogeneousWorkload(
            name=workload.name, jobs=tuple(_gang_job(job, cluster) for job in workload.jobs)
        ),
        HeterogeneousCluster(
            name=cluster.topology.name,
            gpu_types=(GpuType(name=GPU),),
            servers=tuple(
                GpuServer(id=name, gpus={GPU: int(gpus)})
                for name, gpus in zip(
                    cluster.topology.machine_names(),
                    cluster.topology.gpus_of_machine,
                    strict=True,
                )
            ),
        ),
        policy,
        options=options,
        progress=progress,
        rate_of=lambda job, placement: stays.rate_of(job, placement, simulation),
    )
    simulation.run()
    return record_of(
        workload, cluster, stays.finished(simulation), decision_s=simulation.totals.decision_s
    )


def _gang_job(job: NetworkJob, cluster: NetworkCluster) -> GangJob:
    """Return a gang whose steps are the seconds that it runs where the network costs nothing."""
    on_machine, *beyond = cluster.communication.tier_efficiency(
        job.model, job.gang, cluster.topology
    )
    spread = next((rate for rate in beyond if rate > 0), None)
    return GangJob(
        id=job.id,
        gang=job.gang,
        steps=job.ideal_s,
        throughput={GPU: on_machine or spread or 0.0},
        spread_throughput=None if spread is None else {GPU: spread},
        release_s=job.submit_s,
    )


class _Stays:
    """Rounds as stays: those in which a gang goes on where it was are one."""

    def __init__(
        self, workload: NetworkWorkload, cluster: NetworkCluster, options: RoundOptions
    ) -> None:
        self._jobs = workload.jobs
        self._options = options
        self._placed = PlacedEfficiency(cluster)
        self._order = {job.id: order for order, job in enumerate(workload.jobs)}
        self._machine = {
            name: machine for machine, name in enumerate(cluster.topology.machine_names())
        }
        self._stays: list[Stay] = []
        self._last: dict[int, Stay] = {}

    def rate_of(self, job: GangJob, placement: Placement, simulation: RoundSimulation) -> float:
        """Return the steps a second of a gang in the round that begins, and take note of it."""
        order = self._order[job.id]
        now_s = simulation.state.now_s
        active = simulation.runs[order].active
        last = self._last.get(order)
        if last is None or placement not in active.placements:
            gpus = {self._machine[server]: types[GPU] for server, types in placement.items()}
            tier, efficiency = self._placed.of(self._jobs[order].model, job.gang, gpus)
            last = self._last[order] = Stay(
                order=order,
                gpus=gpus,
                tier=tier,
                efficiency=efficiency,
                began_s=now_s,
                computes_from_s=now_s + self._options.restart_s,
                ended_s=now_s,
                free_s=now_s,
            )
            self._stays.append(last)
        # As the engine counts rounds, so that the next one begins no earlier.
        number = round(now_s / self._options.round_s)
        last.ended_s = last.free_s = (number + 1) * self._options.round_s
        return last.efficiency

    def finished(self, simulation: RoundSimulation) -> list[Stay]:
        """Return all stays; GPUs are free only at the end of the round in which a job completes."""
        for order, stay in self._last.items():
            stay.ended_s = simulation.runs[order].completion_s
            stay.computes_from_s = min(stay.computes_from_s, stay.ended_s)
        return self._stays
