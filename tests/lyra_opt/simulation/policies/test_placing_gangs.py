"""Rules that say who starts where: on leases by hand, on every small cluster, and captured."""

from dataclasses import replace
from fractions import Fraction

import pytest

import lyra_opt as lo
from lyra_opt.instances.network.jobs import dally_batch
from lyra_opt.network.checker import check, value_of
from lyra_opt.network.heuristics.delay_scheduling import AutoTuner, DelayScheduling
from lyra_opt.network.heuristics.policy_solver import (
    PLACEMENT_POLICIES,
    Epoch,
    solution_of,
    state_of,
)
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.cluster import GpuType
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.policies.placing_gangs import (
    PlacingGangs,
    instance_of,
    network_sensitivity,
)
from lyra_opt.simulation.series import CaptureObserver
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.view import PolicyError
from tests.lyra_opt.network.heuristics.cases import gang, state_for
from tests.lyra_opt.simulation.on_racks import (
    FirstGpus,
    Repeating,
    Scripted,
    cluster_of,
    job,
    linked,
    run_rule,
    simulate,
)
from tests.lyra_opt.simulation.replays import completions, lending, workload_of


def test_one_decision_an_instant():
    """Jobs of one moment are offered together, and again only when something changes."""
    seen = []

    def watch(state):
        seen.append((state.now_s, list(state.waiting.ids)))
        return {name: {0: 1} for name in list(state.waiting.ids)[:1]}

    simulate([job("x", 10), job("y", 10), job("z", 10, submit_s=3)], policy=Scripted(watch))
    assert seen == [(0, ["x", "y"]), (3, ["y", "z"]), (10, ["z"])]


def test_states():
    """A policy sees scores, waits and what is left, as they are at the decision."""
    seen = []

    class Watching(FirstGpus):
        def decide(self, state):
            seen.append(state)
            return super().decide(state)

    simulate([job("x", 40, gang=4), job("y", 50, gang=8)], None, Watching(), hand_over_s_per_gpu=1)
    names = ("score", "waiting_s", "remaining_s", "attained_gpu_s", "weight")
    found = [
        (state.now_s, list(state.waiting.ids[:]), *(getattr(state.waiting, n) for n in names))
        for state in seen
    ]
    assert seen[0].waiting.efficiency.tolist() == [[0, 0.5, 0.25], [0, 0, 0.25]]
    approx = pytest.approx
    assert found == [
        (
            0,
            ["x", "y"],
            approx([0, 0]),
            approx([0, 0]),
            approx([40, 50]),
            approx([0, 0]),
            approx(1),
        ),
        (84, ["y"], approx([0]), approx([84]), approx([50]), approx([0]), approx([1])),
        (192, ["y"], approx([0.25]), approx([8]), approx([25]), approx([800]), approx([1])),
    ]


def patient(wait_s, gpus):
    """Return a rule that starts the first gang when it has waited so long, and asks for that."""
    return Scripted(
        lambda state: {state.waiting.ids[0]: gpus} if state.waiting.waiting_s[0] >= wait_s else {},
        next_decision_s=lambda state: wait_s - state.waiting.waiting_s[0],
    )


def test_a_timer_runs_out():
    """A gang that was refused beside idle GPUs starts when the policy said it would ask."""
    simulation = simulate([job("x", 60, gang=2, submit_s=5)], policy=patient(30, {0: 1, 1: 1}))
    (run,) = simulation.runs
    assert run.start_s == 35
    # 50 are done in a lease of 100 s at efficiency 1/2; then it waits for another 30 s.
    assert (run.completion_s, run.queued_s) == (35 + 100 + 30 + 20, 60)
    assert simulation.totals.decisions == 4


def test_late_timers():
    """A timer too short to be added to the time is still over in the end."""
    (run,) = simulate([job("x", 50, submit_s=1e9)], policy=patient(0.1, {0: 1})).runs
    assert run.start_s == pytest.approx(1e9 + 0.1)


def test_who_is_called_back_goes_on_elsewhere():
    """It keeps what it did; the other types of GPUs have rules of their own."""
    half = GpuType(name="half", relative_speed=0.5)
    cluster = cluster_of(1, 1, 2).with_lent(1, gpus_per_server=2, gpu_type=half)
    jobs = job("x", 70, gang=2), replace(job("y", 80, gang=2, submit_s=10), fungible=True)
    made = []

    def make():
        made.append(FirstGpus())
        return made[-1]

    simulation = Kernel(
        workload_of(*jobs),
        cluster,
        PlacingGangs(make, reclaimer="exact"),
        tenure=Leases(lease_s=100.0, hand_over_s_per_gpu=1.0),
        plan=lending(1, 0, interval_s=60.0),
    ).run()
    assert len(made) == 2
    # 50 s at half speed; x has handed its GPUs over by 72 s, and 55 s are left.
    assert completions(simulation) == [70, 72 + 55]
    y = simulation.runs[1]
    assert (y.start_s, y.queued_s, y.preemptions, y.losses) == (10, 12, 1, 1)
    assert y.ran_on_loan
    require_conserved(simulation)


def test_leases_in_which_nothing_is_done():
    """Beside a time so large, a lease does not end later than it began; that is said."""
    slow = cluster_of(slowdowns=(1e9, 1e9, 1e9))
    with pytest.raises(PolicyError, match="job x makes no progress in a lease of 1 s"):
        simulate([job("x", 1e11, gang=8)], slow, lease_s=1.0)


# Leases of the last gang are skipped where they are all alike.


