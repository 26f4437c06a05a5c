"""What holds of every placement policy on every small cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from lyra_opt.network.communication import ClosedForm
from lyra_opt.network.dally import consolidated, manual, no_wait
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.network.policies import PLACEMENT_POLICIES, SUMMARIES
from lyra_opt.network.policy import PlacementPolicy
from lyra_opt.network.topology import Rack, Topology
from lyra_opt.simulation.leases.engine import LeaseSimulation
from lyra_opt.simulation.leases.metrics import measure_network, require_leases_conserved
from lyra_opt.simulation.leases.setup import (
    LeaseOptions,
    NetworkCluster,
    NetworkJob,
    NetworkWorkload,
)
from tests.lyra_opt.simulation.leases.drawn import cases

if TYPE_CHECKING:
    from lyra_opt.network.policy import Grant, MachineState, PlacementState, RunningGangs

    Case = tuple[NetworkWorkload, NetworkCluster, LeaseOptions]


class Watched(PlacementPolicy):
    """Another policy, whose states are held to what is always true of them."""

    def __init__(self, policy: PlacementPolicy, cluster: NetworkCluster) -> None:
        self.policy, self.cluster = policy, cluster
        self.name = policy.name
        self.latest_s = -1.0
        self.left: dict[str, float] = {}
        self.affinity: np.ndarray | None = None

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:
        assert (machines.free_gpus == machines.gpus).all()
        self.policy.prepare(machines, lease_s, rng)

    def check(self, state: PlacementState) -> None:
        waiting, machines = state.waiting, state.machines
        assert state.now_s >= self.latest_s
        self.latest_s = state.now_s
        assert (machines.free_gpus >= 0).all()
        assert (machines.free_gpus <= machines.gpus).all()
        assert len(waiting) == len(waiting.ids) == len(set(waiting.ids))
        orders = [int(name[1:]) for name in waiting.ids]
        assert orders == sorted(orders)
        for name in ("score", "waiting_s", "weight", "remaining_s", "attained_gpu_s"):
            assert getattr(waiting, name).shape == (len(waiting),)
        assert waiting.efficiency.shape == (len(waiting), len(Tier))
        assert ((waiting.score >= 0) & (waiting.score <= 1)).all()
        assert (waiting.waiting_s >= 0).all()
        assert ((waiting.attained_gpu_s > 0) >= (waiting.score > 0)).all()
        for name, left_s in zip(waiting.ids, waiting.remaining_s, strict=True):
            assert 0 < left_s <= self.left.get(name, math.inf)
            self.left[name] = left_s

    def decide(self, state: PlacementState) -> list[Grant]:
        self.check(state)
        assert state.waiting.gang.min() <= state.machines.free_gpus.sum()
        before = state.machines.free_gpus.copy()
        grants = self.policy.decide(state)
        assert (before == state.machines.free_gpus).all(), "states are not changed"
        return grants

    def next_decision_s(self, state: PlacementState) -> float:
        self.check(state)
        wait_s = self.policy.next_decision_s(state)
        assert wait_s >= 0
        return wait_s

    def migrate(self, state: PlacementState, running: RunningGangs) -> list[Grant]:
        self.check(state)
        held = np.zeros_like(state.machines.gpus)
        topology = self.cluster.topology
        for gang, tier, gpus in zip(running.gang, running.tier, running.placements, strict=True):
            assert sum(gpus.values()) == gang
            assert topology.tier_of(gpus) == tier
            for machine, count in gpus.items():
                held[machine] += count
        assert (held + state.machines.free_gpus <= state.machines.gpus).all()
        return self.policy.migrate(state, running)


def simulate(policy: PlacementPolicy, case: Case) -> LeaseSimulation:
    workload, cluster, options = case
    return LeaseSimulation(workload, cluster, policy, options=options).run()


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@settings(max_examples=20)
@given(case=cases())
def test_every_run_is_sound(name: str, case: Case) -> None:
    """All jobs complete, nothing is lost or given twice, and states are what they should be."""
    workload, cluster, options = case
    simulation = simulate(Watched(PLACEMENT_POLICIES[name](), cluster), case)
    require_leases_conserved(simulation.record)
    metrics = measure_network(simulation.record)
    assert metrics.finished == metrics.jobs == len(workload.jobs)
    assert 0 < metrics.computing_usage <= metrics.gpu_usage * (1 + 1e-9) <= 1 + 1e-6
    assert 0 <= metrics.communication_share < 1
    assert 0 <= metrics.fragmented_machines_mean <= 1
    assert 0 <= metrics.stranded_share <= 1 + 1e-9
    assert metrics.preemptions <= metrics.lease_losses <= metrics.allocations
    assert metrics.queue_mean_s <= metrics.jct_mean_s
    handed_over_gpu_s = 0.0
    for run in simulation.runs:
        job = run.job
        assert run.lease_losses < run.leases == sum(run.leases_by_tier)
        assert run.leases <= 1 + run.lease_losses + run.migrations
        best = max(cluster.communication.tier_efficiency(job.model, job.gang, cluster.topology))
        assert run.running_s >= job.ideal_s / best * (1 - 1e-9)
        assert run.started_s >= job.submit_s
        handed_over_gpu_s += run.leases * options.hand_over_s_per_gpu * job.gang**2
        lowest = cluster.topology.lowest_tier(job.gang)
        assert not any(run.leases_by_tier[:lowest])
    assert simulation.totals.handed_over_gpu_s <= handed_over_gpu_s * (1 + 1e-9)
    times_s = [row[0] for row in simulation.totals.series.rows]
    assert times_s == sorted(times_s)


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@pytest.mark.parametrize("links", LINK_SETS)
def test_nobody_waits_for_a_tier_that_cannot_be(name: str, links: str) -> None:
    """A machine of 8 GPUs is the largest rack; the rack of two machines does not hold the gang."""
    racks = (Rack(machines=1, gpus_per_machine=8), Rack(machines=2, gpus_per_machine=2))
    cluster = NetworkCluster(
        topology=Topology(name="odd", racks=racks),
        communication=ClosedForm(links=LINK_SETS[links]),
        network=links,
    )
    for model in cluster.communication.models():
        job = NetworkJob(id="j0", submit_s=0, gang=8, work_gpu_s=8 * 9000, model=model)
        workload = NetworkWorkload(name="alone", jobs=(job,))
        (run,) = simulate(PLACEMENT_POLICIES[name](), (workload, cluster, LeaseOptions())).runs
        assert run.started_s == 0


class Noted(LeaseSimulation):
    """Takes note of how long each lease is held."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.held_s: list[float] = []

    def _release(self, lease: Any) -> float:
        self.held_s.append(self.now_s - lease.began_s)
        return super()._release(lease)


