"""Small racks, gangs and rules that say who starts where."""

from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.communication import ClosedForm, SlowdownTable
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.placing_gangs import PlacingGangs
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.topology import Topology
from lyra_opt.simulation.workload import Job
from tests.lyra_opt.simulation.replays import workload_of

SLOWDOWN_OF_TIER = (1.0, 2.0, 4.0)
"""Efficiency 1, 1/2 and 1/4, so that times are whole seconds."""


def cluster_of(
    racks=2, machines_per_rack=2, gpus_per_machine=2, *, slowdowns=SLOWDOWN_OF_TIER, models=("m",)
):
    """Return equal racks in which models are slowed so much at each tier."""
    topology = Topology.uniform(
        racks=racks, machines_per_rack=machines_per_rack, gpus_per_machine=gpus_per_machine
    )
    table = slowdowns_of(slowdowns, models=models, most=topology.gpus)
    return Cluster.of_racks(topology, table, network="table")


def slowdowns_of(slowdowns, *, models=("m",), most=8):
    """Return a table by which gangs of models are slowed so much at each tier."""
    by_tier = dict(zip(Tier, slowdowns, strict=True))
    gangs = range(1, most + 1)
    return SlowdownTable(
        {(model, gang, tier): by_tier[tier] for model in models for gang in gangs for tier in Tier}
    )


def linked(topology, links="shipped"):
    """Return a cluster on a set of links."""
    return Cluster.of_racks(topology, ClosedForm(links=LINK_SETS[links]), network=links)


def job(name, duration_s, *, gang=1, submit_s=0.0, model="m"):
    """Return a job that runs so long where the network costs nothing."""
    return Job.rigid(
        id=name, submit_s=submit_s, gpus=gang, work_gpu_s=duration_s * gang, model=model
    )


class FirstGpus(PlacementPolicy):
    """Gives gangs the first GPUs that are free, by score, then in order of submission."""

    name = "first-gpus"

    def decide(self, state):
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


class Repeating(FirstGpus):
    """The same rule, of which it is known that it repeats itself."""

    repeats_itself = True


class Scripted(PlacementPolicy):
    """Decides by functions of the state."""

    name = "scripted"

    def __init__(self, decide, *, migrate=None, next_decision_s=None):
        self._decide, self._migrate, self._next = decide, migrate, next_decision_s

    def decide(self, state):
        chosen = self._decide(state)
        return grants_of(state, state.waiting.ids, chosen)

    def migrate(self, state, running):
        chosen = {} if self._migrate is None else self._migrate(state, running)
        return grants_of(state, running.ids, chosen)

    def next_decision_s(self, state):
        return super().next_decision_s(state) if self._next is None else self._next(state)


def placed(places, moves=()):
    """Return a rule that starts gangs on GPUs of a table, and moves them at the times of another.

    It checks that what it is told of running gangs is what it granted them.
    """
    left, held = list(moves), {}

    def decide(state):
        started = {name: places[name] for name in state.waiting.ids if name in places}
        held.update(started)
        return started

    def migrate(state, running):
        granted = {name: held[name] for name in running.ids}
        assert dict(zip(running.ids, running.placements, strict=True)) == granted
        labels = [grant.tier for grant in grants_of(state, running.ids, granted)]
        assert list(running.tier) == labels
        assert list(running.gang) == [sum(gpus.values()) for gpus in granted.values()]
        if not left or left[0][0] > state.now_s:
            return {}
        _, name, gpus = left.pop(0)
        held[name] = gpus
        return {name: gpus}

    return Scripted(decide, migrate=migrate)


def first_free(free, gang):
    """Return the first GPUs of those that are free, by machine, and take them."""
    gpus = {}
    for machine, count in enumerate(free):
        taken = min(count, gang)
        if taken:
            gpus[machine] = taken
            free[machine] -= taken
            gang -= taken
    return gpus


def grant_of(state, job, gpus):
    """Return a grant with the right label."""
    starts = state.machines.first_machine_of_rack.tolist()
    racks = {sum(start <= machine for start in starts) for machine in gpus}
    spanned = Tier.MACHINE if len(gpus) == 1 else Tier.RACK if len(racks) == 1 else Tier.NETWORK
    return Grant(job, spanned, gpus)


def grants_of(state, ids, chosen):
    """Return the grants of gangs by name."""
    places = list(ids)
    return [grant_of(state, places.index(name), gpus) for name, gpus in chosen.items()]


def run_rule(rule, workload, cluster, leases=None, *, observers=()):
    """Run a workload under a rule, on leases of an hour unless told otherwise."""
    policy = PlacingGangs(lambda: rule, reclaimer=None)
    tenure = leases or Leases()
    return Kernel(workload, cluster, policy, tenure=tenure, observers=observers).run()


def simulate(
    jobs, cluster=None, policy=None, lease_s=100.0, hand_over_s_per_gpu=0.0, *, observers=()
):
    """Run jobs, on leases of 100 s handed over in no time unless told otherwise."""
    return run_rule(
        policy or FirstGpus(),
        workload_of(*jobs),
        cluster or cluster_of(),
        Leases(lease_s=lease_s, hand_over_s_per_gpu=hand_over_s_per_gpu),
        observers=observers,
    )


def span_of(topology, machines, gang):
    """Return the tier that a gang spans, and how many GPUs, machines or racks of it."""
    places = set(machines)
    racks = {int(topology.rack_of_machine[machine]) for machine in places}
    if len(places) == 1:
        return Tier.MACHINE, gang
    return (Tier.RACK, len(places)) if len(racks) == 1 else (Tier.NETWORK, len(racks))
