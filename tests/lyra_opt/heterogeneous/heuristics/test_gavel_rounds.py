"""Gavel's rounds: they come near the shares where they can, and never beyond what is there."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.heterogeneous import Deadline, Objective, TimeShares
from lyra_opt.heterogeneous.heuristics.gavel import GavelRounds, isolated_shares
from lyra_opt.heterogeneous.heuristics.gavel_policies import HierarchicalRounds
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from tests.lyra_opt.heterogeneous.heuristics.cases import decided, instance_of, job, run, state_of
from tests.tables import tables

TABLES = tables(__file__)

LAS = Objective.MAX_MIN_SHARE


def given_shares(shares=None, seen=None):
    """Return what gives the same shares, half of `a` by default, and notes what it is asked."""

    def tell(instance):
        if seen is not None:
            seen.append(instance)
        ids = [each.id for each in instance.jobs]
        return TimeShares({name: {"a": 0.5} if shares is None else shares[name] for name in ids})

    return tell


def rounds_of(found):
    """Return how many rounds each job has had."""
    return Counter(entry.job for entry in found.schedule.entries)


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
    asked = []
    run(GavelRounds(LAS, given_shares(seen=asked)), instance)
    assert ["".join(each.id for each in one.jobs) for one in asked] == ["x", "xy", "xyz"]


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


def test_gpus_that_a_gang_cannot_use_go_to_others():
    """Two gangs of two, one server of three GPUs and one of one: only one gang has a server."""
    gangs = [job(name, 100, 2, spread_throughput={"a": 0.0}) for name in ("x", "y")]
    jobs = [*gangs, job("small", 100), job("other", 100)]
    shares = given_shares({"x": {"a": 1.0}, "y": {"a": 1.0}, "small": {"a": 0}, "other": {"a": 0}})
    decision = decided(GavelRounds(LAS, shares), state_of(instance_of([{"a": 3}, {"a": 1}], jobs)))
    assert sorted(decision) == ["other", "small", "x"]


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


def test_entities_share_rounds_by_weight():
    """Jobs that name none are dealt out in turn; one that names an entity is of that."""
    jobs = [job(name, 99) for name in ("x", "y", "z")]
    jobs.append(job("w", 99, entity="light"))
    entities = [{"name": "light"}, {"name": "heavy", "weight": 3.0, "policy": "fifo"}]
    policy = HierarchicalRounds(entities)
    decided(policy, state_of(instance_of([{"a": 1}], jobs)))
    shares = {name: types["a"] for name, types in policy.shares.items()}
    assert shares == pytest.approx({"x": 1 / 12, "z": 1 / 12, "w": 1 / 12, "y": 3 / 4})


@pytest.mark.parametrize(("entities", "rule"), TABLES["entities_that_are_none_are_refused"])
def test_entities_that_are_none_are_refused(entities, rule):
    """With the place and the rule."""
    with pytest.raises(UserError, match=rule):
        HierarchicalRounds(entities)
