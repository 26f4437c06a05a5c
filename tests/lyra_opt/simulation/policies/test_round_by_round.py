"""Rules that decide round by round: by hand, on every small cluster, and with shared GPUs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.core.seeding import generator
from lyra_opt.heterogeneous.heuristics.baselines import DEFAULT_THRESHOLDS_GPU_S
from lyra_opt.heterogeneous.heuristics.gavel import LEAST_RESET_S, GavelRounds
from lyra_opt.heterogeneous.heuristics.gavel_policies import GavelFifo
from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES, run_policy
from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective, PackedRate
from lyra_opt.simulation.cluster import GpuType, LoanPlan
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.policies.round_by_round import MOST_STALLED_ROUNDS, RoundByRound
from lyra_opt.simulation.scheme import find_scheme
from lyra_opt.simulation.scheme import simulate as simulate_scheme
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import Leases, Rounds
from lyra_opt.simulation.view import PolicyError
from lyra_opt.simulation.workload import Job, Workload
from tests.draws import draws
from tests.lyra_opt.simulation.in_rounds import (
    FirstFit,
    Scripted,
    cluster_of,
    gang,
    run_rule,
    simulate,
)
from tests.lyra_opt.simulation.replays import completions
from tests.lyra_opt.simulation.watches import WatchedRounds

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.metrics import Metrics
    from lyra_opt.simulation.view import Observer

    Case = tuple[Cluster, Workload, Rounds]


ON_S0 = ({"s0": {"a": 1}},)
ON_S1 = ({"s1": {"a": 1}},)
ON_BOTH = (*ON_S0, *ON_S1)


class TestByHand:
    """Schedules that are quickly drawn."""

    def test_bottleneck(self):
        """A gang on unlike GPUs runs at the speed of the slowest."""
        rule = Scripted(lambda state: {"x": ({"s0": {"a": 1}, "s1": {"b": 1}},)})
        simulation = simulate(
            [gang("x", 15, gang=2, a=3.0, b=1.0)], cluster_of({"a": 2}, {"b": 2}), rule
        )
        assert simulation.runs[0].completion_s == 15
        assert [pool.gpu_type.name for pool in simulation.cluster.pools] == ["a", "b"]
        assert simulation.totals.held_gpu_s == [15, 15]

    def test_preemption(self):
        """A job that waits again queues again, and restarts even on the GPU that it had."""

        def in_turn(state: RoundState) -> Decision:
            name = "xy"[int(state.now_s // 10) % 2]
            return {name: ON_S0} if any(job.job.id == name for job in state.jobs) else {}

        simulation = simulate(
            [gang("x", 18), gang("y", 9)], cluster_of({"a": 1}), Scripted(in_turn), restart_s=1.0
        )
        first, second = simulation.runs
        assert (first.completion_s, second.completion_s) == (30, 20)
        assert (first.preemptions, first.restarts) == (1, 1)
        assert (second.preemptions, second.restarts) == (0, 0)
        assert first.queued_s == 10
        assert measure(simulation).restarting_s == 3
        metrics = measure(simulation)
        assert metrics.preemptions_per_submission == 0.5


class TestLoans:
    """Servers that come and go."""

    def lending(
        self,
        *jobs: Job,
        on_loan: tuple[int, ...] = (1,),
        restart_s: float = 0.0,
        rule: RoundPolicy | None = None,
    ) -> Kernel:
        """Run jobs beside a server on loan, which may be called back after 14 s."""
        cluster = cluster_of({"a": 1}).with_lent(1, gpus_per_server=1, gpu_type=GpuType(name="b"))
        return run_rule(
            rule or FirstFit(),
            Workload(name="small", jobs=jobs),
            cluster,
            Rounds(round_s=10.0, restart_s=restart_s, merge_s=0.0),
            plan=LoanPlan(interval_s=14.0, on_loan=on_loan, busy_share=(0.0,)),
        )

    @pytest.mark.parametrize(("fungible", "completion_s"), [(True, 20), (False, 30)])
    def test_borrowed_gpus_are_for_fungible_jobs(self, fungible, completion_s):
        """Others are not told that they could run there."""
        second = replace(Job.of_gang(gang("y", 10, a=1.0, b=0.5)), fungible=fungible)
        simulation = self.lending(Job.of_gang(gang("x", 20)), second)
        assert completions(simulation) == [20, completion_s]

    def test_who_is_called_back_waits_for_the_next_round(self):
        """What it has done in this one is kept; it pays for a restart."""
        second = replace(Job.of_gang(gang("y", 30, a=1.0, b=1.0)), fungible=True)
        simulation = self.lending(Job.of_gang(gang("x", 40)), second, on_loan=(1, 0), restart_s=1.0)
        first, second_run = simulation.runs
        assert first.completion_s == 41
        # 13 s of work done by 14 s; x gives its GPU back at 50 s, and 17 s are left.
        assert (second_run.start_s, second_run.completion_s) == (0, 50 + 1 + 17)
        assert (second_run.preemptions, second_run.losses) == (1, 1)
        assert second_run.queued_s == 50 - 14
        require_conserved(simulation)

    def test_who_has_a_share_of_servers_called_back_runs_on_others(self):
        """Shares that nobody can use are computed anew at once, not after 1,920 s."""
        job = replace(Job.of_gang(gang("x", 30, release_s=1, a=1.0, b=2.0)), fungible=True)
        simulation = self.lending(job, on_loan=(1, 0), rule=GavelFifo())
        # From 10 s to 15 s it has done 10 steps on loan.
        assert completions(simulation) == [20 + 20]

    def test_who_takes_one_kind_is_on_free_gpus_of_one_kind(self):
        """And stays there, although the rule always asks for an own and a borrowed GPU."""
        cluster = cluster_of({"a": 2}).with_lent(1, gpus_per_server=1, gpu_type=GpuType(name="b"))
        on_both = {server.id: dict.fromkeys(server.gpus, 1) for server in cluster.servers}

        def mixes(state):
            there = {active.job.id for active in state.jobs}
            return {
                name: got for name, got in {"x": (on_both,), "y": ON_S0}.items() if name in there
            }

        jobs = [
            replace(Job.of_gang(gang("x", 15, gang=2, a=1.0, b=1.0)), fungible=True),
            Job.of_gang(gang("y", 8)),
        ]
        simulation = run_rule(
            Scripted(mixes),
            Workload(name="small", jobs=tuple(jobs)),
            cluster,
            Rounds(round_s=10.0, restart_s=1.0, merge_s=0.0),
            plan=LoanPlan(interval_s=14.0, on_loan=(1,), busy_share=(0.0,)),
        )
        assert completions(simulation) == [10 + 1 + 15, 1 + 8]
        assert simulation.runs[0].allocations == 1


class TestIdling:
    """Rules that let GPUs idle on purpose, and rounds that end as a job does."""

    def test_newcomers_wait_longer_than_others_may_be_stuck(self):
        """For the next shares, 1,920 s after the last ones, which are 192 rounds."""
        rule = GavelRounds(Objective.MAX_MIN_SHARE, newcomers_run=False)
        jobs = [gang("x", 15, release_s=10), gang("y", 5, release_s=12)]
        simulation = simulate(jobs, cluster_of({"a": 1}), rule)
        assert completions(simulation) == [25, 10 + 1920 + 5]

    @pytest.mark.parametrize(("rate", "rounds"), [(0.7, 3), (5 / 7, 3), (13 / 3, 3), (5 / 3, 17)])
    def test_a_round_is_decided_once(self, rate, rounds):
        """Also if rounding leaves a job that ends with the round a little to do."""
        asked_s = []

        def first_fit(state: RoundState) -> Decision:
            asked_s.append(state.now_s)
            return FirstFit().decide(state)

        jobs = [gang("x", rounds * 10 * rate, a=rate), gang("y", 5 * rate, a=rate)]
        simulate(jobs, cluster_of({"a": 1}), Scripted(first_fit))
        assert asked_s == [10.0 * number for number in range(rounds + 1)]


class TestCosts:
    """Restarts and merges cost what they say, when they say."""

    @pytest.mark.parametrize("moves_every", [1, 2, 3])
    def test_restarts(self, moves_every):
        """A job pays in exactly the rounds in which its placement changed."""

        def rule(state: RoundState) -> Decision:
            return {"x": ON_S0 if int(state.now_s // 10) // moves_every % 2 else ON_S1}

        simulation = simulate(
            [gang("x", 101)], cluster_of({"a": 1}, {"a": 1}), Scripted(rule), restart_s=2.0
        )
        run, restarting_s = simulation.runs[0], measure(simulation).restarting_s
        changes = -(-simulation.totals.rounds // moves_every)
        assert restarting_s == 2 * changes
        assert run.restarts == changes - 1
        assert run.completion_s == 101 + restarting_s
        assert run.preemptions == 0

    def test_copies_share_by_speed(self):
        """What is left is divided so that both end at once; the merge comes after."""
        both = Scripted(lambda state: {"x": ({"s0": {"a": 1}}, {"s1": {"b": 1}})}, forks=True)
        cluster = cluster_of({"a": 1}, {"b": 1})
        jobs = [gang("x", 40, a=3.0, b=1.0)]
        assert simulate(jobs, cluster, both).runs[0].completion_s == 10
        simulation = simulate(jobs, cluster, both, merge_s=2.0)
        assert simulation.runs[0].completion_s == 10 + 2 + 2
        assert simulation.totals.merging_s == 4
        assert measure(simulation).copies_mean == 2
        late = simulate(jobs, cluster, both, restart_s=4.0)
        assert late.runs[0].completion_s == 10 + 4
        assert measure(late).restarting_s == 8

    def test_efficiency(self):
        """Steps of several copies are worth phi; more copies than phi names take the last one."""
        servers = [{"a": 1}] * 4

        def on_first(count: int) -> Scripted:
            placements = tuple({f"s{place}": {"a": 1}} for place in range(count))
            return Scripted(lambda state: {"x": placements}, forks=True)

        times_s = [
            simulate(
                [gang("x", 6)],
                cluster_of(*servers),
                on_first(count),
                copy_efficiency=(1.0, 0.75, 0.5),
            )
            .runs[0]
            .completion_s
            for count in (1, 2, 3, 4)
        ]
        assert times_s == [6, 4, 4, 3]

    def test_a_new_copy_alone_restarts(self):
        """A copy that goes on where it was loses nothing, one that joins it does."""
        rule = Scripted(lambda state: {"x": ON_BOTH if state.now_s else ON_S0}, forks=True)
        simulation = simulate([gang("x", 24)], cluster_of({"a": 1}, {"a": 1}), rule, restart_s=2.0)
        assert measure(simulation).restarting_s == 4
        assert simulation.runs[0].restarts == 1
        assert simulation.runs[0].completion_s == 10 + 2 + 7


class TestRefusals:
    """What a policy may not do, and what cannot be."""

    def test_waiting_for_ever(self):
        """A policy that runs nothing is stopped."""
        rule = Scripted(lambda state: {})
        rounds = MOST_STALLED_ROUNDS + 1
        message = f"job x and 1 other wait for ever: no job has run for {rounds} rounds"
        with pytest.raises(PolicyError, match=message):
            simulate([gang("x", 1), gang("y", 1)], cluster_of({"a": 1}), rule)

    @pytest.mark.parametrize(
        ("rates", "message"),
        [
            (
                {"a": 1.0, "b": 1.0},
                "job x needs 3 GPUs of one type, but cluster small has 2 of a, 1 of b",
            ),
            ({"b": 1.0}, "job x has a gang of 2 GPUs, but no GPU type in cluster small can run it"),
        ],
    )
    def test_gangs_too_large(self, rates, message):
        """A gang that fits no type alone, of those that can run it, is refused beforehand."""
        size = 1 + len(rates)
        with pytest.raises(UserError, match=message):
            simulate([gang("x", 1, gang=size, **rates)], cluster_of({"a": 2, "b": 1}))

    def test_rounds_alone(self):
        """Rules in rounds are asked in rounds."""
        policy = RoundByRound(FirstFit(), reclaimer=None)
        workload = Workload(name="small", jobs=(Job.of_gang(gang("x", 1)),))
        with pytest.raises(AssertionError, match="need rounds"):
            Kernel(workload, cluster_of({"a": 1}), policy, tenure=Leases()).run()


TYPES = ("a", "b")
RATES = st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0))

ALONE = [name for name in ROUND_POLICIES if name != "gavel-gandiva"]
"""Those that need not know how fast two jobs are on the same GPUs, which is not drawn here."""


@st.composite
def drawn_cases(draw: st.DrawFn) -> Case:
    """Draw a cluster of two types, a few gangs that fit it, and options."""
    cluster = cluster_of(
        {"a": draw(st.integers(1, 2))},
        {"b": draw(st.integers(1, 3))},
        {"a": 1, "b": draw(st.integers(1, 2))},
    )
    jobs = []
    release_s = 0.0
    for number in range(draw(st.integers(1, 5))):
        release_s += draw(st.sampled_from((0.0, 1.0, 10.0, 15.0, 300.0)))
        rates = {name: draw(RATES) for name in TYPES}
        assume(any(rates.values()))
        gang = draw(st.integers(1, 3))
        job = GangJob(
            id=f"j{number}",
            gang=gang,
            steps=draw(st.sampled_from((1.0, 10.0, 35.0, 120.0))),
            release_s=release_s,
            throughput=rates,
            spread_throughput=draw(
                st.sampled_from((None, {name: rate / 2 for name, rate in rates.items()}))
            ),
            weight=draw(st.sampled_from((1.0, 2.0))),
        )
        jobs.append(Job.of_gang(job))
        assume(Speed(cluster).rates_of(jobs[-1]))
    rounds = Rounds(
        round_s=10.0,
        restart_s=draw(st.sampled_from((0.0, 2.0))),
        merge_s=draw(st.sampled_from((0.0, 1.0))),
        copy_efficiency=draw(st.sampled_from(((1.0,), (1.0, 0.75)))),
    )
    return cluster, Workload(name="drawn", jobs=tuple(jobs)), rounds


def runnable(name: str, case: Case) -> Workload:
    """Return the jobs that a policy can run."""
    cluster, workload, rounds = case
    scheme = find_scheme(name)
    jobs = tuple(
        job
        for job in workload.jobs
        if scheme.obstacle(replace(workload, jobs=(job,)), cluster, rounds) is None
    )
    assume(jobs)
    return replace(workload, jobs=jobs)


def ruled(name: str, case: Case, *observers: Observer, **parameters: Any) -> Kernel:
    """Run a policy on the jobs that it can run."""
    cluster, _, rounds = case
    policy = ROUND_POLICIES[name](**parameters)
    return run_rule(policy, runnable(name, case), cluster, rounds, observers=observers)


@pytest.mark.parametrize("name", ALONE)
@draws(15)
@given(case=drawn_cases())
def test_rounds_that_are_passed_over_are_not_missed(name, case):
    """Policies that say that they would decide as before do: passing over changes no figure."""
    cluster, _, rounds = case
    workload = runnable(name, case)
    # So that jobs of a minute or two see the policy change its mind.
    own = times_of(name, 500.0)
    never_quiet = WatchedRounds(ROUND_POLICIES[name](**own), workload, keeps_servers=True)
    asked = run_rule(never_quiet, workload, cluster, rounds)
    quiet = ruled(name, case, **own)
    first, second = measure(quiet), measure(asked)
    assert first.decisions is not None
    assert second.decisions is not None
    assert first.decisions <= second.decisions == second.rounds
    for field, value in vars_of(second).items():
        assert vars_of(first)[field] == pytest.approx(value, abs=1e-9), field
    assert completions(quiet) == pytest.approx(completions(asked), rel=1e-12)


def vars_of(metrics: Metrics) -> dict[str, Any]:
    """Return what does not depend on how often a policy is asked."""
    left_out = {"decisions", "decision_mean_s", "decision_p99_s", "decision_max_s"}
    return {
        field.name: getattr(metrics, field.name)
        for field in fields(metrics)
        if field.name not in left_out
    }


def times_of(name: str, factor: float) -> dict[str, Any]:
    """Return the times that a policy has of its own, over a factor."""
    if name.startswith("gavel-"):
        return {"least_reset_s": LEAST_RESET_S / factor}
    if name == "tiresias":
        return {"thresholds_gpu_s": tuple(limit / factor for limit in DEFAULT_THRESHOLDS_GPU_S)}
    return {}


@pytest.mark.parametrize("name", ALONE)
@draws(10)
@given(case=drawn_cases(), factor=st.sampled_from((0.25, 2.0, 8.0)))
def test_units_do_not_matter(name, case, factor):
    """Throughputs times c and all times over c, the policy's own too, give all times over c."""
    cluster, workload, rounds = case
    jobs = tuple(_faster(job.measured, factor) for job in workload.jobs)
    faster = replace(
        rounds,
        round_s=rounds.round_s / factor,
        restart_s=rounds.restart_s / factor,
        merge_s=rounds.merge_s / factor,
    )
    before = ruled(name, case)
    own = times_of(name, factor)
    after = ruled(name, (cluster, replace(workload, jobs=jobs), faster), **own)
    assert [run.completion_s / factor for run in before.runs] == pytest.approx(
        [run.completion_s for run in after.runs]
    )
    assert measure(before).fairness_mean == pytest.approx(measure(after).fairness_mean)


