"""What holds of every placement rule on every small cluster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings

from lyra_opt.network.heuristics.dally import consolidated, manual, no_wait
from lyra_opt.network.heuristics.policies import PLACEMENT_POLICIES, SUMMARIES
from lyra_opt.network.heuristics.policy import PlacementPolicy
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.network.topology import Rack, Topology
from lyra_opt.simulation.policies.placing_gangs import PlacingGangs
from lyra_opt.simulation.series import SeriesObserver
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation.books import Books, rows_of
from tests.lyra_opt.simulation.on_racks import cases, linked, run_rule

if TYPE_CHECKING:
    from lyra_opt.network.heuristics.policy import Grant, MachineState, PlacementState, RunningGangs
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.view import Observer, View
    from tests.lyra_opt.simulation.on_racks import Case


class Watched(PlacementPolicy):
    """Another policy, whose states are held to what is always true of them."""

    def __init__(self, policy: PlacementPolicy, cluster: Cluster) -> None:
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
        assert topology is not None
        for gang, tier, gpus in zip(running.gang, running.tier, running.placements, strict=True):
            assert sum(gpus.values()) == gang
            assert topology.tier_of(gpus) == tier
            for machine, count in gpus.items():
                held[machine] += count
        assert (held + state.machines.free_gpus <= state.machines.gpus).all()
        return self.policy.migrate(state, running)


def simulate(rule: PlacementPolicy, case: Case, *observers: Observer) -> Kernel:
    workload, cluster, leases = case
    return run_rule(rule, workload, cluster, leases, observers=observers)


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@settings(max_examples=20)
@given(case=cases())
def test_every_run_is_sound(name: str, case: Case) -> None:
    """All jobs complete, nothing is lost or given twice, and states are what they should be."""
    workload, cluster, leases = case
    topology, communication = cluster.topology, cluster.communication
    assert topology is not None
    assert communication is not None
    books = Books()
    simulation = simulate(Watched(PLACEMENT_POLICIES[name](), cluster), case, books)
    books.require_same(simulation)
    require_conserved(simulation)
    metrics = measure(simulation)
    assert metrics.finished == metrics.jobs == len(workload.jobs)
    assert 0 < metrics.computing_usage <= metrics.gpu_usage * (1 + 1e-9) <= 1 + 1e-6
    assert 0 <= metrics.communication_share < 1
    assert metrics.fragmented_machines_mean is not None
    assert 0 <= metrics.fragmented_machines_mean <= 1
    assert metrics.stranded_share is not None
    assert 0 <= metrics.stranded_share <= 1 + 1e-9
    assert metrics.preemptions <= metrics.losses <= metrics.allocations
    assert metrics.queue_mean_s <= metrics.jct_mean_s
    handed_over_gpu_s = 0.0
    for run in simulation.runs:
        job = run.job
        assert run.losses < run.allocations == sum(run.allocations_by_tier)
        assert run.allocations <= 1 + run.losses + run.migrations
        assert job.model is not None
        best = max(communication.tier_efficiency(job.model, job.min_gpus, topology))
        assert run.running_s >= job.duration_s / best * (1 - 1e-9)
        assert run.done_gpu_s == pytest.approx(job.work_worker_s)
        assert run.start_s >= job.submit_s
        handed_over_gpu_s += run.allocations * leases.hand_over_s_per_gpu * job.min_gpus**2
        lowest = topology.lowest_tier(job.min_gpus)
        assert not any(run.allocations_by_tier[:lowest])
    assert simulation.totals.handed_over_gpu_s <= handed_over_gpu_s * (1 + 1e-9)


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@pytest.mark.parametrize("links", LINK_SETS)
def test_nobody_waits_for_a_tier_that_cannot_be(name: str, links: str) -> None:
    """A machine of 8 GPUs is the largest rack; the rack of two machines does not hold the gang."""
    racks = (Rack(machines=1, gpus_per_machine=8), Rack(machines=2, gpus_per_machine=2))
    cluster = linked(Topology(name="odd", racks=racks), links)
    assert cluster.communication is not None
    for model in cluster.communication.models():
        job = Job.rigid(id="j0", submit_s=0, gpus=8, work_gpu_s=8 * 9000, model=model)
        workload = Workload(name="alone", jobs=(job,))
        (run,) = simulate(PLACEMENT_POLICIES[name](), (workload, cluster, Leases())).runs
        assert run.start_s == 0


@settings(max_examples=20)
@given(case=cases())
def test_no_gang_moves_in_the_instant_in_which_it_starts(case: Case) -> None:
    """That would be a lease of no time, and GPUs handed over for nothing."""
    held_s, simulation = noted(*case)
    assert min(held_s) > 0
    assert len(held_s) <= sum(run.allocations for run in simulation.runs)


def noted(workload: Workload, cluster: Cluster, leases: Leases) -> tuple[list[float], Kernel]:
    """Return for how long each lease is held under a rule that moves gangs, and the run."""
    held_s: list[float] = []

    class Noting(PlacingGangs):
        def gives_back(self, view: View, run: Run) -> None:
            held_s.append(view.now_s - run.began_s)
            super().gives_back(view, run)

    policy = Noting(PLACEMENT_POLICIES["gandiva-affinity"], reclaimer=None)
    return held_s, Kernel(workload, cluster, policy, tenure=leases).run()


def test_a_gang_that_started_far_apart_moves_later() -> None:
    """Six GPUs over two racks, beside a rack of three machines: it moves as the next job comes."""
    racks = (Rack(machines=1, gpus_per_machine=4), Rack(machines=3, gpus_per_machine=4))
    cluster = linked(Topology(name="odd", racks=racks))
    large = Job.rigid(id="j0", submit_s=0, gpus=6, work_gpu_s=6 * 2000, model="resnet50")
    small = Job.rigid(id="j1", submit_s=100, gpus=1, work_gpu_s=10, model="resnet50")
    for jobs, by_tier in (((large,), [0, 0, 1]), ((large, small), [0, 1, 1])):
        held_s, simulation = noted(Workload(name="large", jobs=jobs), cluster, Leases())
        first = simulation.runs[0]
        assert first.allocations_by_tier == by_tier
        assert first.migrations == len(jobs) - 1
        assert held_s[0] > 0


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@settings(max_examples=10)
@given(case=cases())
def test_same_seed_same_run(name: str, case: Case) -> None:
    """Figures are equal but for wall times, and so is every row of the series."""
    observers = SeriesObserver(), SeriesObserver()
    first, second = (simulate(PLACEMENT_POLICIES[name](), case, observer) for observer in observers)
    assert measure(first) == measure(second)
    assert np.array_equal(*(rows_of(observer.series) for observer in observers))


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
        assert run.allocations_by_tier == other.allocations_by_tier


@pytest.mark.parametrize(
    ("leases", "other"), [(0.0, no_wait), (math.inf, consolidated)], ids=["zero", "for ever"]
)
@settings(max_examples=20)
@given(case=cases())
def test_timers_of_dally(leases: float, other: type[PlacementPolicy], case: Case) -> None:
    """Timers of 0 are no-wait and infinite ones consolidated, on every figure."""
    first, second = simulate(manual(leases, leases), case), simulate(other(), case)
    assert measure(first) == measure(second)


@settings(max_examples=20)
@given(case=cases())
def test_consolidated_stays_at_the_nearest_tier(case: Case) -> None:
    """With infinite timers no gang spans more than the least that the empty cluster allows."""
    topology = case[1].topology
    assert topology is not None
    for run in simulate(consolidated(), case).runs:
        lowest = topology.lowest_tier(run.job.min_gpus)
        assert run.allocations == run.allocations_by_tier[lowest]


def test_every_policy_has_a_summary() -> None:
    """The command line prints a line on each."""
    assert SUMMARIES.keys() == PLACEMENT_POLICIES.keys()
