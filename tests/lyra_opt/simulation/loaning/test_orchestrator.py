"""How many servers are lent from one tick to the next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.errors import FieldError
from lyra_opt.simulation.loaning import Orchestrator, find_forecaster, forecaster_names
from lyra_opt.simulation.loaning.capacity import lendable_series, shortfalls
from lyra_opt.simulation.loaning.clairvoyant import clairvoyant_loans, shortest_loan
from lyra_opt.simulation.loaning.forecast import LastValue, Oracle
from tests.lyra_opt.simulation.loaning.demands import STEP_S, demand_of, demands

INTERVALS = st.sampled_from([100.0, 300.0, 450.0, 900.0])


def orchestrator(**changes):
    return Orchestrator(**{"servers": 100, "forecaster": Oracle(), **changes})


def test_decisions_by_hand():
    demand = demand_of([0.5, 0.3, 0.6])
    oracle = orchestrator()
    # 48 can be lent at 0.5, 68 at 0.3, 38 at 0.6; each loan has to stand the next step as well.
    first = oracle.decide(demand, 0.0, 0)
    assert (first.target_servers, first.lend_servers, first.reclaim_servers) == (48, 48, 0)
    second = oracle.decide(demand, 300.0, 48)
    assert (second.target_servers, second.lend_servers, second.reclaim_servers) == (38, 0, 10)
    third = oracle.decide(demand, 600.0, 38)
    assert (third.target_servers, third.lend_servers, third.reclaim_servers) == (38, 0, 0)


def test_the_share_of_now_counts_even_if_less_is_forecast():
    demand = demand_of([0.9, 0.1, 0.1])
    assert orchestrator().decide(demand, 0.0, 0).target_servers == 8


def test_servers_are_called_back_as_many_steps_ahead_as_asked():
    demand = demand_of([0.2] * 5 + [0.7] * 5)
    for ahead in (0, 1, 3):
        loans = orchestrator(ahead_steps=ahead).loans(demand, 9)
        assert loans == [78] * (5 - ahead) + [28] * (4 + ahead)


def test_a_dip_shorter_than_asked_for_is_not_lent():
    demand = demand_of([0.7] * 3 + [0.2] * 4 + [0.7] * 3)
    # Loans stand the next step too, so that the dip of 4 steps is one of 3 intervals.
    dip = [28] * 3 + [78] * 3 + [28] * 3
    assert orchestrator(lend_ahead_steps=3).loans(demand, 9) == dip
    assert orchestrator(lend_ahead_steps=4).loans(demand, 9) == [28] * 9


def test_last_value_falls_short_on_a_steep_ramp():
    demand = demand_of([0.2 + 0.05 * step for step in range(15)])
    loans = orchestrator(forecaster=LastValue()).loans(demand, 14)
    # Each step brings 5 busy servers, of which the headroom holds 2.
    assert shortfalls(demand, loans, servers=100, interval_s=300) == [3] * 14


def test_the_headroom_is_enough_for_a_gentle_ramp():
    demand = demand_of([0.2 + 0.02 * step for step in range(15)])
    loans = orchestrator(forecaster=LastValue()).loans(demand, 14)
    assert not any(shortfalls(demand, loans, servers=100, interval_s=300))


@given(
    demands(),
    st.integers(0, 90),
    st.sampled_from([0.0, 0.02, 0.3]),
    INTERVALS,
    st.none() | st.integers(0, 8),
)
def test_with_the_oracle_there_is_no_shortfall(demand, servers, headroom, interval_s, lend_ahead):
    oracle = orchestrator(
        servers=servers, headroom=headroom, interval_s=interval_s, lend_ahead_steps=lend_ahead
    )
    loans = oracle.loans(demand, 12)
    lendable = lendable_series(
        demand, servers=servers, headroom=headroom, interval_s=interval_s, intervals=12
    )
    assert all(0 <= loan <= limit for loan, limit in zip(loans, lendable, strict=True))
    assert not any(shortfalls(demand, loans, servers=servers, interval_s=interval_s))
    if lend_ahead is None:
        assert loans == lendable


@given(demands(), st.integers(0, 2400), st.sampled_from([0.0, 0.02]))
def test_the_oracle_need_look_no_further_than_the_shortest_loan(demand, return_cost_s, headroom):
    # A cluster that is full at the end cuts off loans whose end would lie beyond it.
    demand = demand_of([*demand.busy_share, *[1.0] * 10])
    intervals = len(demand.busy_share)
    shortest = shortest_loan(interval_s=STEP_S, return_cost_s=return_cost_s)
    oracle = orchestrator(servers=40, headroom=headroom, lend_ahead_steps=shortest)
    lendable = lendable_series(
        demand, servers=40, headroom=headroom, interval_s=STEP_S, intervals=intervals
    )
    best = clairvoyant_loans(lendable, interval_s=STEP_S, return_cost_s=return_cost_s)
    assert oracle.loans(demand, intervals) == best


@given(
    demands(),
    st.sampled_from(forecaster_names()),
    st.integers(0, 40),
    st.integers(0, 30),
    INTERVALS,
    st.none() | st.integers(0, 4),
    st.none() | st.integers(0, 8),
)
def test_decisions_add_up(demand, name, on_loan, tick, interval_s, ahead, lend_ahead):
    deciding = Orchestrator(
        servers=40,
        forecaster=find_forecaster(name),
        interval_s=interval_s,
        ahead_steps=ahead,
        lend_ahead_steps=lend_ahead,
    )
    decision = deciding.decide(demand, tick * interval_s, on_loan)
    assert 0 <= decision.target_servers <= 40
    assert min(decision.lend_servers, decision.reclaim_servers) == 0
    assert decision.target_servers == (on_loan + decision.lend_servers - decision.reclaim_servers)
    assert not shortfalls(
        demand_of([demand.at(tick * interval_s)]),
        [decision.target_servers],
        servers=40,
        interval_s=300,
    )[0]


@given(demands(), st.integers(0, 20), st.integers(0, 20))
def test_looking_further_ahead_never_lends_more(demand, ahead, further):
    near = orchestrator(ahead_steps=ahead).loans(demand, 12)
    far = orchestrator(ahead_steps=ahead + further).loans(demand, 12)
    assert all(less <= more for less, more in zip(far, near, strict=True))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("servers", -1),
        ("headroom", 1.5),
        ("headroom", float("nan")),
        ("interval_s", 0.0),
        ("ahead_steps", -1),
        ("lend_ahead_steps", 1.5),
    ],
)
def test_parameters_are_checked(field, value):
    with pytest.raises(FieldError, match=f"^{field} is "):
        orchestrator(**{field: value})


@pytest.mark.parametrize(
    ("time_s", "on_loan", "field"), [(-1.0, 0, "time_s"), (0.0, 101, "on_loan_servers")]
)
def test_arguments_of_a_decision_are_checked(time_s, on_loan, field):
    with pytest.raises(FieldError, match=f"^{field} is "):
        orchestrator().decide(demand_of([0.5]), time_s, on_loan)
