"""Forecasters side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.loaning.comparison import compare_forecasters
from lyra_opt.simulation.loaning.forecast import find_forecaster, forecaster_names
from tests.lyra_opt.simulation.loaning.demands import demand_of, demands, sine

EVERY = [find_forecaster(name) for name in forecaster_names()]


def test_a_comparison_by_hand():
    demand = demand_of([0.2, 0.4, 0.4, 0.2])
    records = compare_forecasters(
        demand,
        [find_forecaster("last-value")],
        servers=10,
        headroom=0.1,
        return_cost_s=60,
    )
    best, with_headroom, last_value = records
    # Demand goes round: the greatest needs are 4, 4, 4 and 2 servers.
    assert best.name == "clairvoyant"
    assert (best.returned_servers, best.shortfall_server_intervals) == (0, 0)
    assert best.value_server_s == 26 * 300
    assert best.share_of_clairvoyant == 1
    assert with_headroom.name == "clairvoyant-with-headroom"
    assert with_headroom.share_of_clairvoyant == pytest.approx(22 / 26)
    # It lends 7, 5, 5, 7; the first loan meets a need of 4.
    assert last_value.name == "last-value"
    assert (last_value.returned_servers, last_value.shortfall_server_intervals) == (2, 1)
    assert last_value.value_server_s == 24 * 300 - 2 * 60
    assert last_value.share_of_clairvoyant == pytest.approx(7080 / 7800)


@given(
    demands(),
    st.sampled_from([0.0, 0.02, 0.3]),
    st.integers(0, 3000),
    st.sampled_from([150.0, 300.0, 900.0]),
)
def test_without_shortfall_nobody_beats_the_clairvoyant(
    demand, headroom, return_cost_s, interval_s
):
    demand = demand_of((demand.busy_share * 20)[:20])
    best, with_headroom, *others = compare_forecasters(
        demand,
        EVERY,
        servers=40,
        headroom=headroom,
        return_cost_s=return_cost_s,
        interval_s=interval_s,
    )
    assert best.shortfall_server_intervals == with_headroom.shortfall_server_intervals == 0
    oracle = others[0]
    assert oracle.shortfall_server_intervals == 0
    assert oracle.value_server_s <= with_headroom.value_server_s <= best.value_server_s
    for record in others:
        if not record.shortfall_server_intervals:
            assert record.value_server_s <= best.value_server_s


def test_a_steep_morning_costs_last_value_but_not_autoregression():
    # Up to 1.3% of 100 servers a step: without headroom, each rise is a shortfall.
    records = {
        record.name: record
        for record in compare_forecasters(
            sine(4, amplitude=0.4), EVERY, servers=2000, headroom=0.001, return_cost_s=0
        )
    }
    lacking = {name: record.shortfall_server_intervals for name, record in records.items()}
    assert lacking["last-value"] > 3 * 100
    # It has nothing to learn from on the first day.
    assert lacking["autoregressive"] < lacking["last-value"] / 2
    assert lacking["oracle"] == 0


def test_where_nothing_can_be_lent_there_is_no_share():
    records = compare_forecasters(demand_of([1.0, 1.0]), EVERY, servers=10, return_cost_s=0)
    assert {record.share_of_clairvoyant for record in records} == {None}
    assert {record.value_server_s for record in records} == {0.0}


def test_the_same_question_has_the_same_answer():
    demand = sine(2)
    first, second = (
        compare_forecasters(demand, EVERY, servers=520, return_cost_s=63) for _ in range(2)
    )
    assert first == second


def test_less_than_an_interval_cannot_be_compared():
    with pytest.raises(
        FieldError, match="^interval_s is 600: must be at most the length of the demand"
    ):
        compare_forecasters(demand_of([0.5]), EVERY, servers=1, return_cost_s=0, interval_s=600)
