"""What holds of rules that decide round by round, beside what holds of any policy.

That runs are sound and the same each time: `tests.lyra_opt.simulation.product`.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.seeding import generator
from lyra_opt.heterogeneous.heuristics.baselines import DEFAULT_THRESHOLDS_GPU_S
from lyra_opt.heterogeneous.heuristics.gavel import LEAST_RESET_S
from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES, run_policy
from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective
from lyra_opt.simulation.metrics import measure
from lyra_opt.simulation.scheme import find_scheme
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.tenure import Rounds
from lyra_opt.simulation.workload import Job, Workload
from tests.draws import draws
from tests.lyra_opt.simulation.in_rounds import cluster_of, run_rule
from tests.lyra_opt.simulation.replays import completions
from tests.lyra_opt.simulation.watches import WatchedRounds

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.kernel import Kernel
    from lyra_opt.simulation.metrics import Metrics
    from lyra_opt.simulation.view import Observer

    Case = tuple[Cluster, Workload, Rounds]

TYPES = ("a", "b")
RATES = st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0))

ALONE = [name for name in ROUND_POLICIES if name != "gavel-gandiva"]
"""Those that need not know how fast two jobs are on the same GPUs, which is not drawn here."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
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


def simulate(name: str, case: Case, *observers: Observer, **parameters: Any) -> Kernel:
    """Run a policy on the jobs that it can run."""
    cluster, _, rounds = case
    policy = ROUND_POLICIES[name](**parameters)
    return run_rule(policy, runnable(name, case), cluster, rounds, observers=observers)


@pytest.mark.parametrize("name", ALONE)
@draws(15)
@given(case=cases())
def test_rounds_that_are_passed_over_are_not_missed(name: str, case: Case) -> None:
    """Policies that say that they would decide as before do: passing over changes no figure."""
    cluster, _, rounds = case
    workload = runnable(name, case)
    # So that jobs of a minute or two see the policy change its mind.
    own = times_of(name, 500.0)
    never_quiet = WatchedRounds(ROUND_POLICIES[name](**own), workload, keeps_servers=True)
    asked = run_rule(never_quiet, workload, cluster, rounds)
    quiet = simulate(name, case, **own)
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
@given(case=cases(), factor=st.sampled_from((0.25, 2.0, 8.0)))
def test_units_do_not_matter(name: str, case: Case, factor: float) -> None:
    """Throughputs times c and all times over c, the policy's own too, give all times over c."""
    cluster, workload, rounds = case
    jobs = tuple(_faster(job.measured, factor) for job in workload.jobs)
    faster = replace(
        rounds,
        round_s=rounds.round_s / factor,
        restart_s=rounds.restart_s / factor,
        merge_s=rounds.merge_s / factor,
    )
    before = simulate(name, case)
    own = times_of(name, factor)
    after = simulate(name, (cluster, replace(workload, jobs=jobs), faster), **own)
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
@given(case=cases())
def test_without_costs_it_is_the_schedule_of_the_solver(name: str, case: Case) -> None:
    """The simulated cluster and the policy as a solver complete each job in the same round."""
    cluster, workload, rounds = case
    free = Rounds(round_s=rounds.round_s, restart_s=0.0, merge_s=0.0)
    simulation = simulate(name, (cluster, workload, free))
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