def _faster(gang: GangJob, factor: float) -> Job:
    spread = gang.spread_throughput
    return Job.of_gang(
        replace(
            gang,
            throughput={name: rate * factor for name, rate in gang.throughput.items()},
            spread_throughput=(
                None if spread is None else {name: rate * factor for name, rate in spread.items()}
            ),
            release_s=gang.release_s / factor,
        )
    )


@pytest.mark.parametrize("name", ALONE)
@draws(10)
@given(case=drawn_cases())
def test_without_costs_it_is_the_schedule_of_the_solver(name, case):
    """The simulated cluster and the policy as a solver complete each job in the same round."""
    cluster, workload, rounds = case
    free = Rounds(round_s=rounds.round_s, restart_s=0.0, merge_s=0.0)
    simulation = ruled(name, (cluster, workload, free))
    last = {run.job.id: free.round_from(run.completion_s) - 1 for run in simulation.runs}
    policy = ROUND_POLICIES[name]()
    instance = Instance(
        name="drawn",
        objective=Objective.UTILITY,
        gpu_types=cluster.problem_types,
        servers=cluster.problem_servers(),
        jobs=tuple(job.measured for job in simulation.workload.jobs),
        round_s=free.round_s,
        horizon_rounds=max(last.values()) + 1,
        forking=policy.forks,
    )
    rng = generator(simulation=simulation.workload.name, policy=policy.name, seed=simulation.seed)
    found = run_policy(WithoutHorizon(policy), instance, rng)
    assert found.last_round == last


