"""The checker: every rule by a case that breaks it alone; see `tests.test_right_answers`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.problem import MOST_VIOLATIONS
from lyra_opt.network.checker import check, value_of
from lyra_opt.network.links import Tier
from lyra_opt.testing.strategies import network_instances, network_solutions_of
from tests.lyra_opt.network.examples import instance, job, placement, solution
from tests.tables import tables

TWO = (
    job("a", 4, score=0.25, waiting_s=1000.0, weight=2.0),
    job("b", 3, efficiency={"rack": 0.5, "network": 0.75}),
)
VALID = solution(placement("a", "machine", r1m0=4), placement("b", "rack", r0m0=2, r0m1=1))


def test_measures_by_hand():
    """Two machines end partly free, and one crossed tier halves what the gang of 3 computes."""
    report = check(instance(*TWO), VALID)
    assert (report.objective, report.computing_gpus) == (2 * 4 + 1.5, 4 + 1.5)
    assert (report.placed_gpus, report.fragmented_machines) == (7, 2)
    assert (report.machine_gangs, report.rack_gangs, report.network_gangs) == (1, 1, 0)


@pytest.mark.parametrize(("name", "value"), [("fewest_tiers", 34), ("least_fragmentation", 33)])
def test_points_stay_whole_numbers(name, value):
    """5 points for each of 7 GPUs, less one crossed tier or two machines that end partly free."""
    report = check(instance(*TWO, objective=name), VALID)
    assert (type(report.objective), report.objective) == (int, value)


def test_nothing_is_worth_nothing():
    """But machines that are partly free are there all the same."""
    one = instance(*TWO)
    assert check(one, solution()).objective == 0.0
    assert check(replace(one, objective="fewest_tiers"), solution()).objective == 0
    assert check(replace(one, objective="least_fragmentation"), solution()).objective == -1


def test_a_score_of_1_is_worth_its_waiting_alone():
    """Jobs that the network never slowed come last."""
    one = instance(job(score=1.0, waiting_s=10.0), objective="epoch", waiting_weight_per_s=0.5)
    assert value_of(one, one.jobs[0], Tier.RACK) == 10 * 0.5 * 2 * 0.5


BROKEN = tables(__file__)["broken"]


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_rules_are_named(rule):
    """One line each, and no objective."""
    placements, expected = BROKEN[rule]
    one = instance(*TWO, job("c", 1), job("d", 2, rack_timer_s=1.0))
    report = check(one, solution(*(placement(*where, **gpus) for *where, gpus in placements)))
    (violation,) = report.violations
    assert expected in violation
    assert report.objective is None


def test_many_violations_are_cut():
    """A solution file may hold anything."""
    unknown = [placement(f"x{n}", "machine", r0m0=1) for n in range(99)]
    violations = check(instance(), solution(*unknown)).violations
    assert len(violations) == MOST_VIOLATIONS + 1
    assert violations[-1] == "80 more violations"


@given(st.data())
def test_one_more_gpu_outweighs_tiers_and_fragments(data):
    """The objectives that count are lexicographic."""
    kinds = st.sampled_from(("fewest_tiers", "least_fragmentation"))
    one = data.draw(kinds.flatmap(lambda kind: network_instances(objective=kind)))
    first, second = (check(one, data.draw(network_solutions_of(one))) for _ in range(2))
    if first.placed_gpus > second.placed_gpus:
        assert first.objective > second.objective
