"""Integer programmes minimised term by term, compared with all values of the columns."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.preemption.exact.programme import Linear, Programme
from tests.draws import draws

VALUES = st.one_of(st.integers(-3, 5), st.integers(-(2**52), 2**52))
COSTS = st.one_of(st.integers(0, 5), st.integers(0, 2**52))


@st.composite
def programmes(draw):
    """Return upper limits, rows with limits, and terms with offsets."""
    upper = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    size = st.lists(VALUES, min_size=len(upper), max_size=len(upper))
    rows = draw(st.lists(st.tuples(size, st.integers(-(2**53), 2**53)), max_size=3))
    costs = st.lists(COSTS, min_size=len(upper), max_size=len(upper))
    terms = draw(st.lists(st.tuples(costs, st.integers(0, 9)), max_size=3))
    return upper, rows, terms


def built(upper, rows, terms):
    programme = Programme()
    columns = programme.columns(upper)
    programme.between(0, sum(upper), columns)
    for values, limit in rows:
        programme.at_most([limit], (0, columns, np.array(values)))
    programme.terms = [Linear(columns, np.array(costs), offset) for costs, offset in terms]
    return programme


def sums(values, factors):
    return sum(value * factor for value, factor in zip(values, factors, strict=True))


def least(upper, rows, terms):
    """Return the values of the terms of the best columns; None if no columns are feasible."""
    return min(
        (
            tuple(sums(x, costs) + offset for costs, offset in terms)
            for x in product(*(range(most + 1) for most in upper))
            if all(sums(x, values) <= limit for values, limit in rows)
        ),
        default=None,
    )


@draws(400)
@given(programmes(), st.data())
def test_all_values_of_the_columns_agree(parts, data):
    best = least(*parts)
    cutoff = None
    if best is not None and data.draw(st.booleans()):
        cutoff = [value + data.draw(st.integers(-1, 2)) for value in best]
    found = built(*parts).minimise(cutoff)
    assert found.is_proved
    if best is None or (cutoff is not None and best >= tuple(cutoff)):
        assert found.values is None
        assert found.bound is None
    else:
        upper, rows, terms = parts
        x = found.values.tolist()
        assert found.bound == best == tuple(sums(x, costs) + offset for costs, offset in terms)
        assert all(0 <= value <= most for value, most in zip(x, upper, strict=True))
        assert all(sums(x, values) <= limit for values, limit in rows)


def test_a_stopped_run_has_a_bound():
    programme = built([3, 3], [([-2, -1], -4)], [([5, 2], 7), ([1, 0], 0)])
    with limited_to(Limits(time_s=1e-9)):
        found = programme.minimise()
    assert (found.values, found.bound, found.is_proved) == (None, (7, 0), False)
    assert found.stopped_by is StoppedBy.TIME