class WithoutHorizon(RoundPolicy):
    """Another policy, which is not told by when all should be done, as in the simulated cluster."""

    def __init__(self, policy: RoundPolicy) -> None:
        self._policy, self.name = policy, policy.name

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:
        state.horizon_s = None
        self._policy.prepare(state, rng)

    def decide(self, state: RoundState) -> Decision:
        return self._policy.decide(state)


FREE_ROUNDS = Rounds(round_s=10.0, restart_s=0.0, merge_s=0.0)


def kind(name: str, steps: float, *, of: str = "k", gang: int = 1, release_s: float = 0) -> GangJob:
    return GangJob(
        id=name,
        gang=gang,
        steps=steps,
        release_s=release_s,
        throughput={"a": 2.0},
        kind=f"{of} on {gang}",
    )


def workload_of(*gangs: GangJob, part: float = 0.75) -> Workload:
    """Return jobs each of which has this part of its speed beside any other of its size."""
    size = {gang.kind: gang.gang for gang in gangs}
    packed = [
        PackedRate(kind=str(one), beside=str(two), throughput={"a": 2.0 * part})
        for one in size
        for two in size
        if size[one] == size[two]
    ]
    return Workload(name="packed", jobs=tuple(map(Job.of_gang, gangs)), packed=tuple(packed))


