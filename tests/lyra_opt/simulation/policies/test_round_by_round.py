"""Rules that decide round by round, on traces small enough to follow by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous.heuristics.gavel import GavelRounds
from lyra_opt.heterogeneous.heuristics.gavel_policies import GavelFifo
from lyra_opt.heterogeneous.instance import Objective
from lyra_opt.simulation.cluster import GpuType, LoanPlan
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.policies.round_by_round import MOST_STALLED_ROUNDS, RoundByRound
from lyra_opt.simulation.tenure import Leases, Rounds
from lyra_opt.simulation.view import PolicyError
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation.in_rounds import (
    FirstFit,
    Scripted,
    cluster_of,
    gang,
    run_rule,
    simulate,
)
from tests.lyra_opt.simulation.replays import completions

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundPolicy, RoundState

ON_S0 = ({"s0": {"a": 1}},)
ON_S1 = ({"s1": {"a": 1}},)
ON_BOTH = (*ON_S0, *ON_S1)


class TestByHand:
    """Schedules that are quickly drawn."""

    def test_bottleneck(self) -> None:
        """A gang on unlike GPUs runs at the speed of the slowest."""
        rule = Scripted(lambda state: {"x": ({"s0": {"a": 1}, "s1": {"b": 1}},)})
        simulation = simulate(
            [gang("x", 15, gang=2, a=3.0, b=1.0)], cluster_of({"a": 2}, {"b": 2}), rule
        )
        assert simulation.runs[0].completion_s == 15
        assert [pool.gpu_type.name for pool in simulation.cluster.pools] == ["a", "b"]
        assert simulation.totals.held_gpu_s == [15, 15]

    def test_preemption(self) -> None:
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
    def test_borrowed_gpus_are_for_fungible_jobs(self, fungible: bool, completion_s: float) -> None:
        """Others are not told that they could run there."""
        second = replace(Job.of_gang(gang("y", 10, a=1.0, b=0.5)), fungible=fungible)
        simulation = self.lending(Job.of_gang(gang("x", 20)), second)
        assert completions(simulation) == [20, completion_s]

    def test_who_is_called_back_waits_for_the_next_round(self) -> None:
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

    def test_who_has_a_share_of_servers_called_back_runs_on_others(self) -> None:
        """Shares that nobody can use are computed anew at once, not after 1,920 s."""
        job = replace(Job.of_gang(gang("x", 30, release_s=1, a=1.0, b=2.0)), fungible=True)
        simulation = self.lending(job, on_loan=(1, 0), rule=GavelFifo())
        # From 10 s to 15 s it has done 10 steps on loan.
        assert completions(simulation) == [20 + 20]


class TestIdling:
    """Rules that let GPUs idle on purpose, and rounds that end as a job does."""

    def test_newcomers_wait_longer_than_others_may_be_stuck(self) -> None:
        """For the next shares, 1,920 s after the last ones, which are 192 rounds."""
        rule = GavelRounds(Objective.MAX_MIN_SHARE, newcomers_run=False)
        jobs = [gang("x", 15, release_s=10), gang("y", 5, release_s=12)]
        simulation = simulate(jobs, cluster_of({"a": 1}), rule)
        assert completions(simulation) == [25, 10 + 1920 + 5]

    @pytest.mark.parametrize(("rate", "rounds"), [(0.7, 3), (5 / 7, 3), (13 / 3, 3), (5 / 3, 17)])
    def test_a_round_is_decided_once(self, rate: float, rounds: int) -> None:
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
    def test_restarts(self, moves_every: int) -> None:
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

    def test_copies_share_by_speed(self) -> None:
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

    def test_efficiency(self) -> None:
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

    def test_a_new_copy_alone_restarts(self) -> None:
        """A copy that goes on where it was loses nothing, one that joins it does."""
        rule = Scripted(lambda state: {"x": ON_BOTH if state.now_s else ON_S0}, forks=True)
        simulation = simulate([gang("x", 24)], cluster_of({"a": 1}, {"a": 1}), rule, restart_s=2.0)
        assert measure(simulation).restarting_s == 4
        assert simulation.runs[0].restarts == 1
        assert simulation.runs[0].completion_s == 10 + 2 + 7


class TestRefusals:
    """What a policy may not do, and what cannot be."""

    def test_waiting_for_ever(self) -> None:
        """A policy that runs nothing is stopped."""
        rule = Scripted(lambda state: {})
        rounds = MOST_STALLED_ROUNDS + 1
        message = f"job x and 1 other wait for ever: nothing has run for {rounds} rounds"
        with pytest.raises(PolicyError, match=message):
            simulate([gang("x", 1), gang("y", 1)], cluster_of({"a": 1}), rule)

    @pytest.mark.parametrize(
        ("rates", "message"),
        [
            ({"a": 1.0, "b": 1.0}, "job x needs 3 GPUs of a type, but small has 2 of a, 1 of b"),
            ({"b": 1.0}, "job x has a gang of 2, which no type of GPUs of cluster small can run"),
        ],
    )
    def test_gangs_too_large(self, rates: dict[str, float], message: str) -> None:
        """A gang that fits no type alone, of those that can run it, is refused beforehand."""
        size = 1 + len(rates)
        with pytest.raises(UserError, match=message):
            simulate([gang("x", 1, gang=size, **rates)], cluster_of({"a": 2, "b": 1}))

    def test_rounds_alone(self) -> None:
        """Rules in rounds are asked in rounds."""
        policy = RoundByRound(FirstFit(), reclaimer=None)
        workload = Workload(name="small", jobs=(Job.of_gang(gang("x", 1)),))
        with pytest.raises(AssertionError, match="asked in rounds"):
            Kernel(workload, cluster_of({"a": 1}), policy, tenure=Leases()).run()
