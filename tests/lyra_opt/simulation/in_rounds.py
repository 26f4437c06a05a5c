"""Small clusters of unlike GPUs, gangs and rules that decide round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.heuristics.policy import FreeGpus, RoundPolicy
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.round_by_round import RoundByRound
from lyra_opt.simulation.tenure import Rounds
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.simulation.cluster import LoanPlan
    from lyra_opt.simulation.view import Observer


def cluster_of(*servers: Mapping[str, int]) -> Cluster:
    """Return a cluster of servers s0, s1, ..., each with these GPUs."""
    names = dict.fromkeys(name for server in servers for name in server)
    return Cluster(
        name="small",
        gpu_types=tuple(GpuType(name=name) for name in names),
        servers=tuple(Server(id=f"s{place}", gpus=gpus) for place, gpus in enumerate(servers)),
    )


def gang(
    name: str, steps: float, *, gang: int = 1, release_s: float = 0.0, **rates: float
) -> GangJob:
    """Return a job with these steps a second by type, 1 on type a unless told otherwise."""
    return GangJob(
        id=name, gang=gang, steps=steps, release_s=release_s, throughput=rates or {"a": 1.0}
    )


class Scripted(RoundPolicy):
    """Decides by a function of the state, in every round."""

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


def run_rule(
    rule: RoundPolicy,
    workload: Workload,
    cluster: Cluster,
    rounds: Rounds,
    *,
    plan: LoanPlan | None = None,
    observers: Sequence[Observer] = (),
) -> Kernel:
    """Run a workload under a rule, which borrows servers where there is a plan."""
    reclaimer = None if plan is None else "exact"
    policy = RoundByRound(rule, reclaimer=reclaimer)
    return Kernel(workload, cluster, policy, tenure=rounds, plan=plan, observers=observers).run()


def simulate(
    jobs: Sequence[GangJob],
    cluster: Cluster,
    policy: RoundPolicy | None = None,
    *,
    observers: Sequence[Observer] = (),
    **rounds: float,
) -> Kernel:
    """Run jobs, in rounds of 10 s without any cost unless told otherwise."""
    given = {"round_s": 10.0, "restart_s": 0.0, "merge_s": 0.0, **rounds}
    return run_rule(
        policy or FirstFit(),
        Workload(name="small", jobs=tuple(map(Job.of_gang, jobs))),
        cluster,
        Rounds(**given),
        observers=observers,
    )
