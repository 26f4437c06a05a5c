"""The checker: every rule by a case that breaks it alone; see `tests.test_right_answers`."""

import pytest

from lyra_opt.heterogeneous import Deadline, InverseJct, TimeShares, check
from tests.lyra_opt.heterogeneous.examples import entry, instance, job, schedule
from tests.tables import tables

TABLES = tables(__file__)

TWO = (job("a", 2, 8.0, utility=InverseJct(scale=8.0)), job("b", 1, 3.0, weight=2.0))


def test_nothing_is_worth_nothing():
    """Jobs need not complete where utility is what counts; elsewhere they must."""
    assert check(instance(*TWO), schedule()).objective == 0.0
    report = check(instance(*TWO, objective="makespan"), schedule())
    assert report.objective is None
    assert report.violations == ("job 'a' does not complete", "job 'b' does not complete")


@pytest.mark.parametrize(("lacks", "completes"), [(0.9e-9, True), (1.1e-9, False)])
def test_steps_tolerance(lacks, completes):
    """A relative 1e-9 of the steps may be missing, no more."""
    one = instance(job(steps=4.0 * (1 + lacks)))
    done = check(one, schedule(entry("a", 0, s1={"fast": 1}))).completed
    assert bool(done) is completes


BROKEN = tables(__file__)["broken"]


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_rules_are_named(rule):
    """One line each, and no objective."""
    entries, expected = BROKEN[rule]
    late = job("c", 1, throughput={"fast": 1.0}, release_s=0.5)
    made = schedule(*(entry(*when, **gpus) for *when, gpus in entries))
    report = check(instance(*TWO, late), made)
    assert report.objective is None
    (violation,) = report.violations
    assert expected in violation


def test_copies():
    """With forking copies add up, each on one server, no two on the same."""
    forks = instance(job("a", 1, 5.0), forking=True)
    both = schedule(entry("a", 0, s1={"fast": 1}), entry("a", 0, s2={"slow": 1}))
    assert check(forks, both).completed == ("a",)
    same = schedule(entry("a", 0, s1={"fast": 1}), entry("a", 0, s1={"slow": 1}))
    assert "twice on server 's1'" in check(forks, same).violations[0]
    wide = instance(job("a", 2, 5.0), forking=True)
    spread = schedule(entry("a", 0, s1={"slow": 1}, s2={"slow": 1}))
    assert "must be on one" in check(wide, spread).violations[0]


SHARED = (job("a", 1, 8.0), job("b", 2, 8.0, throughput={"fast": 2.0, "slow": 1.0}, weight=2.0))


@pytest.mark.parametrize(("shares", "expected"), TABLES["broken_rules_of_shares_are_named"])
def test_broken_rules_of_shares_are_named(shares, expected):
    """Also where a gang is larger than all GPUs of the type."""
    large = job("c", 3, throughput={"fast": 1.0, "slow": 1.0})
    report = check(instance(*SHARED, large, objective="throughput"), TimeShares(shares))
    (violation,) = report.violations
    assert expected in violation


def test_deadlines_of_cost():
    """A job must do its steps in what is left until its deadline."""
    due = job("a", 1, 8.0, utility=Deadline(deadline_s=5.0), elapsed_s=3.0)
    one = instance(due, objective="cost")
    assert check(one, TimeShares({"a": {"fast": 1.0}})).violations == ()
    assert "its deadline requires 4" in check(one, TimeShares({"a": {"slow": 1}})).violations[0]
    over = instance(job(utility=Deadline(deadline_s=3.0), elapsed_s=3.0), objective="cost")
    assert "deadline has passed" in check(over, TimeShares({"a": {"fast": 1}})).violations[0]


def test_no_share_never_finishes():
    """The ratio of finish times of a job that never runs is no number."""
    one = instance(job(), objective="finish_time_fairness")
    assert "never finishes" in check(one, TimeShares({})).violations[0]


def test_the_kind_of_solution_must_be_the_objectives():
    """Shares for one objective, schedules for the other."""
    assert check(instance(), TimeShares({})).violations
    assert check(instance(objective="cost"), schedule()).violations
