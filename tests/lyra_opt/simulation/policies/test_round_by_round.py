"""Rules that decide round by round: on every small cluster, and with shared GPUs.

Replays worked out by hand are in ``by_hand.toml``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.core.seeding import generator
from lyra_opt.heterogeneous.heuristics.gavel import GavelRounds
from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES, run_policy
from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.scheme import find_scheme
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job
from tests.draws import draws
from tests.lyra_opt.simulation.in_rounds import (
    FREE_ROUNDS,
    FirstFit,
    Scripted,
    cluster_of,
    gang,
    run_rule,
    simulate,
)
from tests.lyra_opt.simulation.replays import completions, workload_of
from tests.lyra_opt.simulation.test_by_hand import replayed

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.heterogeneous.heuristics.policy import Decision, RoundState
    from lyra_opt.simulation.cluster import Cluster


# Rules that let GPUs idle on purpose, and rounds that end as a job does.


def test_newcomers_wait_longer_than_others_may_be_stuck():
    """For the next shares, 1,920 s after the last ones, which are 192 rounds."""
    rule = GavelRounds(Objective.MAX_MIN_SHARE, newcomers_run=False)
    jobs = [gang("x", 15, release_s=10), gang("y", 5, release_s=12)]
    assert completions(simulate(jobs, cluster_of({"a": 1}), rule)) == [25, 10 + 1920 + 5]


@pytest.mark.parametrize(("rate", "rounds"), [(0.7, 3), (5 / 7, 3), (13 / 3, 3), (5 / 3, 17)])
def test_a_round_is_decided_once(rate, rounds):
    """Also if rounding leaves a job that ends with the round a little to do."""
    asked_s = []

    def first_fit(state: RoundState) -> Decision:
        asked_s.append(state.now_s)
        return FirstFit().decide(state)

    jobs = [gang("x", rounds * 10 * rate, a=rate), gang("y", 5 * rate, a=rate)]
    simulate(jobs, cluster_of({"a": 1}), Scripted(first_fit))
    assert asked_s == [10.0 * number for number in range(rounds + 1)]


# What a policy may not do, and what cannot be.


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"a": 1, "b": 1}, "job x needs 3 GPUs of one type, but cluster small has 2 of a, 1 of b"),
        ({"b": 1}, "job x has a gang of 2 GPUs, but no GPU type in cluster small can run it"),
    ],
)
def test_gangs_too_large(rates, message):
    """A gang that fits no type alone, of those that can run it, is refused beforehand."""
    jobs = [gang("x", 1, gang=1 + len(rates), **rates)]
    with pytest.raises(UserError, match=message):
        simulate(jobs, cluster_of({"a": 2, "b": 1}))


TYPES = ("a", "b")
RATES = st.sampled_from((0.0, 0.5, 1.0, 2.0, 3.0))

ALONE = [name for name in ROUND_POLICIES if name != "gavel-gandiva"]
"""Those that need not know how fast two jobs are on the same GPUs, which is not drawn here."""


@st.composite
def drawn_cases(draw: st.DrawFn) -> tuple[Cluster, list[Job]]:
    """Draw a cluster of two types, and a few gangs that fit it."""
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
        half = {name: rate / 2 for name, rate in rates.items()}
        job = GangJob(
            id=f"j{number}",
            gang=draw(st.integers(1, 3)),
            steps=draw(st.sampled_from((1.0, 10.0, 35.0, 120.0))),
            release_s=release_s,
            throughput=rates,
            spread_throughput=draw(st.sampled_from((None, half))),
            weight=draw(st.sampled_from((1.0, 2.0))),
        )
        jobs.append(Job.of_gang(job))
        assume(Speed(cluster).rates_of(jobs[-1]))
    return cluster, jobs


@pytest.mark.parametrize("name", ALONE)
@draws(10)
@given(case=drawn_cases())
def test_without_costs_it_is_the_schedule_of_the_solver(name, case):
    """The simulated cluster and the policy as a solver complete each job in the same round."""
    (cluster, drawn), free, scheme = case, FREE_ROUNDS, find_scheme(name)
    jobs = [job for job in drawn if scheme.obstacle(workload_of(job), cluster, free) is None]
    assume(jobs)
    simulation = run_rule(ROUND_POLICIES[name](), workload_of(*jobs), cluster, free)
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


PACKING = ["gavel-las", "gavel-ftf", "gavel-makespan", "gavel-water-filling", "gavel-fifo"]


@pytest.mark.parametrize("scheme", [*PACKING, "gavel-gandiva"])
def test_all_that_is_conserved(scheme):
    """Many jobs of three kinds and two sizes that come, share, part and move on two servers."""
    kinds = [("pqr"[n % 3], 1 + (n % 4 == 3)) for n in range(16)]
    case = {
        "jobs": [
            (f"j{n}", 7.0 * n, 37.0 + 11 * n, {"kind": f"{of} on {gang}", "gang": gang, "a": 2.0})
            for n, (of, gang) in enumerate(kinds)
        ],
        "packed": 0.8,
        "servers": [{"a": 2}, {"a": 1}],
        "scheme": scheme,
        "parameters": {"least_reset_s": 0, **({"packs": True} if scheme in PACKING else {})},
    }
    simulation = replayed(case)
    require_conserved(simulation)
    assert any(run.slower_placement_s > 0 for run in simulation.runs), "nobody shared"
    assert completions(replayed(case)) == completions(simulation)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("gavel-las", "the workload has no throughputs of such pairs"),
        ("gavel-las-agnostic", "packs is true: must be false for a policy that ignores GPU types"),
    ],
)
def test_packing_is_refused(scheme, message):
    """Without packed rates, and for policies that are blind to types."""
    case = {"jobs": [("x", 0, 30)], "servers": [{"a": 1}], "parameters": {"packs": True}}
    with pytest.raises(UserError, match=message):
        replayed(case | {"scheme": scheme})