def replayed(
    workload: Workload, cluster: Cluster, scheme: str = "gavel-las", **given: object
) -> Kernel:
    """Return the replay of jobs under a scheme that packs."""
    parameters = {} if scheme == "gavel-gandiva" else {"packs": True}
    found = find_scheme(scheme).with_parameters(parameters | given)
    return simulate_scheme(workload, cluster, found, tenure=FREE_ROUNDS)


def test_two_jobs_share_a_gpu():
    """Each at three quarters of its speed; the one that is left goes on alone at once."""
    simulation = replayed(workload_of(kind("x", 30), kind("y", 60)), cluster_of({"a": 1}))
    # 1.5 steps a second each; from 20 s on the other has 30 steps left, and 2 a second.
    assert [run.completion_s for run in simulation.runs] == [20.0, pytest.approx(35.0)]
    assert [run.queued_s for run in simulation.runs] == [0.0, 0.0]
    # Half of the GPU each for 20 s, then all of it.
    assert [run.held_gpu_s for run in simulation.runs] == [10.0, pytest.approx(25.0)]
    assert simulation.totals.held_gpu_s == [pytest.approx(35.0)]
    assert [run.slower_placement_s for run in simulation.runs] == [5.0, pytest.approx(5.0)]
    require_conserved(simulation)
    assert measure(simulation).gpu_usage == pytest.approx(1.0)


