"""What holds of every policy on every small cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lyra_opt.heterogeneous.gavel_rounds import LEAST_RESET_S
from lyra_opt.heterogeneous.instance import GangJob, HeterogeneousInstance, Objective
from lyra_opt.heterogeneous.policies import ROUND_POLICIES
from lyra_opt.heterogeneous.policy import NEVER, RoundPolicy
from lyra_opt.heterogeneous.rollout import run_policy
from lyra_opt.heterogeneous.tiresias import DEFAULT_THRESHOLDS_GPU_S
from lyra_opt.seeding import generator
from lyra_opt.simulation.rounds.engine import RoundSimulation, obstacle
from lyra_opt.simulation.rounds.metrics import measure_rounds, require_rounds_conserved
from lyra_opt.simulation.rounds.setup import (
    HeterogeneousCluster,
    HeterogeneousWorkload,
    RoundOptions,
)
from tests.lyra_opt.simulation.rounds.clusters import cluster_of

if TYPE_CHECKING:
    import numpy as np
    from hypothesis.strategies import DrawFn

    from lyra_opt.heterogeneous.policy import Decision, RoundState

TYPES = ("a", "b")
RATES = st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0))


@st.composite
def cases(draw: DrawFn) -> tuple[HeterogeneousCluster, HeterogeneousWorkload, RoundOptions]:
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
        assume(cluster.holds(job))
        jobs.append(job)
    options = RoundOptions(
        round_s=10.0,
        restart_s=draw(st.sampled_from((0.0, 2.0))),
        merge_s=draw(st.sampled_from((0.0, 1.0))),
        copy_efficiency=draw(st.sampled_from(((1.0,), (1.0, 0.75)))),
    )
    return cluster, HeterogeneousWorkload(name="drawn", jobs=tuple(jobs)), options


class Watched(RoundPolicy):
    """Another policy, whose states are held to what is always true of them."""

    def __init__(self, policy: RoundPolicy, submitted: HeterogeneousWorkload) -> None:
        self.policy, self.submitted = policy, submitted
        self.name, self.forks, self.takes_gangs = policy.name, policy.forks, policy.takes_gangs
        self.latest_s = -1.0
        self.left: dict[str, float] = {}
        self.done: set[str] = set()
        self.ran: set[str] = set()
        self.moves = 0

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:
        assert not state.jobs
        self.policy.prepare(state, rng)

    def decide(self, state: RoundState) -> Decision:
        assert state.now_s > self.latest_s
        assert state.now_s % state.round_s == 0
        known = {job.id for job in self.submitted.jobs if job.release_s <= state.now_s}
        there = {active.job.id for active in state.jobs}
        assert there <= known
        assert [active.order for active in state.jobs] == sorted(
            active.order for active in state.jobs
        )
        done = known - there
        new = there - set(self.left)
        assert new == known - set(self.left)
        assert state.is_changed == bool(new or done != self.done)
        for active in state.jobs:
            assert 0 < active.steps_left <= self.left.get(active.job.id, active.job.steps)
            assert bool(active.placements) == (active.job.id in self.ran)
            assert (active.waiting_since_s == NEVER) == bool(active.placements)
            self.left[active.job.id] = active.steps_left
        self.latest_s, self.done = state.now_s, done
        decision = self.policy.decide(state)
        self.ran = set(decision)
        self.moves += sum(
            placement not in active.placements
            for active in state.jobs
            for placement in decision.get(active.job.id, ())
        )
        return decision


def simulate(
    name: str,
    cluster: HeterogeneousCluster,
    workload: HeterogeneousWorkload,
    options: RoundOptions,
    *,
    watch: bool = False,
    **parameters: Any,
) -> RoundSimulation:
    """Run a policy on the jobs that it can run."""
    policy = ROUND_POLICIES[name](**parameters)
    jobs = tuple(job for job in workload.jobs if obstacle(job, cluster, policy) is None)
    assume(jobs)
    workload = replace(workload, jobs=jobs)
    chosen = Watched(policy, workload) if watch else policy
    return RoundSimulation(workload, cluster, chosen, options=options).run()


@pytest.mark.parametrize("name", ROUND_POLICIES)
@settings(max_examples=20)
@given(case=cases())
def test_every_run_is_sound(
    name: str, case: tuple[HeterogeneousCluster, HeterogeneousWorkload, RoundOptions]
) -> None:
    """All jobs complete, nothing is lost or given twice, and states are what they should be."""
    cluster, _, options = case
    simulation = simulate(name, *case, watch=True)
    require_rounds_conserved(simulation)
    assert isinstance(simulation.policy, Watched)
    moves = simulation.policy.moves
    assert simulation.totals.restarting_s == pytest.approx(moves * options.restart_s)
    metrics = measure_rounds(simulation)
    assert metrics.finished == metrics.jobs == len(simulation.workload.jobs)
    assert 0 < metrics.gpu_usage <= 1 + 1e-9
    assert 0 < metrics.cru <= 1 + 1e-9
    assert metrics.copies_max == 1 or simulation.policy.forks
    assert 0 <= metrics.queue_mean_s <= metrics.jct_mean_s
    assert metrics.jct_min_s <= metrics.jct_p50_s <= metrics.jct_p99_s <= metrics.jct_max_s
    assert 0 < metrics.fairness_mean <= metrics.fairness_max * (1 + 1e-9)
    times_s = [row[0] for row in simulation.totals.series]
    assert times_s == sorted(times_s)
    for row in simulation.totals.series:
        assert all(
            given <= there
            for given, there in zip(row[5:], cluster.gpus_of_type.values(), strict=True)
        )
    for run in simulation.runs:
        best_s = run.job.steps / run.job.best_rate
        if run.most_copies == 1:
            assert run.jct_s >= best_s + options.restart_s - 1e-6


@pytest.mark.parametrize("name", ROUND_POLICIES)
@settings(max_examples=10)
@given(case=cases())
def test_same_seed_same_run(
    name: str, case: tuple[HeterogeneousCluster, HeterogeneousWorkload, RoundOptions]
) -> None:
    """Figures are equal but for wall times, and so is every row of the series."""
    first, second = simulate(name, *case), simulate(name, *case)
    assert measure_rounds(first) == measure_rounds(second)
    assert first.totals.series == second.totals.series


def times_of(name: str, factor: float) -> dict[str, Any]:
    """Return the times that a policy has of its own, over a factor."""
    if name.startswith("gavel-"):
        return {"least_reset_s": LEAST_RESET_S / factor}
    if name == "tiresias":
        return {"thresholds_gpu_s": tuple(limit / factor for limit in DEFAULT_THRESHOLDS_GPU_S)}
    return {}


@pytest.mark.parametrize("name", ROUND_POLICIES)
@settings(max_examples=10)
@given(case=cases(), factor=st.sampled_from((0.25, 2.0, 8.0)))
def test_units_do_not_matter(
    name: str,
    case: tuple[HeterogeneousCluster, HeterogeneousWorkload, RoundOptions],
    factor: float,
) -> None:
    """Throughputs times c and all times over c, the policy's own too, give all times over c."""
    cluster, workload, options = case
    jobs = tuple(
        replace(
            job,
            throughput={name: rate * factor for name, rate in job.throughput.items()},
            spread_throughput=None
            if job.spread_throughput is None
            else {name: rate * factor for name, rate in job.spread_throughput.items()},
            release_s=job.release_s / factor,
        )
        for job in workload.jobs
    )
    faster = replace(
        options,
        round_s=options.round_s / factor,
        restart_s=options.restart_s / factor,
        merge_s=options.merge_s / factor,
    )
    before = simulate(name, cluster, workload, options)
    own = times_of(name, factor)
    after = simulate(name, cluster, replace(workload, jobs=jobs), faster, **own)
    assert [run.completion_s / factor for run in before.runs] == pytest.approx(
        [run.completion_s for run in after.runs]
    )
    assert measure_rounds(before).fairness_mean == pytest.approx(
        measure_rounds(after).fairness_mean
    )