def test_skipping_leases_is_worth_it():
    """A gang with a million leases to go is asked about a few times."""
    jobs = [job("x", 3e8, gang=8, submit_s=5)]
    simulation = simulate(jobs, policy=Repeating(), hand_over_s_per_gpu=1.0)
    (run,) = simulation.runs
    leases = 3e8 * 4 / 100
    assert run.allocations == simulation.totals.decisions == leases
    assert run.completion_s == pytest.approx(5 + 1.2e9 + 8 * (leases - 1), rel=1e-12)
    assert len(simulation.totals.decision_s) < 10


def test_ends_of_the_scale():
    """Never run is 0 and comes first; never slowed is 1, rounding aside."""
    assert network_sensitivity(done_share=0.0, running_s=0.0, ideal_s=5.0) == 0.0
    assert network_sensitivity(done_share=0.3, running_s=3.0, ideal_s=10.0) == 0.9 + 0.1
    assert network_sensitivity(done_share=0.1, running_s=10.0, ideal_s=10.0) == 0.1
    assert network_sensitivity(done_share=1.0, running_s=9.999999, ideal_s=10.0) == 1.0


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@pytest.mark.parametrize("links", LINK_SETS)
def test_nobody_waits_for_a_tier_that_cannot_be(name, links):
    """A machine of 8 GPUs is the largest rack; the rack of two machines does not hold the gang."""
    racks = (Rack(machines=1, gpus_per_machine=8), Rack(machines=2, gpus_per_machine=2))
    cluster = linked(Topology(name="odd", racks=racks), links)
    for model in cluster.communication.models():
        jobs = workload_of(job("j0", 9000, gang=8, model=model))
        (run,) = run_rule(PLACEMENT_POLICIES[name](), jobs, cluster).runs
        assert run.start_s == 0


def test_a_gang_that_started_far_apart_moves_later():
    """Six GPUs over two racks, beside a rack of three machines: it moves as the next job comes.

    In the instant in which it starts, that would be a lease of no time.
    """
    racks = (Rack(machines=1, gpus_per_machine=4), Rack(machines=3, gpus_per_machine=4))
    cluster = linked(Topology(name="odd", racks=racks))
    large = job("j0", 2000, gang=6, model="resnet50")
    small = job("j1", 10, submit_s=100, model="resnet50")
    for jobs, by_tier in (((large,), [0, 0, 1]), ((large, small), [0, 1, 1])):
        rule = PLACEMENT_POLICIES["gandiva-affinity"]()
        first = run_rule(rule, workload_of(*jobs), cluster).runs[0]
        assert (first.allocations_by_tier, first.migrations) == (by_tier, len(jobs) - 1)


class WatchedDally(DelayScheduling):
    """Dally, which keeps what it decides on, and what it decides."""

    def __init__(self):
        super().__init__("dally", AutoTuner())
        self.found = []

    def decide(self, state):
        """Decide as Dally does."""
        if len(state.waiting) < 2:
            return super().decide(state)
        instance = instance_of(state, name="decision", timers_s=self.held_s(state))
        grants = super().decide(state)
        epoch = Epoch(state=state, machine_order=range(len(instance.machines)))
        self.found.append((instance, solution_of(instance, epoch, grants)))
        return grants


@pytest.fixture(scope="module")
def decisions():
    """What is decided on 30 jobs, on 32 GPUs in two racks; it is what an observer is given."""
    captured = []
    dally = WatchedDally()
    cluster = linked(Topology.uniform(racks=2, machines_per_rack=2), "congested-2")
    jobs = [each for each in dally_batch(seed=1, jobs=30).jobs if each.min_gpus <= cluster.gpus]
    observer = CaptureObserver(lambda _, found: captured.append(found), frozenset({"network"}))
    run_rule(dally, workload_of(*jobs), cluster, observers=[observer])
    several = [decision.jobs for decision in captured if len(decision.jobs) > 1]
    assert several == [instance.jobs for instance, _ in dally.found]
    return dally.found


def test_dally_decides_by_itself_as_it_did_in_the_run(decisions):
    """With the timers of the moment in the instance its decision is worth the same."""
    held = [instance for instance, _ in decisions if any(job.rack_timer_s for job in instance.jobs)]
    assert len(held) > 10
    for instance, taken in decisions:
        alone = lo.solve(instance, "dally")
        assert alone.objective == pytest.approx(check(instance, taken).objective)


def test_instance_of_a_state_and_back(decisions):
    """No number is lost on the way, timers among them."""
    for instance, _ in decisions:
        assert instance_of(state_of(instance).state, name="decision") == instance


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.5])
def test_gangs_on_gpus_of_any_speed_are_worth_what_they_are(pace):
    """Weight times what it computes, and time over what it computes, also where that is above 1."""
    state = state_for([[8, 8]], gang(4, weight=3.0, remaining_s=600.0))
    waiting = replace(state.waiting, efficiency=state.waiting.efficiency * pace)
    instance = instance_of(replace(state, waiting=waiting), name="fast")
    (job,) = instance.jobs
    waits = 1 + Fraction(instance.waiting_weight_per_s) * Fraction(job.waiting_s)
    for tier in (Tier.MACHINE, Tier.RACK):
        efficiency = float(waiting.efficiency[0, tier])
        worth = float(value_of(instance, job, tier))
        assert worth == pytest.approx(3.0 * 4 * efficiency * float(waits))
        assert job.remaining_s / job.efficiency[tier.label] == pytest.approx(600 / efficiency)
