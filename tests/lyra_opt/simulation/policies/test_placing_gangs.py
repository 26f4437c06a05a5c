"""Rules that say who starts where: on leases by hand, on every small cluster, and captured."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.problem import find_problem
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.instances.network.jobs import dally_batch
from lyra_opt.network.checker import check, value_of
from lyra_opt.network.heuristics.delay_scheduling import (
    AutoTuner,
    DelayScheduling,
    consolidated,
    manual,
    no_wait,
)
from lyra_opt.network.heuristics.policy_solver import (
    PLACEMENT_POLICIES,
    SUMMARIES,
    Epoch,
    solution_of,
    state_of,
)
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan
from lyra_opt.simulation.communication import ClosedForm
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.policies.placing_gangs import (
    PlacingGangs,
    instance_of,
    network_sensitivity,
)
from lyra_opt.simulation.series import CaptureObserver
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.view import PolicyError
from lyra_opt.simulation.workload import Job, Workload
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import gang, state_for
from tests.lyra_opt.simulation.on_racks import (
    FirstGpus,
    Repeating,
    Scripted,
    cases,
    cluster_of,
    job,
    linked,
    run_rule,
    simulate,
)

if TYPE_CHECKING:
    from lyra_opt.network.heuristics.policy import (
        Grant,
        PlacementPolicy,
        PlacementState,
        RunningGangs,
    )
    from lyra_opt.network.instance import Instance, Solution
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.view import Observer, View
    from tests.lyra_opt.simulation.on_racks import Case


class TestByHand:
    """Schedules that are quickly drawn."""

    def test_one_decision_an_instant(self):
        """Jobs of one moment are offered together, and again only when something changes."""
        seen: list[tuple[float, list[str]]] = []

        def watch(state: PlacementState) -> dict[str, dict[int, int]]:
            seen.append((state.now_s, list(state.waiting.ids)))
            return {name: {0: 1} for name in list(state.waiting.ids)[:1]}

        simulate([job("x", 10), job("y", 10), job("z", 10, submit_s=3)], policy=Scripted(watch))
        assert seen == [(0, ["x", "y"]), (3, ["y", "z"]), (10, ["z"])]

    def test_states(self):
        """A policy sees scores, waits and what is left, as they are at the decision."""
        seen: list[PlacementState] = []

        class Watching(FirstGpus):
            def decide(self, state: PlacementState) -> list[Grant]:
                seen.append(state)
                return super().decide(state)

        simulate(
            [job("x", 40, gang=4), job("y", 50, gang=8)], policy=Watching(), hand_over_s_per_gpu=1
        )
        assert [state.now_s for state in seen] == [0, 84, 192]
        first, second, third = (state.waiting for state in seen)
        assert list(first.ids) == list(first.ids[:]) == ["x", "y"]
        assert first.efficiency.tolist() == [[0, 0.5, 0.25], [0, 0, 0.25]]
        assert first.score.tolist() == first.waiting_s.tolist() == [0, 0]
        assert second.ids[0] == "y"
        assert second.waiting_s.tolist() == [84]
        assert third.score.tolist() == pytest.approx([0.25])
        assert third.waiting_s.tolist() == [8]
        assert third.remaining_s.tolist() == pytest.approx([25])
        assert third.attained_gpu_s.tolist() == [800]
        assert third.weight.tolist() == [1]


class TestWakeUps:
    """Timers of the policy's own."""

    def test_a_timer_runs_out(self):
        """A gang that was refused beside idle GPUs starts when the policy said it would ask."""

        def patient(state: PlacementState) -> dict[str, dict[int, int]]:
            waited = state.waiting.waiting_s[0]
            return {state.waiting.ids[0]: {0: 1, 1: 1}} if waited >= 30 else {}

        rule = Scripted(patient, next_decision_s=lambda state: 30 - state.waiting.waiting_s[0])
        simulation = simulate([job("x", 60, gang=2, submit_s=5)], policy=rule)
        (run,) = simulation.runs
        assert run.start_s == 35
        # 50 are done in a lease of 100 s at efficiency 1/2; then it waits for another 30 s.
        assert (run.completion_s, run.queued_s) == (35 + 100 + 30 + 20, 60)
        assert simulation.totals.decisions == 4

    def test_late_timers(self):
        """A timer too short to be added to the time is still over in the end."""

        def exact(state: PlacementState) -> dict[str, dict[int, int]]:
            waited = state.waiting.waiting_s[0]
            return {state.waiting.ids[0]: {0: 1}} if waited >= 0.1 else {}

        rule = Scripted(exact, next_decision_s=lambda state: 0.1 - state.waiting.waiting_s[0])
        (run,) = simulate([job("x", 50, submit_s=1e9)], policy=rule).runs
        assert run.start_s == pytest.approx(1e9 + 0.1)


