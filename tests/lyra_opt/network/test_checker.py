"""The checker: every rule by a case that breaks it alone; see `tests.test_right_answers`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.problem import MOST_VIOLATIONS
from lyra_opt.network.checker import check
from lyra_opt.testing.strategies import network_instances, network_solutions_of
from tests.lyra_opt.network.examples import instance, job, placement, solution
from tests.tables import tables

TWO = (
    job("a", 4, score=0.25, waiting_s=1000.0, weight=2.0),
    job("b", 3, efficiency={"rack": 0.5, "network": 0.75}),
)


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
