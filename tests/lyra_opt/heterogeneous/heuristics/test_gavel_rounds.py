"""Gavel's rounds: they come near the shares where they can, and never beyond what is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous import Deadline, Objective, TimeShares
from lyra_opt.heterogeneous.heuristics.gavel import (
    GavelRounds,
    isolated_rate,
    isolated_shares,
    share_instance,
    solver_shares,
)
from lyra_opt.heterogeneous.heuristics.gavel_policies import HierarchicalRounds, gavel_policies
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import decided, instance_of, job, run, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.heterogeneous import Instance
    from lyra_opt.heterogeneous.heuristics.policy_solver import Run

LAS = Objective.MAX_MIN_SHARE


def given_shares(
    shares: Mapping[str, Mapping[str, float]] | None = None, seen: list[Instance] | None = None
) -> Callable[[Instance], TimeShares]:
    """Return what gives the same shares, half of `a` by default, and notes what it is asked."""

    def tell(instance: Instance) -> TimeShares:
        if seen is not None:
            seen.append(instance)
        ids = [each.id for each in instance.jobs]
        return TimeShares({name: {"a": 0.5} if shares is None else shares[name] for name in ids})

    return tell


def rounds_of(found: Run) -> Counter[str]:
    """Return how many rounds each job has had."""
    return Counter(entry.job for entry in found.schedule.entries)


@draws(60)
@given(data=st.data())
def test_received_shares_tend_to_the_programmes(data):
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
    had = rounds_of(run(policy, instance))
    for each, share in zip(jobs, shares, strict=True):
        assert abs(had[each.id] / rounds - share) <= 2 * len(jobs) / rounds


@draws(40)
@given(
    instance=heterogeneous_instances(objective="utility", forking=False, max_rounds=6),
    name=st.sampled_from(sorted(gavel_policies())),
)
def test_no_type_gives_more_time_than_it_has(instance, name):
    """And a gang is on one type in a round."""
    found = run(name, instance)
    gpu_rounds: Counter[str] = Counter()
    for entry in found.schedule.entries:
        names = {kind for types in entry.gpus.values() for kind in types}
        assert len(names) == 1
        gpu_rounds[names.pop()] += sum(sum(types.values()) for types in entry.gpus.values())
    for kind, there in instance.gpus_of_type.items():
        assert gpu_rounds[kind] <= there * instance.horizon_rounds


def test_priorities_by_hand():
    """Shares 3/4 and 1/4 of one GPU, half a round credited to each: x x y x, then again."""
    jobs = [job("x", 99), job("y", 99)]
    instance = instance_of([{"a": 1}], jobs, objective="utility", horizon_rounds=8)
    shares = given_shares({"x": {"a": 0.75}, "y": {"a": 0.25}})
    # x / f: 1.5 and .5; 1 and 1 (x first by deficit, then share); 9/10 and 3/2; ...
    entries = run(GavelRounds(LAS, shares), instance).schedule.entries
    assert "".join(entry.job for entry in entries) == "xxyxxxyx"


def test_jobs_without_a_share_fill_what_is_left():
    """No GPU idles because shares are old."""
    jobs = [job("x", 99), job("new", 99, release_s=1.0)]
    instance = instance_of([{"a": 2}], jobs, objective="utility", horizon_rounds=3)
    assert rounds_of(run("gavel-las", instance)) == {"x": 3, "new": 2}


@pytest.mark.parametrize(
    ("release_s", "rounds"),
    [
        (1.0, {"x": 8, "new": 2}),  # x has shares from 360 s on, the newcomer from 2520 s on
        (0.0, {"x": 9, "new": 7}),  # a time of 0 is never to Gavel's code: shares are anew
    ],
)
def test_newcomers_may_have_to_wait_for_shares(release_s, rounds):
    """As in Gavel's code: the second GPU idles for 1920 s, the newcomer's turn though it is."""
    jobs = [job("x", 1e6, release_s=release_s), job("new", 1e6, release_s=400.0)]
    instance = instance_of([{"a": 2}], jobs, objective="utility", round_s=360.0, horizon_rounds=9)
    assert rounds_of(run(GavelRounds(LAS, newcomers_run=False), instance)) == rounds


def test_gpus_of_newcomers_that_wait_are_nobodys():
    """Not even where others fill what a gang could not be placed on."""
    gangs = [job(name, 100, 2, spread_throughput={"a": 0.0}) for name in ("x", "y")]
    small = [job(name, 100) for name in ("p", "q", "r")]
    instance = instance_of([{"a": 3}, {"a": 1}, {"a": 1}], [job("new", 100), *gangs, *small])
    everybody = state_of(instance, now_s=1.0)
    shares = {each.id: {"a": 1.0 if each.gang == 2 else 0.0} for each in instance.jobs}
    first = replace(everybody, jobs=[each for each in everybody.jobs if each.job.id != "new"])
    for newcomers_run, filled in ((True, ["new", "p", "q", "x"]), (False, ["p", "q", "x"])):
        policy = GavelRounds(LAS, given_shares(shares), newcomers_run=newcomers_run)
        decided(policy, first)
        assert sorted(policy.decide(replace(everybody, now_s=2.0))) == filled


def test_shares_are_computed_at_most_every_so_often():
    """1920 s after the last time, and only when jobs have come or gone."""
    jobs = [job("x", 1e6), job("y", 1e6, release_s=360.0), job("z", 1e6, release_s=7200.0)]
    instance = instance_of([{"a": 1}], jobs, objective="utility", round_s=360.0, horizon_rounds=25)
    asked: list[Instance] = []
    run(GavelRounds(LAS, given_shares(seen=asked)), instance)
    assert ["".join(each.id for each in one.jobs) for one in asked] == ["x", "xy", "xyz"]


def test_largest_gangs_are_placed_first_and_stay():
    """The pair gets the whole server, though the single job comes first; next round both stay."""
    jobs = [job("one", 99), job("pair", 99, gang=2)]
    instance = instance_of([{"a": 2}, {"a": 1}], jobs, objective="utility", horizon_rounds=2)
    entries = run("gavel-las", instance).schedule.entries
    placed = {(entry.job, entry.round): list(entry.gpus) for entry in entries}
    servers = {"one": ["s1"], "pair": ["s0"]}
    assert placed == {(name, number): servers[name] for name in servers for number in (0, 1)}


def test_deadlines_that_cannot_be_kept_are_given_up():
    """The programme has no solution with them; the jobs run without."""
    jobs = [job(name, 10, utility=Deadline(deadline_s=11)) for name in ("x", "y")]
    instance = instance_of([{"a": 1}], jobs, objective="mean_jct")
    assert set(run("gavel-cost", instance).last_round) == {"x", "y"}


def test_deadlines_need_not_be_kept():
    """The slow job has a deadline that takes half of the GPU; without it the fast one has all."""
    slow = job("slow", 10, utility=Deadline(deadline_s=20))
    instance = instance_of([{"a": 1}], [slow, job("fast", 100, throughput={"a": 9.0})])
    for keeps_deadlines, share in ((True, 0.5), (False, 0.0)):
        policy = GavelRounds(Objective.COST, keeps_deadlines=keeps_deadlines)
        decided(policy, state_of(instance))
        assert policy.shares.get("slow", {}).get("a", 0.0) == pytest.approx(share, abs=1e-5)


def test_makespan_shares_let_all_complete_together():
    """Steps 30 and 10 on one GPU: 3/4 and 1/4 of the time, all done at 40 s."""
    instance = instance_of([{"a": 1}], [job("x", 30), job("y", 10)])
    shares = solver_shares(share_instance(state_of(instance), Objective.MAKESPAN_SHARE))
    assert [shares.shares[name]["a"] for name in "xy"] == pytest.approx([0.75, 0.25])


def test_a_gang_that_no_type_holds_never_runs():
    """Gavel gives a job one type at a time; Hadar mixes them."""
    instance = instance_of([{"a": 1, "b": 1}], [job("x", 2, gang=2, throughput={"a": 1, "b": 1})])
    assert decided(ROUND_POLICIES["gavel-las"](), state_of(instance)) == {}
    assert decided(ROUND_POLICIES["hadar"](), state_of(instance)) != {}


def test_a_job_that_can_run_nowhere_has_no_rates():
    """It waits, and what types of GPUs it does not name is no error."""
    nowhere = job("nowhere", 2, gang=2, throughput={"b": 1})
    jobs = [nowhere, job("x", 2, throughput={"a": 1})]
    instance = instance_of([{"a": 1}, {"b": 1}], jobs)
    assert set(decided(ROUND_POLICIES["gavel-las"](), state_of(instance))) == {"x"}


def test_time_beyond_what_shares_are_told_is_cut():
    """Rounds may be longer than a job may be said to have been there."""
    jobs = [job("x", 2e30), job("y", 2e30)]
    instance = instance_of([{"a": 1}], jobs, round_s=1e30, horizon_rounds=9)
    assert run("gavel-las", instance).schedule.entries


def test_isolated_time_is_counted_in_steps():
    """Two jobs, one GPU: alone on half of it a job would have taken twice as long."""
    assert isolated_rate(job("x", 1), {"a": 1}, 2) == 0.5
    assert isolated_rate(job("x", 1, throughput={"a": 3.0, "b": 1.0}), {"a": 3, "b": 1}, 2) == 2.5
    jobs = [job("x", 99), job("y", 99), job("z", 99, release_s=4.0)]
    instance = instance_of([{"a": 1}], jobs, objective="utility", horizon_rounds=5)
    seen: list[Instance] = []
    shares = given_shares(seen=seen)
    run(GavelRounds(Objective.FINISH_TIME_FAIRNESS, shares, least_reset_s=0.0), instance)
    elapsed_s = [{each.id: each.isolated_elapsed_s for each in one.jobs} for one in seen]
    assert elapsed_s == [{"x": 0.0, "y": 0.0}, {"x": 4.0, "y": 4.0, "z": 0.0}]


def test_a_gang_is_promised_what_it_can_get():
    """No server holds two workers: the rate of the programme is that on several."""
    wide = job("wide", 100, 2, throughput={"a": 10.0}, spread_throughput={"a": 1.0})
    asked: list[Instance] = []
    policy = GavelRounds(LAS, given_shares(seen=asked))
    decided(policy, state_of(instance_of([{"a": 1}, {"a": 1}], [wide])))
    assert asked[0].jobs[0].throughput == {"a": 1.0}


def test_gpus_that_a_gang_cannot_use_go_to_others():
    """Two gangs of two, one server of three GPUs and one of one: only one gang has a server."""
    gangs = [job(name, 100, 2, spread_throughput={"a": 0.0}) for name in ("x", "y")]
    jobs = [*gangs, job("small", 100), job("other", 100)]
    shares = given_shares({"x": {"a": 1.0}, "y": {"a": 1.0}, "small": {"a": 0}, "other": {"a": 0}})
    decision = decided(GavelRounds(LAS, shares), state_of(instance_of([{"a": 3}, {"a": 1}], jobs)))
    assert sorted(decision) == ["other", "small", "x"]


def instances_of_alike_gpus() -> st.SearchStrategy[Instance]:
    """Draw jobs that run on all types, as fast on each."""
    jobs = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=6)
    return st.builds(
        lambda of_a, of_b, drawn: instance_of(
            [{"a": of_a}, {"b": of_b}],
            [
                job(f"j{place}", 100, gang, weight=weight, throughput={"a": 1.0, "b": 1.0})
                for place, (gang, weight) in enumerate(drawn)
            ],
            objective=LAS,
        ),
        st.integers(3, 6),
        st.integers(3, 6),
        jobs,
    )


@draws(40)
@given(instance=instances_of_alike_gpus(), factors=st.lists(st.floats(0.1, 10.0), min_size=2))
def test_who_knows_nothing_of_types_is_fair_in_gpu_time(instance, factors):
    """As fair as the programme on one kind of GPUs, whatever the rates are; on all types alike."""
    jobs = tuple(
        replace(each, throughput={"a": factors[0], "b": factors[place % len(factors)]})
        for place, each in enumerate(instance.jobs)
    )
    policy = ROUND_POLICIES["gavel-las-agnostic"]()
    decided(policy, state_of(replace(instance, jobs=jobs)))
    there = instance.gpus_of_type
    total = {name: sum(types.values()) for name, types in policy.shares.items()}
    for kind, count in there.items():
        held = sum(each.gang * policy.shares[each.id].get(kind, 0.0) for each in jobs)
        assert held <= count * (1 + 1e-6)
        for name, types in policy.shares.items():
            assert types[kind] == pytest.approx(total[name] * count / sum(there.values()))
    # max v: gang_j y_j >= weight_j v, y_j <= 1, sum_j gang_j y_j <= GPUs.
    found = linprog(
        [*[0.0] * len(jobs), -1.0],
        A_ub=[
            *(
                [*(-float(each.gang) if each is other else 0.0 for other in jobs), each.weight]
                for each in jobs
            ),
            [*(float(each.gang) for each in jobs), 0.0],
        ],
        b_ub=[*[0.0] * len(jobs), float(sum(there.values()))],
        bounds=[*[(0.0, 1.0)] * len(jobs), (0.0, None)],
    )
    least = min(each.gang * total[each.id] / each.weight for each in jobs)
    assert least == pytest.approx(-found.fun, rel=1e-5)


def test_types_come_in_drawn_order_to_who_knows_nothing_of_them():
    """The only job is on either type; who knows them goes by the file."""
    instance = instance_of([{"a": 1}, {"b": 1}], [job("x", 99, throughput={"a": 1.0, "b": 9.0})])
    for name, known in (("gavel-las-agnostic", {"a", "b"}), ("gavel-las", {"a"})):
        policy, state = ROUND_POLICIES[name](), state_of(instance)
        policy.prepare(state, np.random.default_rng(0))
        placed = [policy.decide(state)["x"][0] for _ in range(20)]
        assert {kind for where in placed for types in where.values() for kind in types} == known


def test_types_that_a_job_cannot_use_are_not_shared_out_to_it():
    """It keeps what it has where it can run; the others are on what is left of each type."""
    anywhere = {"a": 1.0, "b": 5.0}
    jobs = [job("only-a", 99), *(job(name, 99, throughput=anywhere) for name in ("x", "y"))]
    policy = ROUND_POLICIES["gavel-isolated"]()
    decided(policy, state_of(instance_of([{"a": 2}, {"b": 1}], jobs)))
    assert policy.shares["only-a"] == pytest.approx({"a": 2 / 3})
    for name in ("x", "y"):
        assert policy.shares[name] == pytest.approx({"a": 4 / 7, "b": 3 / 7})


def test_isolated_shares_by_hand():
    """Three GPUs of one type and one of another: two jobs have half of each, cut to all time."""
    gang = job("gang", 9, 3, throughput={"a": 1.0, "b": 1.0})
    jobs = [job("one", 9, throughput={"a": 1.0, "b": 1.0}), gang]
    instance = instance_of([{"a": 3}, {"b": 1}], jobs, objective=LAS)
    shares = isolated_shares(instance).shares
    assert shares["one"] == pytest.approx({"a": 0.75, "b": 0.25})
    assert shares["gang"] == pytest.approx({"a": 0.5})


def test_water_filling_leaves_no_share_to_chance():
    """Two jobs share the slow type; who alone can use the fast one has all of it."""
    jobs = [job("x", 99), job("y", 99), job("z", 99, throughput={"b": 1.0})]
    policy = ROUND_POLICIES["gavel-water-filling"]()
    decided(policy, state_of(instance_of([{"a": 1}, {"b": 3}], jobs)))
    assert policy.shares["z"]["b"] == pytest.approx(1.0)
    assert [policy.shares[name]["a"] for name in "xy"] == pytest.approx([0.5, 0.5])


def test_entities_share_rounds_by_weight():
    """Jobs that name none are dealt out in turn; one that names an entity is of that."""
    jobs = [job(name, 99) for name in ("x", "y", "z")]
    jobs.append(job("w", 99, entity="light"))
    entities = [{"name": "light"}, {"name": "heavy", "weight": 3.0, "policy": "fifo"}]
    policy = HierarchicalRounds(entities)
    decided(policy, state_of(instance_of([{"a": 1}], jobs)))
    shares = {name: types["a"] for name, types in policy.shares.items()}
    assert shares == pytest.approx({"x": 1 / 12, "z": 1 / 12, "w": 1 / 12, "y": 3 / 4})


@pytest.mark.parametrize(
    ("entities", "rule"),
    [
        ([], "must be a list of at least one entity"),
        ("team", "must be a list of at least one entity"),
        ([{"name": "a"}, {"name": "a"}], "must have unique names"),
        ([{"name": "a", "weight": 0}], r"entities\[0\].weight"),
        ([{"name": "a", "policy": "best"}], r"entities\[0\].policy"),
        ([{"weight": 1}], "must be a table with the key name"),
    ],
)
def test_entities_that_are_none_are_refused(entities, rule):
    """With the place and the rule."""
    with pytest.raises(FieldError, match=rule):
        HierarchicalRounds(entities)