class TestMigration:
    """Gangs that move while they run."""

    def moved(self, *, lease_s: float = 100.0, hand_over_s_per_gpu: float = 0.0) -> Kernel:
        """Return a gang that starts in two machines, and moves into one when another job comes."""

        def start(state: PlacementState) -> dict[str, dict[int, int]]:
            places = {"x": {0: 1, 1: 1}, "y": {3: 1}}
            return {name: places[name] for name in state.waiting.ids}

        def move(state: PlacementState, running: RunningGangs) -> dict[str, dict[int, int]]:
            assert running.placements[0] == ({0: 1, 1: 1} if running.tier[0] else {2: 2})
            assert running.gang[0] == 2
            if state.now_s == 10 and running.tier[0] == Tier.RACK:
                return {"x": {2: 2}}
            return {}

        return simulate(
            [job("x", 50, gang=2), job("y", 8, submit_s=10)],
            policy=Scripted(start, migrate=move),
            lease_s=lease_s,
            hand_over_s_per_gpu=hand_over_s_per_gpu,
        )

    def test_timeline(self):
        """It holds its new GPUs at once, leaves the old ones idle, and computes after both."""
        simulation = self.moved(hand_over_s_per_gpu=1.0)
        first, second = simulation.runs
        assert first.completion_s == 10 + 2 + 45
        assert second.completion_s == 18
        assert (first.running_s, first.held_gpu_s, first.queued_s) == (55, 2 * 57, 0)
        assert (first.migrations, first.allocations, first.preemptions) == (1, 2, 0)
        assert (first.restarts, first.restarting_s) == (1, 2)
        assert first.allocations_by_tier == [1, 1, 0]
        assert first.gpu_s_by_tier == [2 * 47, 2 * 10, 0]
        assert simulation.totals.handed_over_gpu_s == pytest.approx(2 * 2 + 1)
        require_conserved(simulation)

    def test_a_new_lease(self):
        """The lease that it was on ends no more; the new one counts from when it computes."""
        (first, _) = self.moved(lease_s=30.0).runs
        assert (first.losses, first.allocations) == (1, 3)
        assert first.completion_s == 10 + 30 + 15 * 2

    def test_a_pause_that_is_cut_short(self):
        """A gang that moves again before it computes has done nothing meanwhile."""
        places = [{2: 2}, {3: 2}]

        def start(state: PlacementState) -> dict[str, dict[int, int]]:
            return {"x": {0: 1, 1: 1}} if "x" in state.waiting.ids else {"y": {0: 1}}

        def move(state: PlacementState, running: RunningGangs) -> dict[str, dict[int, int]]:
            return {"x": places.pop(0)} if state.now_s > 0 and places else {}

        first, _ = simulate(
            [job("x", 50, gang=2), job("y", 8, submit_s=10)],
            policy=Scripted(start, migrate=move),
            hand_over_s_per_gpu=1.0,
        ).runs
        # It moves at 10, and again at 12, when its old GPUs are free.
        assert (first.completion_s, first.running_s, first.migrations) == (12 + 2 + 45, 55, 2)


class TestLoans:
    """Servers that come and go."""

    def test_who_is_called_back_goes_on_elsewhere(self):
        """It keeps what it did; the other types of GPUs have rules of their own."""
        cluster = cluster_of(1, 1, 2).with_lent(
            1, gpus_per_server=2, gpu_type=GpuType(name="half", relative_speed=0.5)
        )
        jobs = job("x", 70, gang=2), replace(job("y", 80, gang=2, submit_s=10), fungible=True)
        made: list[FirstGpus] = []

        def make() -> FirstGpus:
            made.append(FirstGpus())
            return made[-1]

        simulation = Kernel(
            Workload(name="small", jobs=jobs),
            cluster,
            PlacingGangs(make, reclaimer="exact"),
            tenure=Leases(lease_s=100.0, hand_over_s_per_gpu=1.0),
            plan=LoanPlan(interval_s=60.0, on_loan=(1, 0), busy_share=(0.0,)),
        ).run()
        assert len(made) == 2
        first, second = simulation.runs
        assert first.completion_s == 70
        # 50 s at half speed; x has handed its GPUs over by 72 s, and 55 s are left.
        assert (second.start_s, second.completion_s) == (10, 72 + 55)
        assert (second.queued_s, second.preemptions, second.losses) == (12, 1, 1)
        assert second.ran_on_loan
        require_conserved(simulation)


class TestRefusals:
    """What a policy may not do, and what cannot be."""

    def test_leases_in_which_nothing_is_done(self):
        """Beside a time so large, a lease does not end later than it began; that is said."""
        slow = cluster_of(slowdowns=(1e9, 1e9, 1e9))
        with pytest.raises(PolicyError, match="job x makes no progress in a lease of 1 s"):
            simulate([job("x", 1e11, gang=8)], slow, lease_s=1.0)


