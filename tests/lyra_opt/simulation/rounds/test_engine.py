"""The engine in rounds, on traces small enough to follow by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.errors import FieldError, UserError
from lyra_opt.simulation.rounds.engine import (
    MOST_STALLED_ROUNDS,
    PolicyError,
    steps_within,
    time_of_steps,
)
from lyra_opt.simulation.rounds.metrics import (
    isolated_rate,
    measure_rounds,
    require_rounds_conserved,
)
from lyra_opt.simulation.rounds.setup import HeterogeneousWorkload, RoundOptions
from tests.lyra_opt.simulation.rounds.clusters import Scripted, cluster_of, gang, simulate

if TYPE_CHECKING:
    from lyra_opt.heterogeneous.policy import Decision, RoundState

ON_S0 = ({"s0": {"a": 1}},)
ON_S1 = ({"s1": {"a": 1}},)
ON_BOTH = (*ON_S0, *ON_S1)


class TestByHand:
    """Schedules that are quickly drawn."""

    def test_one_after_the_other(self) -> None:
        """A job frees its GPU at the end of the round; its completion counts when it is."""
        simulation = simulate([gang("x", 15), gang("y", 5, release_s=3)], cluster_of({"a": 1}))
        first, second = simulation.runs
        assert first.completion_s == 15
        assert second.completion_s == 25
        assert second.queued_s == 17
        assert second.active.started_s == 20
        metrics = measure_rounds(simulation)
        assert metrics.jobs == metrics.finished == 2
        assert metrics.makespan_s == metrics.ttd_s == 25
        assert metrics.jct_mean_s == (15 + 22) / 2
        assert (metrics.jct_min_s, metrics.jct_max_s) == (15, 22)
        assert metrics.queue_mean_s == (0 + 17) / 2
        assert metrics.gpu_usage == metrics.cru == 20 / 25
        assert metrics.gpu_usage_by_type == {"a": 20 / 25}
        assert metrics.rounds == 3
        assert metrics.restarts == metrics.preemptions == 0
        assert (metrics.copies_mean, metrics.copies_max) == (1, 1)

    def test_bottleneck(self) -> None:
        """A gang on unlike GPUs runs at the speed of the slowest."""
        rule = Scripted(lambda state: {"x": ({"s0": {"a": 1}, "s1": {"b": 1}},)})
        simulation = simulate(
            [gang("x", 15, gang=2, a=3.0, b=1.0)], cluster_of({"a": 2}, {"b": 2}), rule
        )
        assert simulation.runs[0].completion_s == 15
        assert simulation.totals.working_gpu_s == {"a": 15, "b": 15}

    def test_idle_rounds_are_skipped(self) -> None:
        """A year without jobs asks nobody anything; rounds stay at multiples of their length."""
        simulation = simulate(
            [gang("x", 5), gang("y", 5, release_s=3.2e7 + 1)], cluster_of({"a": 1})
        )
        assert simulation.totals.rounds == 2
        assert simulation.runs[1].active.started_s == 3.2e7 + 10
        times_s = [row[0] for row in simulation.totals.series]
        assert times_s == sorted(times_s)

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
        assert simulation.totals.restarting_s == 3
        metrics = measure_rounds(simulation)
        assert metrics.preemptions_per_submission == 0.5

    def test_fairness(self) -> None:
        """Rho is the JCT over that on an n-th part, n the mean number of jobs there meanwhile."""
        simulation = simulate([gang("x", 10), gang("y", 10)], cluster_of({"a": 1}))
        # x: 10 s with 2 jobs there, alone on a half 20 s; y: 20 s, 1.5 jobs, 15 s.
        metrics = measure_rounds(simulation)
        assert metrics.fairness_max == pytest.approx(20 / 15)
        assert metrics.fairness_mean == pytest.approx((10 / 20 + 20 / 15) / 2)

    def test_isolated_rate(self) -> None:
        """Shares of types add up to 1 at most, and types that cannot run the job give nothing."""
        cluster = cluster_of({"a": 2}, {"b": 2})
        assert isolated_rate(gang("x", 1, a=4.0, b=2.0), cluster, 1) == 3
        assert isolated_rate(gang("x", 1, a=4.0, b=2.0), cluster, 4) == 3
        assert isolated_rate(gang("x", 1, a=4.0), cluster, 8) == 1
        assert isolated_rate(gang("x", 1, gang=2, a=4.0), cluster, 8) == 0.5


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
        run, totals = simulation.runs[0], simulation.totals
        changes = -(-totals.rounds // moves_every)
        assert totals.restarting_s == 2 * changes
        assert run.restarts == changes - 1
        assert run.completion_s == 101 + totals.restarting_s
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
        assert measure_rounds(simulation).copies_mean == 2
        late = simulate(jobs, cluster, both, restart_s=4.0)
        assert late.runs[0].completion_s == 10 + 4
        assert late.totals.restarting_s == 8

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
        assert simulation.totals.restarting_s == 4
        assert simulation.runs[0].restarts == 1
        assert simulation.runs[0].completion_s == 10 + 2 + 7

    @given(
        steps=st.floats(0.1, 1e4),
        rates=st.lists(st.floats(0.01, 100), min_size=1, max_size=5),
    )
    def test_forking_costs_nothing_where_it_is_free(self, steps: float, rates: list[float]) -> None:
        """Without costs, one more copy never delays a single job."""
        times_s = [
            time_of_steps(steps, rates[:count], [0.0] * count) for count in range(1, len(rates) + 1)
        ]
        assert times_s == sorted(times_s, reverse=True)

    @given(
        copies=st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 50)), min_size=1, max_size=5),
        time_s=st.floats(60, 1000),
    )
    def test_time_and_steps_are_inverse(
        self, copies: list[tuple[float, float]], time_s: float
    ) -> None:
        """The two directions of the division agree."""
        rates, lost_s = zip(*copies, strict=True)
        steps = steps_within(time_s, rates, lost_s)
        assert time_of_steps(steps, rates, lost_s) == pytest.approx(time_s)


class TestRefusals:
    """What a policy may not do, and what cannot be."""

    @pytest.mark.parametrize(
        ("decision", "message"),
        [
            ({"z": ON_S0}, "job z is not there, or complete"),
            ({"x": ({"s0": {"a": 2}},)}, "gang of 1, but gets 2 GPUs"),
            ({"x": ({"s0": {}},)}, "gang of 1, but gets 0 GPUs"),
            ({"x": ({"s9": {"a": 1}},)}, "a server that there is not"),
            ({"x": ON_S0, "y": ON_S0}, "job y gets GPUs that are not free"),
            ({"x": ({"s0": {"b": 1}},)}, "job x cannot run where it is placed"),
            ({"x": ON_BOTH}, "the policy forks none"),
        ],
    )
    def test_bad_decisions(self, decision: Decision, message: str) -> None:
        """Each is an error that names policy, round, job and rule."""
        rule = Scripted(lambda state: decision)
        cluster = cluster_of({"a": 1, "b": 1}, {"a": 1})
        with pytest.raises(PolicyError, match=f"policy scripted, round at 0 s: .*{message}"):
            simulate([gang("x", 1), gang("y", 1)], cluster, rule)

    @pytest.mark.parametrize(
        "placements",
        [ON_S0 * 2, ({"s0": {"a": 1}, "s1": {"a": 1}}, {"s2": {"a": 2}})],
        ids=["same server", "copy on two servers"],
    )
    def test_copies_are_whole_and_apart(self, placements: Decision) -> None:
        """Each copy is on one server, and no two on the same."""
        rule = Scripted(lambda state: {"x": placements}, forks=True)
        size = sum(next(iter(placements))[server]["a"] for server in placements[0])
        with pytest.raises(PolicyError, match="not on a server of their own"):
            simulate([gang("x", 1, gang=size)], cluster_of({"a": 2}, {"a": 2}, {"a": 2}), rule)

    def test_waiting_for_ever(self) -> None:
        """A policy that runs nothing is stopped."""
        rule = Scripted(lambda state: {})
        message = f"job x and 1 others wait, but nothing has run for {MOST_STALLED_ROUNDS + 1} "
        with pytest.raises(PolicyError, match=message):
            simulate([gang("x", 1), gang("y", 1)], cluster_of({"a": 1}), rule)

    def test_gangs_too_large(self) -> None:
        """A gang that fits no type alone is refused before the first round."""
        with pytest.raises(UserError, match="job x has a gang of 2, which no type"):
            simulate([gang("x", 1, gang=2, a=1.0, b=1.0)], cluster_of({"a": 1, "b": 1}))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"round_s": 0.0}, "round_s is 0.0: must be a finite number above 0"),
            ({"restart_s": 360.0}, "restart_s is 360.0: must be below round_s, 360"),
            ({"restart_s": 200.0, "merge_s": 200.0}, "merge_s is 200.0: must leave some"),
            ({"merge_s": -1.0}, "merge_s is -1.0"),
            ({"copy_efficiency": ()}, "copy_efficiency is"),
            ({"copy_efficiency": (1.0, 1.5)}, r"copy_efficiency\[1\] is 1.5: must be at most 1"),
            ({"copy_efficiency": (0.5,)}, r"copy_efficiency\[0\] is 0.5: must be 1"),
        ],
    )
    def test_bad_options(self, options: dict[str, float], message: str) -> None:
        """Rounds in which nothing could be done, and other nonsense."""
        with pytest.raises(FieldError, match=message):
            RoundOptions(**options)

    def test_bad_workloads(self) -> None:
        """Ids are unique, and jobs in order."""
        with pytest.raises(FieldError, match=r"jobs\[1\].id"):
            HeterogeneousWorkload(name="w", jobs=(gang("x", 1), gang("x", 1)))
        with pytest.raises(FieldError, match=r"jobs\[1\].release_s"):
            HeterogeneousWorkload(name="w", jobs=(gang("x", 1, release_s=1), gang("y", 1)))

    def test_lost_steps_are_noticed(self) -> None:
        """The check after a run would see steps or GPU-seconds that went astray."""
        simulation = simulate([gang("x", 15)], cluster_of({"a": 1}))
        require_rounds_conserved(simulation)
        simulation.totals.working_gpu_s["a"] += 1
        with pytest.raises(AssertionError, match="GPU-seconds"):
            require_rounds_conserved(simulation)
