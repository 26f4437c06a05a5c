"""The objective: tuples of terms and the integers that order them in the same way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.preemption.costs import Costs
from lyra_opt.preemption.objective import Objective, Term
from tests.draws import draws
from tests.lyra_opt.preemption.examples import example

NOTHING = Costs(*np.zeros((3, 0)))
LARGEST = st.lists(st.integers(1, 2**60), min_size=1, max_size=6)


def objective_of(largest):
    return Objective(tuple(Term(f"t{n}", None, most, NOTHING) for n, most in enumerate(largest)))


@given(st.data(), LARGEST)
@draws(300)
def test_integers_order_tuples(data, largest):
    """The code keeps the lexicographic order, and `decode` returns the tuple."""
    objective = objective_of(largest)
    tuples = st.tuples(*(st.integers(0, most) for most in largest))
    one, other = data.draw(tuples), data.draw(tuples)
    codes = [objective.encode(each) for each in (one, other)]
    assert (codes[0] < codes[1]) == (one < other)
    assert [objective.decode(code) for code in codes] == [one, other]
    assert codes[0] <= objective.largest == objective.encode(largest)
    assert codes[0] == sum(v * unit for v, unit in zip(one, objective.units, strict=True))


@given(st.data(), LARGEST)
@draws(100)
def test_a_bound_decodes_to_a_bound(data, largest):
    """An integer below the code of a tuple decodes to a tuple that is not above it."""
    objective = objective_of(largest)
    values = data.draw(st.tuples(*(st.integers(0, most) for most in largest)))
    bound = data.draw(st.integers(0, objective.encode(values)))
    assert objective.decode(bound) <= values


def test_values_out_of_range():
    """A value above its largest would spill into the term before it."""
    objective = objective_of([3, 5])
    for values in ((4, 0), (0, 6), (-1, 0)):
        with pytest.raises(ValueError, match="must be from 0 to"):
            objective.encode(values)


def test_no_terms():
    """An objective without terms has the value 0, which decodes to the empty tuple."""
    empty = objective_of([])
    assert (empty.encode(()), empty.decode(0), empty.units, empty.largest) == (0, (), (), 0)


def test_one_term_is_its_own_value():
    """A single term that matters is not encoded, so that people can read it."""
    terms = example(objective=["moved_pods", "lost:gpu", "unplaced"]).terms
    assert [term.key for term in terms.terms] == ["lost:gpu"]
    assert terms.encode([8]) == 8
