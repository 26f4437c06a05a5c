"""How many servers are lent from one tick to the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.loaning.capacity import lendable_servers, peak_shares, shortfalls
from lyra_opt.simulation.loaning.forecast import (
    LastValue,
    Oracle,
    find_forecaster,
    forecaster_names,
)
from lyra_opt.simulation.loaning.orchestrator import Orchestrator
from tests.lyra_opt.simulation.loaning.demands import demand_of, demands

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


def test_the_headroom_is_enough_for_a_gentle_ramp():
    demand = demand_of([0.2 + 0.02 * step for step in range(15)])
    loans = orchestrator(forecaster=LastValue()).plan(demand, 14).on_loan
    assert not any(shortfalls(demand, loans, servers=100, interval_s=300))


@given(demands(), st.integers(0, 90), st.sampled_from([0.0, 0.02, 0.3]), INTERVALS)
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


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("servers", -1),
        ("headroom", 1.5),
        ("headroom", float("nan")),
        ("interval_s", 0.0),
    ],
)
def test_parameters_are_checked(field, value):
    with pytest.raises(FieldError, match=f"^{field} is "):
        orchestrator(**{field: value})
