"""Loans: what can be lent, from one tick to the next, at best, and under each forecaster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.forecast import LastValue, Oracle, find_forecaster, forecaster_names
from lyra_opt.simulation.loaning import (
    Orchestrator,
    busy_servers,
    clairvoyant_loans,
    compare_forecasters,
    lendable_servers,
    peak_shares,
    shortfalls,
    value,
)
from tests.lyra_opt.simulation.demands import demand_of, demands
from tests.tables import tables

TABLES = tables(__file__)


SHARE = st.floats(0, 1)


@pytest.mark.parametrize(("share", "servers", "headroom", "lendable"), TABLES["lendable_servers"])
def test_lendable_servers_by_hand(share, servers, headroom, lendable):
    assert lendable_servers(share, servers, headroom) == lendable


@pytest.mark.parametrize(("share", "servers", "busy"), TABLES["busy_servers"])
def test_busy_servers_by_hand(share, servers, busy):
    assert busy_servers(share, servers) == busy


@given(SHARE, st.integers(0, 10**6), SHARE)
def test_what_is_lent_never_exceeds_what_is_idle(share, servers, headroom):
    lendable = lendable_servers(share, servers, headroom)
    assert 0 <= lendable <= servers - busy_servers(share, servers)
    assert lendable_servers(share, servers, 0.0) == servers - busy_servers(share, servers)


def test_a_loan_meets_the_demand_of_the_next_tick_too():
    demand = demand_of([0.1, 0.5, 0.2])
    assert peak_shares(demand, interval_s=300, intervals=4) == [0.5, 0.5, 0.2, 0.5]
    assert peak_shares(demand, interval_s=600, intervals=2) == [0.5, 0.5]


def test_shortfalls_by_hand():
    demand = demand_of([0.1, 0.5, 0.2])
    # 10 servers; the greatest needs are 5, 5 and 2.
    assert shortfalls(demand, [5, 7, 9], servers=10, interval_s=300) == [0, 2, 1]


@given(demands(), st.sampled_from([1, 7, 40, 80]), st.sampled_from([100, 300, 450, 900]))
def test_without_headroom_lendable_is_the_most_without_shortfall(demand, servers, interval_s):
    peaks = peak_shares(demand, interval_s=interval_s, intervals=8)
    lendable = [lendable_servers(peak, servers, 0.0) for peak in peaks]
    one_more = [loan + 1 for loan in lendable]
    assert not any(shortfalls(demand, lendable, servers=servers, interval_s=interval_s))
    assert shortfalls(demand, one_more, servers=servers, interval_s=interval_s) == [1] * 8


HEADROOM = st.sampled_from([0.0, 0.02, 0.3])
INTERVALS = st.sampled_from([100.0, 300.0, 450.0, 900.0])


def orchestrator(**changes):
    return Orchestrator(**{"servers": 100, "forecaster": Oracle(), **changes})


def test_loans_by_hand():
    """48 can be lent at 0.5, 68 at 0.3, 38 at 0.6; each loan has to stand the next step as well."""
    demand = demand_of([0.5, 0.3, 0.6])
    plan = orchestrator().plan(demand, 3)
    assert (plan.interval_s, plan.on_loan, plan.busy_share) == (300, (48, 38, 38), (0.5, 0.3, 0.6))


@given(demands(), st.integers(0, 90), HEADROOM, INTERVALS)
def test_with_the_oracle_there_is_no_shortfall(demand, servers, headroom, interval_s):
    """And what is lent is all that can be."""
    oracle = orchestrator(servers=servers, headroom=headroom, interval_s=interval_s)
    loans = oracle.plan(demand, 12).on_loan
    peaks = peak_shares(demand, interval_s=interval_s, intervals=12)
    assert list(loans) == [lendable_servers(peak, servers, headroom) for peak in peaks]
    assert not any(shortfalls(demand, loans, servers=servers, interval_s=interval_s))


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


@pytest.mark.parametrize(("lendable", "return_cost_s", "loans"), TABLES["clairvoyant_loans"])
def test_clairvoyant_loans_by_hand(lendable, return_cost_s, loans):
    assert clairvoyant_loans(lendable, interval_s=300, return_cost_s=return_cost_s) == loans


EVERY = [find_forecaster(name) for name in forecaster_names()]


def test_a_comparison_by_hand():
    """Demand goes round: the greatest needs are 4, 4, 4 and 2 servers.

    The last value lends 7, 5, 5, 7; the first loan meets a need of 4.
    """
    demand, costs = demand_of([0.2, 0.4, 0.4, 0.2]), {"headroom": 0.1, "return_cost_s": 60}
    records = compare_forecasters(demand, [LastValue()], servers=10, **costs)
    names = ("name", "returned_servers", "shortfall_server_intervals", "value_server_s")
    assert [tuple(getattr(record, name) for name in names) for record in records] == [
        ("clairvoyant", 0, 0, 26 * 300),
        ("clairvoyant-with-headroom", 0, 0, 22 * 300),
        ("last-value", 2, 1, 24 * 300 - 2 * 60),
    ]
    shares = [record.share_of_clairvoyant for record in records]
    assert shares == pytest.approx([1, 22 / 26, 7080 / 7800])
    # It expects needs of 2, 4, 4 and 2 servers.
    assert [record.forecast_error_servers for record in records] == pytest.approx([0, 0, 2 / 4])


def test_where_nothing_can_be_lent_there_is_no_share():
    records = compare_forecasters(demand_of([1.0, 1.0]), EVERY, servers=10, return_cost_s=0)
    assert {(each.share_of_clairvoyant, each.value_server_s) for each in records} == {(None, 0.0)}


def test_less_than_an_interval_cannot_be_compared():
    with pytest.raises(FieldError, match="^interval_s is 600: must be at most the length of the"):
        compare_forecasters(demand_of([0.5]), EVERY, servers=1, return_cost_s=0, interval_s=600)