@settings(max_examples=20)
@given(case=cases())
def test_no_gang_moves_in_the_instant_in_which_it_starts(case: Case) -> None:
    """That would be a lease of no time, and GPUs handed over for nothing."""
    workload, cluster, options = case
    policy = PLACEMENT_POLICIES["gandiva-affinity"]()
    simulation = Noted(workload, cluster, policy, options=options).run()
    assert min(simulation.held_s) > 0
    assert len(simulation.held_s) <= sum(run.leases for run in simulation.runs)


def test_a_gang_that_started_far_apart_moves_later() -> None:
    """Six GPUs over two racks, beside a rack of three machines: it moves as the next job comes."""
    racks = (Rack(machines=1, gpus_per_machine=4), Rack(machines=3, gpus_per_machine=4))
    cluster = NetworkCluster(topology=Topology(name="odd", racks=racks))
    large = NetworkJob(id="j0", submit_s=0, gang=6, work_gpu_s=6 * 2000, model="resnet50")
    small = NetworkJob(id="j1", submit_s=100, gang=1, work_gpu_s=10, model="resnet50")
    for jobs, leases_by_tier in (((large,), [0, 0, 1]), ((large, small), [0, 1, 1])):
        simulation = Noted(
            NetworkWorkload(name="large", jobs=jobs),
            cluster,
            PLACEMENT_POLICIES["gandiva-affinity"](),
        ).run()
        first = simulation.runs[0]
        assert first.leases_by_tier == leases_by_tier
        assert first.migrations == len(jobs) - 1
        assert simulation.held_s[0] > 0


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@settings(max_examples=10)
@given(case=cases())
def test_same_seed_same_run(name: str, case: Case) -> None:
    """Figures are equal but for wall times, and so is every row of the series."""
    first, second = (simulate(PLACEMENT_POLICIES[name](), case) for _ in range(2))
    assert measure_network(first.record) == measure_network(second.record)
    assert first.totals.series.rows == second.totals.series.rows


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@settings(max_examples=10)
@given(case=cases())
def test_what_is_skipped_is_not_missed(name: str, case: Case) -> None:
    """Policies that say that they repeat themselves do: skipping leases changes no figure."""
    skipping, watched = PLACEMENT_POLICIES[name](), Watched(PLACEMENT_POLICIES[name](), case[1])
    first, second = simulate(skipping, case), simulate(watched, case)
    for run, other in zip(first.runs, second.runs, strict=True):
        assert run.completion_s == pytest.approx(other.completion_s, rel=1e-9)
        assert run.queued_s == pytest.approx(other.queued_s, rel=1e-9, abs=1e-9)
        assert run.leases_by_tier == other.leases_by_tier


@pytest.mark.parametrize(
    ("leases", "other"), [(0.0, no_wait), (math.inf, consolidated)], ids=["zero", "for ever"]
)
@settings(max_examples=20)
@given(case=cases())
def test_timers_of_dally(leases: float, other: type[PlacementPolicy], case: Case) -> None:
    """Timers of 0 are no-wait and infinite ones consolidated, on every figure."""
    first, second = simulate(manual(leases, leases), case), simulate(other(), case)
    assert measure_network(first.record) == measure_network(second.record)


@settings(max_examples=20)
@given(case=cases())
def test_consolidated_stays_at_the_nearest_tier(case: Case) -> None:
    """With infinite timers no gang spans more than the least that the empty cluster allows."""
    topology = case[1].topology
    for run in simulate(consolidated(), case).runs:
        lowest = topology.lowest_tier(run.job.gang)
        assert run.leases == run.leases_by_tier[lowest]


def test_every_policy_has_a_summary() -> None:
    """The command line prints a line on each."""
    assert SUMMARIES.keys() == PLACEMENT_POLICIES.keys()