class TestSkippedLeases:
    """Leases of the last gang are skipped where they are all alike."""

    @given(
        ideal_s=st.floats(1, 3000),
        gang=st.integers(1, 8),
        hand_over=st.sampled_from((0.0, 0.5, 1.0)),
        other_s=st.floats(1, 500),
        submit_s=st.sampled_from((0.0, 7.0, 1234.5)),
    )
    def test_same_as_one_by_one(self, ideal_s, gang, hand_over, other_s, submit_s):
        """Every figure is what it is lease by lease, but for rounding."""
        jobs = [job("x", ideal_s, gang=gang), job("y", other_s, gang=3, submit_s=submit_s)]
        slow, fast = (
            simulate(jobs, policy=rule, hand_over_s_per_gpu=hand_over)
            for rule in (FirstGpus(), Repeating())
        )
        require_conserved(fast)
        for name, value in _figures(slow).items():
            assert _figures(fast)[name] == pytest.approx(value, rel=1e-9, abs=1e-9), name

    def test_it_is_worth_it(self):
        """A gang with a million leases to go is asked about a few times."""
        simulation = simulate(
            [job("x", 3e8, gang=8, submit_s=5)], policy=Repeating(), hand_over_s_per_gpu=1.0
        )
        (run,) = simulation.runs
        leases = 3e8 * 4 / 100
        assert run.allocations == leases
        assert run.completion_s == pytest.approx(5 + 1.2e9 + 8 * (leases - 1), rel=1e-12)
        assert simulation.totals.decisions == leases
        assert len(simulation.totals.decision_s) < 10


def _figures(simulation: Kernel) -> dict[str, float]:
    found: dict[str, float] = {}
    for run in simulation.runs:
        for name in ("completion_s", "queued_s", "running_s", "done_gpu_s", "held_gpu_s"):
            found[f"{run.job.id} {name}"] = getattr(run, name)
        for name in ("allocations", "losses", "preemptions", "restarts", "migrations"):
            found[f"{run.job.id} {name}"] = getattr(run, name)
        for tier in Tier:
            found[f"{run.job.id} allocations {tier}"] = run.allocations_by_tier[tier]
            found[f"{run.job.id} gpu_s {tier}"] = run.gpu_s_by_tier[tier]
    totals = simulation.totals
    for name in ("handed_over_gpu_s", "free_gpu_s", "stranded_gpu_s", "partly_free_host_s"):
        found[name] = getattr(totals, name)
    for name in ("busy_server_s", "distance_gpu_s", "waiting_job_s", "running_job_s", "decisions"):
        found[name] = getattr(totals, name)
    (found["held_gpu_s"],), (found["there_gpu_s"],) = totals.held_gpu_s, totals.there_gpu_s
    return found


pieces = st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.001, 1.0)), min_size=1, max_size=6)


@given(pieces, st.floats(1.0, 1e6))
def test_is_the_work_weighted_harmonic_mean_of_efficiencies(life, ideal_s):
    """A life of shares of the work, each done at an efficiency, in any number of pieces."""
    total = max(1.0, math.fsum(share for share, _ in life))
    shares = [(share / total, efficiency) for share, efficiency in life]
    done = math.fsum(share for share, _ in shares)
    running_s = math.fsum(share * ideal_s / efficiency for share, efficiency in shares)
    mean = done / math.fsum(share / efficiency for share, efficiency in shares)
    found = network_sensitivity(done_share=done, running_s=running_s, ideal_s=ideal_s)
    assert found == pytest.approx(mean, rel=1e-9)


def test_ends_of_the_scale():
    """Never run is 0 and comes first; never slowed is 1, rounding aside."""
    assert network_sensitivity(done_share=0.0, running_s=0.0, ideal_s=5.0) == 0.0
    assert network_sensitivity(done_share=0.3, running_s=3.0, ideal_s=10.0) == 0.9 + 0.1
    assert network_sensitivity(done_share=0.1, running_s=10.0, ideal_s=10.0) == 0.1
    assert network_sensitivity(done_share=1.0, running_s=9.999999, ideal_s=10.0) == 1.0


def ruled(rule: PlacementPolicy, case: Case, *observers: Observer) -> Kernel:
    workload, cluster, leases = case
    return run_rule(rule, workload, cluster, leases, observers=observers)