@pytest.mark.parametrize("name", ROUND_POLICIES)
@settings(max_examples=10)
@given(case=cases())
def test_without_costs_it_is_the_schedule_of_the_solver(
    name: str, case: tuple[HeterogeneousCluster, HeterogeneousWorkload, RoundOptions]
) -> None:
    """The simulated cluster and the policy as a solver complete each job in the same round."""
    cluster, workload, options = case
    free = RoundOptions(round_s=options.round_s, restart_s=0.0, merge_s=0.0)
    simulation = simulate(name, cluster, workload, free)
    rounds = {run.job.id: free.round_from(run.completion_s) - 1 for run in simulation.runs}
    policy = ROUND_POLICIES[name]()
    instance = HeterogeneousInstance(
        name="drawn",
        objective=Objective.UTILITY,
        gpu_types=cluster.gpu_types,
        servers=cluster.servers,
        jobs=simulation.workload.jobs,
        round_s=free.round_s,
        horizon_rounds=max(rounds.values()) + 1,
        forking=policy.forks,
    )
    found = run_policy(WithoutHorizon(policy), instance, generator(seed=0))
    assert found.last_round == rounds


class WithoutHorizon(RoundPolicy):
    """Another policy, which is not told by when all should be done, as in the simulated cluster."""

    def __init__(self, policy: RoundPolicy) -> None:
        self._policy, self.name = policy, policy.name

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:
        state.horizon_s = None
        self._policy.prepare(state, rng)

    def decide(self, state: RoundState) -> Decision:
        return self._policy.decide(state)
