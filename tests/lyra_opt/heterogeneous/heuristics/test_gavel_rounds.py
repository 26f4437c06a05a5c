"""Gavel's rounds: they come near the shares where they can, and never beyond what is there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lyra_opt.heterogeneous import Deadline, Objective, check
from lyra_opt.heterogeneous.heuristics.gavel import (
    NAMES,
    GavelRounds,
    isolated_rate,
    share_instance,
    solver_shares,
)
from lyra_opt.heterogeneous.heuristics.policies import ROUND_POLICIES
from lyra_opt.heterogeneous.heuristics.policy_solver import run_policy
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.lyra_opt.heterogeneous.heuristics.cases import decided, instance_of, job, run, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.heterogeneous import Instance
    from lyra_opt.heterogeneous.heuristics.policy_solver import Run

LAS = Objective.MAX_MIN_SHARE


def given_shares(
    shares: Mapping[str, Mapping[str, float]],
) -> Callable[[Instance], Mapping[str, Mapping[str, float]]]:
    """Return what gives the same shares whatever the instance."""
    return lambda instance: {job.id: shares[job.id] for job in instance.jobs}


def rounds_of(found: Run) -> Counter[str]:
    """Return how many rounds each job has had."""
    return Counter(entry.job for entry in found.schedule.entries)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_received_shares_tend_to_the_programmes(data: st.DataObject) -> None:
    """One type, one-GPU jobs, every round filled: off by a few rounds after many."""
    gpus = data.draw(st.integers(1, 4))
    parts = data.draw(st.lists(st.integers(1, 6), min_size=gpus + 1, max_size=7))
    # Shares of at most 1 each that sum to the GPUs: fill up in proportion.
    shares = np.zeros(len(parts))
    while shares.sum() < gpus - 1e-12:
        growing = shares < 1
        weights = np.array(parts) * growing
        step = weights / weights.sum() * (gpus - shares.sum())
        shares = np.minimum(1.0, shares + step)
    jobs = [job(f"j{n}", 10_000) for n in range(len(parts))]
    of_job = {each.id: {"a": float(share)} for each, share in zip(jobs, shares, strict=True)}
    rounds = 400
    instance = instance_of([{"a": gpus}], jobs, objective="utility", horizon_rounds=rounds)
    policy = GavelRounds(LAS, given_shares(of_job))
    had = rounds_of(run_policy(policy, instance, np.random.default_rng(0)))
    for each, share in zip(jobs, shares, strict=True):
        assert abs(had[each.id] / rounds - share) <= 2 * len(jobs) / rounds


@settings(deadline=None, max_examples=40)
@given(
    instance=heterogeneous_instances(objective="utility", forking=False, max_rounds=6),
    name=st.sampled_from(sorted(NAMES.values())),
)
def test_no_type_gives_more_time_than_it_has(instance: Instance, name: str) -> None:
    """And a gang is on one type in a round."""
    found = run_policy(ROUND_POLICIES[name](), instance, np.random.default_rng(0))
    assert check(instance, found.schedule).violations == ()
    gpu_rounds: Counter[str] = Counter()
    for entry in found.schedule.entries:
        names = {kind for types in entry.gpus.values() for kind in types}
        assert len(names) == 1
        gpu_rounds[names.pop()] += sum(sum(types.values()) for types in entry.gpus.values())
    for kind, there in instance.gpus_of_type.items():
        assert gpu_rounds[kind] <= there * instance.horizon_rounds


def test_priorities_by_hand() -> None:
    """Shares 3/4 and 1/4 of one GPU, half a round credited to each: x x y x, then again."""
    jobs = [job("x", 99), job("y", 99)]
    instance = instance_of([{"a": 1}], jobs, objective="utility", horizon_rounds=8)
    shares = given_shares({"x": {"a": 0.75}, "y": {"a": 0.25}})
    found = run_policy(GavelRounds(LAS, shares), instance, np.random.default_rng(0))
    # x / f: 1.5 and .5; 1 and 1 (x first by deficit, then share); 9/10 and 3/2; ...
    assert "".join(entry.job for entry in found.schedule.entries) == "xxyxxxyx"


def test_jobs_without_a_share_fill_what_is_left() -> None:
    """No GPU idles because shares are old."""
    jobs = [job("x", 99), job("new", 99, release_s=1.0)]
    instance = instance_of([{"a": 2}], jobs, objective="utility", horizon_rounds=3)
    assert rounds_of(run("gavel-las", instance)) == {"x": 3, "new": 2}


def test_shares_are_computed_at_most_every_so_often() -> None:
    """1920 s after the last time, and only when jobs have come or gone."""
    asked = []

    def shares(instance: Instance) -> dict[str, dict[str, float]]:
        asked.append([each.id for each in instance.jobs])
        return {each.id: {"a": 0.5} for each in instance.jobs}

    jobs = [job("x", 1e6), job("y", 1e6, release_s=360.0), job("z", 1e6, release_s=7200.0)]
    instance = instance_of([{"a": 1}], jobs, objective="utility", round_s=360.0, horizon_rounds=25)
    run_policy(GavelRounds(LAS, shares), instance, np.random.default_rng(0))
    assert asked == [["x"], ["x", "y"], ["x", "y", "z"]]


def test_largest_gangs_are_placed_first_and_stay() -> None:
    """The pair gets the whole server, though the single job comes first; next round both stay."""
    jobs = [job("one", 99), job("pair", 99, gang=2)]
    instance = instance_of([{"a": 2}, {"a": 1}], jobs, objective="utility", horizon_rounds=2)
    found = run("gavel-las", instance)
    placed = {(entry.job, entry.round): list(entry.gpus) for entry in found.schedule.entries}
    assert placed == {
        ("one", 0): ["s1"],
        ("pair", 0): ["s0"],
        ("one", 1): ["s1"],
        ("pair", 1): ["s0"],
    }


def test_deadlines_that_cannot_be_kept_are_given_up() -> None:
    """The programme has no solution with them; the jobs run without."""
    jobs = [job(name, 10, utility=Deadline(deadline_s=11)) for name in ("x", "y")]
    instance = instance_of([{"a": 1}], jobs, objective="mean_jct")
    assert set(run("gavel-cost", instance).last_round) == {"x", "y"}


def test_makespan_shares_let_all_complete_together() -> None:
    """Steps 30 and 10 on one GPU: 3/4 and 1/4 of the time, all done at 40 s."""
    instance = instance_of([{"a": 1}], [job("x", 30), job("y", 10)])
    shares = solver_shares(share_instance(state_of(instance), Objective.MAKESPAN))
    assert shares is not None
    assert [shares[name]["a"] for name in "xy"] == pytest.approx([0.75, 0.25])


def test_a_gang_that_no_type_holds_never_runs() -> None:
    """Gavel gives a job one type at a time; Hadar mixes them."""
    instance = instance_of([{"a": 1, "b": 1}], [job("x", 2, gang=2, throughput={"a": 1, "b": 1})])
    assert decided(ROUND_POLICIES["gavel-las"](), state_of(instance)) == {}
    assert decided(ROUND_POLICIES["hadar"](), state_of(instance)) != {}


def test_a_job_that_can_run_nowhere_has_no_rates() -> None:
    """It waits, and what types of GPUs it does not name is no error."""
    nowhere = job("nowhere", 2, gang=2, throughput={"b": 1})
    jobs = [nowhere, job("x", 2, throughput={"a": 1})]
    instance = instance_of([{"a": 1}, {"b": 1}], jobs)
    assert set(decided(ROUND_POLICIES["gavel-las"](), state_of(instance))) == {"x"}


def test_time_beyond_what_shares_are_told_is_cut() -> None:
    """Rounds may be longer than a job may be said to have been there."""
    jobs = [job("x", 2e30), job("y", 2e30)]
    instance = instance_of([{"a": 1}], jobs, round_s=1e30, horizon_rounds=9)
    policy = ROUND_POLICIES["gavel-las"]()
    assert run_policy(policy, instance, np.random.default_rng(0)).schedule.entries


def test_isolated_time_is_counted_in_steps() -> None:
    """Two jobs, one GPU: alone on half of it a job would have taken twice as long."""
    assert isolated_rate(job("x", 1), {"a": 1}, 2) == 0.5
    assert isolated_rate(job("x", 1, throughput={"a": 3.0, "b": 1.0}), {"a": 3, "b": 1}, 2) == 2.5
    seen = []

    def shares(instance: Instance) -> dict[str, dict[str, float]]:
        seen.append({each.id: each.isolated_elapsed_s for each in instance.jobs})
        return {each.id: {"a": 0.5} for each in instance.jobs}

    jobs = [job("x", 99), job("y", 99), job("z", 99, release_s=4.0)]
    instance = instance_of([{"a": 1}], jobs, objective="utility", horizon_rounds=5)
    policy = GavelRounds(Objective.FINISH_TIME_FAIRNESS, shares, least_reset_s=0.0)
    run_policy(policy, instance, np.random.default_rng(0))
    assert seen == [{"x": 0.0, "y": 0.0}, {"x": 4.0, "y": 4.0, "z": 0.0}]


def test_a_gang_is_promised_what_it_can_get() -> None:
    """No server holds two workers: the rate of the programme is that on several."""
    wide = job("wide", 100, 2, throughput={"a": 10.0}, spread_throughput={"a": 1.0})
    asked = []

    def shares(instance: Instance) -> Mapping[str, Mapping[str, float]]:
        asked.append(instance)
        return {each.id: {"a": 0.5} for each in instance.jobs}

    decided(GavelRounds(LAS, shares), state_of(instance_of([{"a": 1}, {"a": 1}], [wide])))
    assert asked[0].jobs[0].throughput == {"a": 1.0}


def test_gpus_that_a_gang_cannot_use_go_to_others() -> None:
    """Two gangs of two, one server of three GPUs and one of one: only one gang has a server."""
    gangs = [job(name, 100, 2, spread_throughput={"a": 0.0}) for name in ("x", "y")]
    jobs = [*gangs, job("small", 100), job("other", 100)]
    shares = given_shares({"x": {"a": 1.0}, "y": {"a": 1.0}, "small": {"a": 0}, "other": {"a": 0}})
    decision = decided(GavelRounds(LAS, shares), state_of(instance_of([{"a": 3}, {"a": 1}], jobs)))
    assert sorted(decision) == ["other", "small", "x"]
