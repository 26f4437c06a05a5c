"""Utilities: what a completion is worth, and which parameters make one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt import heterogeneous
from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous import Deadline, InverseJct, UtilityTable
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.tables import tables


def test_values():
    """Each kind at, before and after its steps."""
    assert InverseJct(scale=6.0).at(4.0) == 1.5
    deadline = Deadline(deadline_s=10.0, value=3.0, late_value=1.0)
    assert [deadline.at(jct_s) for jct_s in (9.0, 10.0, 10.5)] == [3.0, 3.0, 1.0]
    table = UtilityTable(entries=((2.0, 5.0), (4.0, 1.0)))
    assert [table.at(jct_s) for jct_s in (1.0, 2.0, 2.5, 4.0, 4.5)] == [5.0, 5.0, 1.0, 1.0, 0.0]


@given(heterogeneous_instances(objective="utility"), st.floats(0.1, 50), st.floats(0, 50))
def test_never_more_for_a_later_completion(instance, jct_s, later_s):
    """What bounds and models rest on."""
    for job in instance.jobs:
        assert job.utility.at(jct_s + later_s) <= job.utility.at(jct_s)


@pytest.mark.parametrize(("kind", "fields", "named"), tables(__file__)["defects"])
def test_defects_are_named(kind, fields, named):
    """The field that breaks its rule."""
    with pytest.raises(FieldError) as refusal:
        getattr(heterogeneous, kind)(**fields)
    assert refusal.value.field == named
