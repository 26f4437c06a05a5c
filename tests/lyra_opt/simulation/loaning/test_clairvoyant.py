"""The best loans for one who knows the demand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.loaning.clairvoyant import clairvoyant_loans, returned_servers, value

SERIES = st.lists(st.integers(0, 5), max_size=9)


def best_value(lendable, interval_s, return_cost_s):
    """Return the optimum by dynamic programming over (interval, servers on loan)."""
    best = {0: 0}
    for limit in lendable:
        best = {
            loan: interval_s * loan
            + max(worth - return_cost_s * max(0, old - loan) for old, worth in best.items())
            for loan in range(limit + 1)
        }
    return max(best.values())


@given(SERIES, st.integers(1, 3), st.integers(0, 12))
def test_no_loans_are_worth_more(lendable, interval_s, return_cost_s):
    costs = {"interval_s": interval_s, "return_cost_s": return_cost_s}
    loans = clairvoyant_loans(lendable, **costs)
    assert all(0 <= loan <= limit for loan, limit in zip(loans, lendable, strict=True))
    assert value(loans, **costs) == best_value(lendable, interval_s, return_cost_s)


@given(SERIES, st.integers(1, 3), st.integers(0, 12))
def test_what_is_worth_nothing_is_not_lent(lendable, interval_s, return_cost_s):
    # A cost a little higher leaves all that was worth more than the lower one.
    loans = clairvoyant_loans(lendable, interval_s=interval_s, return_cost_s=return_cost_s)
    higher = return_cost_s + 1 / 8
    assert loans == clairvoyant_loans(lendable, interval_s=interval_s, return_cost_s=higher)


@pytest.mark.parametrize(
    ("lendable", "return_cost_s", "loans"),
    [
        ([], 0, []),
        ([0, 0], 0, [0, 0]),
        ([2, 5, 1, 0], 0, [2, 5, 1, 0]),
        ([2, 5, 1, 0], 300, [2, 2, 1, 0]),  # a run of one interval is worth 0, not above
        ([2, 5, 1, 0], 600, [1, 1, 1, 0]),
        ([2, 5, 1, 0], 900, [0, 0, 0, 0]),
        ([0, 1, 3], 10**9, [0, 1, 3]),  # nothing is returned within the horizon
        ([3, 1, 3], 450, [1, 1, 3]),
        ([0, 4, 4, 2, 4, 4, 0], 700, [0, 2, 2, 2, 2, 2, 0]),  # the dip cuts levels 3 and 4 in two
    ],
)
def test_by_hand(lendable, return_cost_s, loans):
    assert clairvoyant_loans(lendable, interval_s=300, return_cost_s=return_cost_s) == loans


def test_value_by_hand():
    loans = [2, 5, 1, 3, 3]
    assert returned_servers(loans) == 4
    assert value(loans, interval_s=300, return_cost_s=100) == 14 * 300 - 400


@given(SERIES)
def test_free_returns_lend_all_that_can_be_lent(lendable):
    assert clairvoyant_loans(lendable, interval_s=300, return_cost_s=0) == lendable


@given(SERIES, st.integers(0, 12), st.integers(0, 12))
def test_dearer_returns_lend_no_more(lendable, cost, extra):
    cheap = clairvoyant_loans(lendable, interval_s=1, return_cost_s=cost)
    dear = clairvoyant_loans(lendable, interval_s=1, return_cost_s=cost + extra)
    assert all(less <= more for less, more in zip(dear, cheap, strict=True))


@pytest.mark.parametrize(
    ("lendable", "interval_s", "return_cost_s", "field"),
    [
        ([1, -1], 300, 0, r"lendable\[1\]"),
        ([1], 0, 0, "interval_s"),
        ([1], 300, -1, "return_cost_s"),
    ],
)
def test_arguments_are_checked(lendable, interval_s, return_cost_s, field):
    with pytest.raises(FieldError, match=f"^{field} is "):
        clairvoyant_loans(lendable, interval_s=interval_s, return_cost_s=return_cost_s)
