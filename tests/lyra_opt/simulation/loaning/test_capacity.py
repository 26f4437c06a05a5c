"""What the inference cluster needs of itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.loaning.capacity import (
    busy_servers,
    lendable_servers,
    peak_shares,
    shortfalls,
)
from tests.lyra_opt.simulation.loaning.demands import demand_of, demands

SHARE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("share", "servers", "headroom", "lendable"),
    [
        (0.359, 520, 0.02, 322),  # the trough of Lyra's Figure 1: 520 * 0.621 = 322.92
        (0.972, 520, 0.02, 4),  # its peak: 4.16
        (0.99, 520, 0.02, 0),  # within the headroom
        (1.0, 520, 0.02, 0),
        (0.5, 100, 0.02, 48),  # 100 * (1 - 0.02 - 0.5) is 47.99... in floating point
        (0.7, 10, 0.0, 3),  # so is 10 * (1 - 0.7)
        (0.0, 10, 0.0, 10),
        (0.0, 0, 0.02, 0),
    ],
)
def test_lendable_servers_by_hand(share, servers, headroom, lendable):
    assert lendable_servers(share, servers, headroom) == lendable


@pytest.mark.parametrize(
    ("share", "servers", "busy"), [(0.0, 10, 0), (0.01, 10, 1), (0.3, 10, 3), (0.31, 10, 4)]
)
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


def test_within_a_step_the_demand_does_not_change():
    demand = demand_of([0.1, 0.5, 0.2])
    assert peak_shares(demand, interval_s=150, intervals=6) == [0.1, 0.5, 0.5, 0.5, 0.2, 0.2]


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
