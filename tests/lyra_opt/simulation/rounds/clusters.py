"""Small clusters, gangs and policies that the tests of rounds share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.instance import GangJob, GpuServer, GpuType
from lyra_opt.heterogeneous.policy import FreeGpus, RoundPolicy
from lyra_opt.simulation.rounds.engine import RoundSimulation
from lyra_opt.simulation.rounds.setup import (
    HeterogeneousCluster,
    HeterogeneousWorkload,
    RoundOptions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.heterogeneous.policy import Decision, RoundState


def cluster_of(*servers: Mapping[str, int]) -> HeterogeneousCluster:
    """Return a cluster of servers s0, s1, ..., each with these GPUs."""
    names = dict.fromkeys(name for server in servers for name in server)
    return HeterogeneousCluster(
        name="small",
        gpu_types=tuple(GpuType(name=name) for name in names),
        servers=tuple(GpuServer(id=f"s{place}", gpus=gpus) for place, gpus in enumerate(servers)),
    )


def gang(
    name: str, steps: float, *, gang: int = 1, release_s: float = 0.0, **rates: float
) -> GangJob:
    """Return a job with these steps a second by type, 1 on type a unless told otherwise."""
    return GangJob(
        id=name, gang=gang, steps=steps, release_s=release_s, throughput=rates or {"a": 1.0}
    )


class Scripted(RoundPolicy):
    """Decides by a function of the state."""

    name = "scripted"

    def __init__(self, rule: Callable[[RoundState], Decision], *, forks: bool = False) -> None:
        self._rule, self.forks = rule, forks

    def decide(self, state: RoundState) -> Decision:
        return self._rule(state)


class FirstFit(RoundPolicy):
    """Runs jobs in order on the first type that has room and on which they can run."""

    name = "first-fit"

    def decide(self, state: RoundState) -> Decision:
        free = FreeGpus(state.servers)
        decision: Decision = {}
        for active in state.jobs:
            for gpu_type in state.gpu_types:
                placement = free.of_one_type(gpu_type.name, active.job.gang)
                if placement and active.job.rate_of(placement) > 0:
                    free.take(placement)
                    decision[active.job.id] = (placement,)
                    break
        return decision


def simulate(
    jobs: list[GangJob],
    cluster: HeterogeneousCluster,
    policy: RoundPolicy | None = None,
    **options: float,
) -> RoundSimulation:
    """Run jobs, in rounds of 10 s without any cost unless told otherwise."""
    given = {"round_s": 10.0, "restart_s": 0.0, "merge_s": 0.0, **options}
    return RoundSimulation(
        HeterogeneousWorkload(name="small", jobs=tuple(jobs)),
        cluster,
        policy or FirstFit(),
        options=RoundOptions(**given),
    ).run()