@pytest.mark.parametrize("name", PLACEMENT_POLICIES)
@pytest.mark.parametrize("links", LINK_SETS)
def test_nobody_waits_for_a_tier_that_cannot_be(name, links):
    """A machine of 8 GPUs is the largest rack; the rack of two machines does not hold the gang."""
    racks = (Rack(machines=1, gpus_per_machine=8), Rack(machines=2, gpus_per_machine=2))
    cluster = linked(Topology(name="odd", racks=racks), links)
    assert cluster.communication is not None
    for model in cluster.communication.models():
        job = Job.rigid(id="j0", submit_s=0, gpus=8, work_gpu_s=8 * 9000, model=model)
        workload = Workload(name="alone", jobs=(job,))
        (run,) = ruled(PLACEMENT_POLICIES[name](), (workload, cluster, Leases())).runs
        assert run.start_s == 0


@draws(20)
@given(case=cases())
def test_no_gang_moves_in_the_instant_in_which_it_starts(case):
    """That would be a lease of no time, and GPUs handed over for nothing."""
    held_s, simulation = noted(*case)
    assert min(held_s) > 0
    assert len(held_s) <= sum(run.allocations for run in simulation.runs)


def noted(workload: Workload, cluster: Cluster, leases: Leases) -> tuple[list[float], Kernel]:
    """Return for how long each lease is held under a rule that moves gangs, and the run."""
    held_s: list[float] = []

    class Noting(PlacingGangs):
        def gives_back(self, view: View, run: JobRun) -> None:
            held_s.append(view.now_s - run.began_s)
            super().gives_back(view, run)

    policy = Noting(PLACEMENT_POLICIES["gandiva-affinity"], reclaimer=None)
    return held_s, Kernel(workload, cluster, policy, tenure=leases).run()


def test_a_gang_that_started_far_apart_moves_later():
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


@pytest.mark.parametrize(
    ("leases", "other"), [(0.0, no_wait), (math.inf, consolidated)], ids=["zero", "for ever"]
)
@draws(20)
@given(case=cases())
def test_timers_of_dally(leases, other, case):
    """Timers of 0 are no-wait and infinite ones consolidated, on every figure."""
    first, second = ruled(manual(leases, leases), case), ruled(other(), case)
    assert measure(first) == measure(second)


@draws(20)
@given(case=cases())
def test_consolidated_stays_at_the_nearest_tier(case):
    """With infinite timers no gang spans more than the least that the empty cluster allows."""
    topology = case[1].topology
    assert topology is not None
    for run in ruled(consolidated(), case).runs:
        lowest = next(tier for tier in Tier if topology.can_span(tier, run.job.min_gpus))
        assert run.allocations == run.allocations_by_tier[lowest]


def test_every_policy_has_a_summary():
    """The command line prints a line on each."""
    assert SUMMARIES.keys() == PLACEMENT_POLICIES.keys()


class WatchedDally(DelayScheduling):
    """Dally, which keeps what it decides on, and what it decides."""

    def __init__(self) -> None:
        super().__init__("dally", AutoTuner())
        self.found: list[tuple[Instance, Solution]] = []

    def decide(self, state: PlacementState) -> list[Grant]:
        """Decide as Dally does."""
        if len(state.waiting) < 2:
            return super().decide(state)
        instance = instance_of(state, name="decision", timers_s=self.held_s(state))
        grants = super().decide(state)
        epoch = Epoch(state=state, machine_order=range(len(instance.machines)))
        self.found.append((instance, solution_of(instance, epoch, grants)))
        return grants


@pytest.fixture(scope="module")
def decisions() -> list[tuple[Instance, Solution]]:
    """What is decided on 30 jobs, on 32 GPUs in two racks; it is what an observer is given."""
    captured: list[Any] = []
    dally = WatchedDally()
    cluster = Cluster.of_racks(
        Topology.uniform(racks=2, machines_per_rack=2),
        ClosedForm(links=LINK_SETS["congested-2"]),
    )
    workload = dally_batch(seed=1, jobs=30)
    jobs = [job for job in workload.jobs if job.min_gpus <= cluster.gpus]
    policy = PlacingGangs(lambda: dally, reclaimer=None)
    Kernel(
        replace(workload, jobs=tuple(jobs)),
        cluster,
        policy,
        tenure=Leases(),
        observers=[
            CaptureObserver(lambda _, decision: captured.append(decision), frozenset({"network"}))
        ],
    ).run()
    several = [decision.jobs for decision in captured if len(decision.jobs) > 1]
    assert several == [instance.jobs for instance, _ in dally.found]
    return dally.found


def test_dally_decides_by_itself_as_it_did_in_the_run(decisions):
    """With the timers of the moment in the instance its decision is worth the same."""
    held = [instance for instance, _ in decisions if any(job.rack_timer_s for job in instance.jobs)]
    assert len(held) > 10
    for instance, taken in decisions:
        alone = solve_and_check(
            find_problem("network"), instance, find_solver("network", "dally"), certify=False
        )
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