def test_without_packing_they_take_turns():
    """The same jobs and scheme, without the parameter."""
    workload = workload_of(kind("x", 30), kind("y", 60))
    simulation = simulate_scheme(workload, cluster_of({"a": 1}), "gavel-las", tenure=FREE_ROUNDS)
    assert max(run.completion_s for run in simulation.runs) > 45.0


def test_packing_that_does_not_pay_is_not_used():
    """At less than half of their speed two jobs are better off in turns."""
    simulation = replayed(workload_of(kind("x", 40), kind("y", 40), part=0.4), cluster_of({"a": 1}))
    assert all(run.slower_placement_s == 0 for run in simulation.runs)


@pytest.mark.parametrize(
    "scheme",
    [
        "gavel-las",
        "gavel-ftf",
        "gavel-makespan",
        "gavel-water-filling",
        "gavel-gandiva",
        "gavel-fifo",
    ],
)
def test_all_that_is_conserved(scheme):
    """Many jobs of three kinds and two sizes that come, share, part and move on two servers."""
    jobs = [
        kind(f"j{n}", 37.0 + 11 * n, of="pqr"[n % 3], gang=1 + (n % 4 == 3), release_s=7.0 * n)
        for n in range(16)
    ]
    gpus = cluster_of({"a": 2}, {"a": 1})
    simulation = replayed(workload_of(*jobs, part=0.8), gpus, scheme, least_reset_s=0)
    require_conserved(simulation)
    assert any(run.slower_placement_s > 0 for run in simulation.runs), "nobody shared"
    again = replayed(workload_of(*jobs, part=0.8), gpus, scheme, least_reset_s=0)
    assert [run.completion_s for run in again.runs] == [r.completion_s for r in simulation.runs]


