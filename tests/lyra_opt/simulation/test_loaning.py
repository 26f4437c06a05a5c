"""Loans: what can be lent, from one tick to the next, at best, and under each forecaster."""

from __future__ import annotations

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
from tests.lyra_opt.simulation.demands import demand_of, demands, sine
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


@given(SHARE, SHARE, st.integers(0, 10**6), SHARE)
def test_more_demand_never_lends_more(share, other, servers, headroom):
    low, high = sorted((share, other))
    assert lendable_servers(low, servers, headroom) >= lendable_servers(high, servers, headroom)


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


def test_the_share_of_now_counts_even_if_less_is_forecast():
    demand = demand_of([0.9, 0.1, 0.1])
    assert orchestrator().lends(demand, 0.0) == 8


def test_last_value_falls_short_on_a_steep_ramp():
    demand = demand_of([0.2 + 0.05 * step for step in range(15)])
    loans = orchestrator(forecaster=LastValue()).plan(demand, 14).on_loan
    # Each step brings 5 busy servers, of which the headroom holds 2.
    assert shortfalls(demand, loans, servers=100, interval_s=300) == [3] * 14


@given(demands(), st.integers(0, 90), HEADROOM, INTERVALS)
def test_with_the_oracle_there_is_no_shortfall(demand, servers, headroom, interval_s):
    """And what is lent is all that can be."""
    oracle = orchestrator(servers=servers, headroom=headroom, interval_s=interval_s)
    loans = oracle.plan(demand, 12).on_loan
    peaks = peak_shares(demand, interval_s=interval_s, intervals=12)
    assert list(loans) == [lendable_servers(peak, servers, headroom) for peak in peaks]
    assert not any(shortfalls(demand, loans, servers=servers, interval_s=interval_s))


@given(demands(), st.sampled_from(forecaster_names()), st.integers(0, 30), INTERVALS)
def test_what_is_busy_now_is_never_lent(demand, name, tick, interval_s):
    lending = orchestrator(servers=40, forecaster=find_forecaster(name), interval_s=interval_s)
    lent = lending.lends(demand, tick * interval_s)
    assert 0 <= lent <= 40
    now = demand_of([demand.at(tick * interval_s)])
    assert not shortfalls(now, [lent], servers=40, interval_s=300)[0]


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


@pytest.mark.parametrize(("lendable", "return_cost_s", "loans"), TABLES["clairvoyant_loans"])
def test_clairvoyant_loans_by_hand(lendable, return_cost_s, loans):
    assert clairvoyant_loans(lendable, interval_s=300, return_cost_s=return_cost_s) == loans


@given(SERIES, st.integers(0, 12), st.integers(0, 12))
def test_dearer_returns_lend_no_more(lendable, cost, extra):
    cheap = clairvoyant_loans(lendable, interval_s=1, return_cost_s=cost)
    dear = clairvoyant_loans(lendable, interval_s=1, return_cost_s=cost + extra)
    assert all(less <= more for less, more in zip(dear, cheap, strict=True))


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


@given(
    demands(),
    st.fixed_dictionaries(
        {
            "headroom": HEADROOM,
            "return_cost_s": st.integers(0, 3000),
            "interval_s": st.sampled_from([150.0, 300.0, 900.0]),
        }
    ),
)
def test_without_shortfall_nobody_beats_the_clairvoyant(demand, settings):
    demand = demand_of((demand.busy_share * 20)[:20])
    best, with_headroom, *others = compare_forecasters(demand, EVERY, servers=40, **settings)
    assert best.shortfall_server_intervals == with_headroom.shortfall_server_intervals == 0
    oracle = others[0]
    assert oracle.shortfall_server_intervals == 0
    assert oracle.value_server_s <= with_headroom.value_server_s <= best.value_server_s
    for record in others:
        if not record.shortfall_server_intervals:
            assert record.value_server_s <= best.value_server_s


def test_a_steep_morning_costs_last_value_but_not_autoregression():
    # Up to 1.3% of 100 servers a step: without headroom, each rise is a shortfall.
    costs = {"headroom": 0.001, "return_cost_s": 0}
    records = compare_forecasters(sine(4, amplitude=0.4), EVERY, servers=2000, **costs)
    lacking = {record.name: record.shortfall_server_intervals for record in records}
    assert lacking["last-value"] > 3 * 100
    # It has nothing to learn from on the first day.
    assert lacking["autoregressive"] < lacking["last-value"] / 2
    assert lacking["oracle"] == 0


def test_where_nothing_can_be_lent_there_is_no_share():
    records = compare_forecasters(demand_of([1.0, 1.0]), EVERY, servers=10, return_cost_s=0)
    assert {(each.share_of_clairvoyant, each.value_server_s) for each in records} == {(None, 0.0)}


def test_less_than_an_interval_cannot_be_compared():
    with pytest.raises(FieldError, match="^interval_s is 600: must be at most the length of the"):
        compare_forecasters(demand_of([0.5]), EVERY, servers=1, return_cost_s=0, interval_s=600)
