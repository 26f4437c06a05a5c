"""The toolkit's own lower bound by hand; the tests of `exact` compare it with brute force."""

import pytest

from lyra_opt.core.fields import written
from lyra_opt.preemption.bounds.dual_bound import dual_bound
from tests.lyra_opt.preemption.heuristics.test_scenarios import instance_of
from tests.reference import preemption as reference
from tests.tables import tables

CASES = tables(__file__)


@pytest.mark.parametrize("case", CASES)
def test_values_by_hand(case):
    """The bound and the optimum have the stated values."""
    given = dict(CASES[case])
    bound, optimum = given.pop("bound"), given.pop("optimum")
    instance = instance_of(**given)
    assert dual_bound(instance) == bound
    assert reference.optimum(written(instance)) == optimum


def test_an_impossible_demand_has_the_largest_bound():
    """No valid solution can contradict it."""
    instance = instance_of(nodes={"a": 4}, gangs={"g": {"on": "a"}}, pending={"gpus": 5})
    assert dual_bound(instance) == instance.terms.largest
