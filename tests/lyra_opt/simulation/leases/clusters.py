"""Small clusters, gangs and policies that the tests of leases share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.network.communication import SlowdownTable
from lyra_opt.network.links import Tier
from lyra_opt.network.policy import Grant, PlacementPolicy
from lyra_opt.network.topology import Topology
from lyra_opt.simulation.leases.engine import LeaseSimulation
from lyra_opt.simulation.leases.setup import (
    LeaseOptions,
    NetworkCluster,
    NetworkJob,
    NetworkWorkload,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lyra_opt.network.policy import PlacementState, RunningGangs

SLOWDOWN_OF_TIER = (1.0, 2.0, 4.0)
"""Efficiency 1, 1/2 and 1/4, so that times are whole seconds."""


def cluster_of(
    racks: int = 2,
    machines_per_rack: int = 2,
    gpus_per_machine: int = 2,
    *,
    slowdowns: Iterable[float] = SLOWDOWN_OF_TIER,
) -> NetworkCluster:
    """Return equal racks in which the model ``m`` is slowed so much at each tier."""
    topology = Topology.uniform(
        racks=racks, machines_per_rack=machines_per_rack, gpus_per_machine=gpus_per_machine
    )
    table = {
        ("m", gang, tier): slowdown
        for gang in range(1, topology.gpus + 1)
        for tier, slowdown in zip(Tier, slowdowns, strict=True)
    }
    return NetworkCluster(topology=topology, communication=SlowdownTable(table), network="table")


def job(name: str, ideal_s: float, *, gang: int = 1, submit_s: float = 0.0) -> NetworkJob:
    """Return a job that runs so long where the network costs nothing."""
    return NetworkJob(id=name, submit_s=submit_s, gang=gang, work_gpu_s=ideal_s * gang, model="m")


class FirstGpus(PlacementPolicy):
    """Gives gangs the first GPUs that are free, by score, then in order of submission."""

    name = "first-gpus"

    def decide(self, state: PlacementState) -> list[Grant]:
        free = state.machines.free_gpus.tolist()
        grants = []
        order = sorted(
            range(len(state.waiting)),
            key=lambda job: (state.waiting.score[job], -state.waiting.waiting_s[job]),
        )
        for job in order:
            gang = int(state.waiting.gang[job])
            if gang > sum(free):
                continue
            grants.append(grant_of(state, job, first_free(free, gang)))
        return grants


class Scripted(PlacementPolicy):
    """Decides by functions of the state."""

    name = "scripted"

    def __init__(
        self,
        decide: Callable[[PlacementState], dict[str, dict[int, int]]],
        *,
        migrate: Callable[[PlacementState, RunningGangs], dict[str, dict[int, int]]] | None = None,
        next_decision_s: Callable[[PlacementState], float] | None = None,
    ) -> None:
        self._decide, self._migrate, self._next = decide, migrate, next_decision_s

    def decide(self, state: PlacementState) -> list[Grant]:
        chosen = self._decide(state)
        ids = list(state.waiting.ids)
        return [grant_of(state, ids.index(name), gpus) for name, gpus in chosen.items()]

    def migrate(self, state: PlacementState, running: RunningGangs) -> list[Grant]:
        if self._migrate is None:
            return []
        chosen = self._migrate(state, running)
        ids = list(running.ids)
        return [grant_of(state, ids.index(name), gpus) for name, gpus in chosen.items()]

    def next_decision_s(self, state: PlacementState) -> float:
        return super().next_decision_s(state) if self._next is None else self._next(state)


def first_free(free: list[int], gang: int) -> dict[int, int]:
    """Return the first GPUs of those that are free, by machine, and take them."""
    gpus = {}
    for machine, count in enumerate(free):
        taken = min(count, gang)
        if taken:
            gpus[machine] = taken
            free[machine] -= taken
            gang -= taken
    return gpus


def grant_of(state: PlacementState, job: int, gpus: dict[int, int]) -> Grant:
    """Return a grant with the right label."""
    starts = state.machines.first_machine_of_rack.tolist()
    racks = {sum(start <= machine for start in starts) for machine in gpus}
    spanned = Tier.MACHINE if len(gpus) == 1 else Tier.RACK if len(racks) == 1 else Tier.NETWORK
    return Grant(job, spanned, gpus)


def simulate(
    jobs: list[NetworkJob],
    cluster: NetworkCluster | None = None,
    policy: PlacementPolicy | None = None,
    lease_s: float = 100.0,
    hand_over_s_per_gpu: float = 0.0,
) -> LeaseSimulation:
    """Run jobs, on leases of 100 s handed over in no time unless told otherwise."""
    return LeaseSimulation(
        NetworkWorkload(name="small", jobs=tuple(jobs)),
        cluster or cluster_of(),
        policy or FirstGpus(),
        options=LeaseOptions(lease_s=lease_s, hand_over_s_per_gpu=hand_over_s_per_gpu),
    ).run()