def test_gandiva_packs_only_where_gpus_are_short():
    """Three jobs on three GPUs share none; on one GPU two of them do, and a pair stays."""
    jobs = [kind(name, 400) for name in "xyz"]
    roomy = replayed(workload_of(*jobs), cluster_of({"a": 3}), "gavel-gandiva")
    assert [run.completion_s for run in roomy.runs] == [200.0] * 3
    short = replayed(workload_of(*jobs), cluster_of({"a": 1}), "gavel-gandiva")
    assert sum(run.slower_placement_s > 0 for run in short.runs) >= 2
    bad = replayed(workload_of(*jobs, part=0.4), cluster_of({"a": 1}), "gavel-gandiva")
    require_conserved(bad)


def test_fifo_serves_first_who_came_first():
    """Three jobs on a GPU, one after another; with packing the second joins, the third waits."""
    jobs = [kind(name, 40, release_s=place) for place, name in enumerate("xyz")]
    gpu = cluster_of({"a": 1})
    alone = replayed(workload_of(*jobs), gpu, "gavel-fifo", packs=False, least_reset_s=0)
    first, *_ = done = [run.completion_s or 0.0 for run in alone.runs]
    assert done == pytest.approx([first, first + 20, first + 40], abs=2 * FREE_ROUNDS.round_s)
    both = replayed(workload_of(*jobs, part=0.8), gpu, "gavel-fifo", least_reset_s=0)
    assert [run.slower_placement_s > 0 for run in both.runs] == [True, True, True]
    assert both.runs[2].start_s >= (both.runs[0].completion_s or 0.0)  # and joins the second
    # At three quarters of their speed two do 1.5 together, which is not above the least worth ...
    slow = workload_of(*jobs, part=0.75)
    fussy = replayed(slow, gpu, "gavel-fifo", least_reset_s=0)
    assert completions(fussy) == completions(alone)
    # ... unless that is lower.
    eager = replayed(slow, gpu, "gavel-fifo", least_reset_s=0, least_worth=1.2)
    assert completions(eager) != completions(alone)


