"""Small clusters of unlike GPUs, gangs and rules that decide round by round."""

from dataclasses import replace

from lyra_opt.heterogeneous.heuristics.policy import FreeGpus, RoundPolicy
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.round_by_round import RoundByRound
from lyra_opt.simulation.tenure import Rounds
from lyra_opt.simulation.workload import Job
from tests.lyra_opt.simulation.replays import workload_of

FREE_ROUNDS = Rounds(round_s=10.0, restart_s=0.0, merge_s=0.0)


def cluster_of(*servers, **speeds):
    """Return a cluster of servers s0, s1, ..., each with these GPUs; `speeds` are by type."""
    names = dict.fromkeys(name for server in servers for name in server)
    return Cluster(
        name="small",
        gpu_types=tuple(GpuType(name=name, relative_speed=speeds.get(name, 1)) for name in names),
        servers=tuple(Server(id=f"s{place}", gpus=gpus) for place, gpus in enumerate(servers)),
    )


def gang(name, steps, *, gang=1, release_s=0.0, spread=None, kind=None, **rates):
    """Return a job with these steps a second by type, 1 on type a unless told otherwise."""
    return GangJob(
        id=name,
        gang=gang,
        steps=steps,
        release_s=release_s,
        throughput=rates or {"a": 1.0},
        spread_throughput=spread,
        kind=kind,
    )


def measured(name, steps, *, fungible=False, **given):
    """Return the same as a job of a simulation."""
    return replace(Job.of_gang(gang(name, steps, **given)), fungible=fungible)


class Scripted(RoundPolicy):
    """Decides by a function of the state, in every round."""

    name = "scripted"

    def __init__(self, rule, *, forks=False):
        self._rule, self.forks = rule, forks

    def decide(self, state):
        return self._rule(state)


def in_turn(turns):
    """Return a rule that places jobs as a table says, round by round, over and over."""

    def decide(state):
        turn = turns[int(state.now_s // state.round_s) % len(turns)]
        names = [active.job.id for active in state.jobs]
        return {name: tuple(turn[name]) for name in names if name in turn}

    forks = any(len(placements) > 1 for turn in turns for placements in turn.values())
    return Scripted(decide, forks=forks)


class FirstFit(RoundPolicy):
    """Runs jobs in order on the first type that has room and on which they can run."""

    name = "first-fit"

    def decide(self, state):
        free = FreeGpus(state.servers)
        decision = {}
        for active in state.jobs:
            for gpu_type in state.gpu_types:
                placement = free.of_one_type(gpu_type.name, active.job.gang)
                if placement and active.job.rate_of(placement) > 0:
                    free.take(placement)
                    decision[active.job.id] = (placement,)
                    break
        return decision


def run_rule(rule, workload, cluster, rounds, *, plan=None, observers=()):
    """Run a workload under a rule, which borrows servers where there is a plan."""
    reclaimer = None if plan is None else "exact"
    policy = RoundByRound(rule, reclaimer=reclaimer)
    return Kernel(workload, cluster, policy, tenure=rounds, plan=plan, observers=observers).run()


def simulate(jobs, cluster, policy=None, *, observers=(), **rounds):
    """Run jobs, in rounds of 10 s without any cost unless told otherwise."""
    workload = workload_of(*map(Job.of_gang, jobs))
    tenure = replace(FREE_ROUNDS, **rounds)
    return run_rule(policy or FirstFit(), workload, cluster, tenure, observers=observers)