def test_fifo_lets_who_is_left_of_a_pair_go_on():
    """The share was that of both: alone it has one in the next round, not 1,920 s later."""
    jobs = workload_of(kind("x", 32, release_s=10), kind("y", 300, release_s=10), part=0.8)
    simulation = replayed(jobs, cluster_of({"a": 1}), "gavel-fifo")
    assert [run.queued_s for run in simulation.runs] == [0, 0]


def test_fifo_lets_nobody_past_a_gang_that_waits():
    """A gang of 2 waits for both GPUs; who came after it waits too, though one GPU is free."""
    jobs = [kind("x", 80), kind("y", 20, gang=2, release_s=1), kind("z", 20, release_s=2)]
    gpus = cluster_of({"a": 2})
    simulation = replayed(workload_of(*jobs), gpus, "gavel-fifo", packs=False, least_reset_s=0)
    x, y, z = simulation.runs
    assert x.completion_s == 40
    assert y.start_s >= 40
    assert z.start_s >= y.completion_s
    require_conserved(simulation)


def test_what_is_refused():
    """Without packed rates, and for policies that are blind to types."""
    jobs = workload_of(kind("x", 30))
    with pytest.raises(UserError, match="the workload has no throughputs of such pairs"):
        replayed(replace(jobs, packed=()), cluster_of({"a": 1}))
    with pytest.raises(
        UserError, match="packs is true: must be false for a policy that ignores GPU types"
    ):
        replayed(jobs, cluster_of({"a": 1}), "gavel-las-agnostic")
