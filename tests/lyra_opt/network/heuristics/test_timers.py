"""Delay timers: Dally's formulas against numbers worked by hand."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.network.heuristics.delay_scheduling import (
    AutoTuner,
    FixedTimers,
    GivenTimers,
    WaitHistory,
)
from lyra_opt.network.links import Tier
from tests.lyra_opt.network.heuristics.cases import LEASE_S, gang, state_for
from tests.tables import tables

TABLES = tables(__file__)


def tuned(rule, gpus=4):
    """Return the timers of gangs of that size, in leases."""
    rack_s, network_s = rule.timers_s(state_for([[8]], gang(gpus)), 0)
    return rack_s / LEASE_S, network_s / LEASE_S


def observe(rule, tier, waits, *, at=0.0, gpus=4):
    """Let gangs accept a tier after so many leases of waiting; `at` is in leases too."""
    for wait in waits:
        state = state_for([[8]], gang(gpus, waiting_s=wait * LEASE_S))
        rule.observe(replace(state, now_s=at * LEASE_S), 0, tier)
    return rule


def test_nothing_observed_leaves_the_floors():
    """The statistic of nothing is 1, below 6 and 12."""
    assert tuned(AutoTuner(24)) == (6, 12)


@pytest.mark.parametrize(
    ("tier", "waits", "leases"),
    [
        *((Tier.MACHINE, waits, (leases, 12)) for waits, leases in TABLES["rack_timer"]),
        *((Tier.RACK, waits, (6, leases)) for waits, leases in TABLES["network_timer"]),
    ],
)
def test_timers_by_hand(tier, waits, leases):
    """Mean and two population deviations of waits, between 6 and 0.8 H or between 12 and H."""
    assert tuned(observe(AutoTuner(24), tier, waits)) == leases


@pytest.mark.parametrize(("window", "leases"), [(5, (4, 5)), (11, (9, 11)), (15, (12, 15))])
def test_caps_of_a_window(window, leases):
    """ceil(0.8 H) and H, also below the floors, and where 0.8 H is an integer."""
    rule = observe(AutoTuner(window), Tier.MACHINE, [40])
    assert tuned(observe(rule, Tier.RACK, [40])) == leases


def test_old_waits_are_dropped_when_another_is_added():
    """A wait seen 24 leases ago still counts, one seen before that does not; no clock drops it."""
    rule = observe(AutoTuner(24), Tier.MACHINE, [15], at=0)
    assert tuned(observe(rule, Tier.RACK, [13], at=30)) == (15, 13)
    assert tuned(observe(rule, Tier.MACHINE, [7], at=24)) == (19, 13)  # mean 11, sigma 4
    assert tuned(observe(rule, Tier.MACHINE, [7], at=24.5)) == (7, 13)


def test_sizes_and_tiers_have_histories_of_their_own():
    """What gangs of 4 waited for a machine says nothing of other gangs; far waits count nowhere."""
    rule = observe(AutoTuner(24), Tier.MACHINE, [10])
    observe(rule, Tier.NETWORK, [23])
    assert tuned(rule) == (10, 12)
    assert tuned(rule, gpus=2) == (6, 12)


def test_a_late_wake_up_does_not_round_up():
    """A wait that is a rounding error over 13 leases is one of 13."""
    assert tuned(observe(AutoTuner(24), Tier.RACK, [13 + 1e-12])) == (6, 13)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 60)), min_size=1, max_size=30))
def test_history_is_that_of_the_window(steps):
    """Sums that are kept up say what all waits in the window say, counted anew."""
    history, seen, now = WaitHistory(), [], 0.0
    for passed, wait in steps:
        now += passed
        history.drop_before(now - 10)
        history.add(now, wait / 2)
        seen = [(when, old) for when, old in seen if when >= now - 10] + [(now, wait / 2)]
        waits = [old for _, old in seen]
        mean = sum(waits) / len(waits)
        sigma = math.sqrt(sum((old - mean) ** 2 for old in waits) / len(waits))
        exact = mean + 2 * sigma
        assert math.ceil(exact - 1e-6) <= history.statistic() <= math.ceil(exact + 1e-6)


def test_fixed_timers_count_leases():
    """A pair for all gangs."""
    assert FixedTimers(1.5, 2).timers_s(state_for([[8]], gang(4)), 0) == (5400.0, 7200.0)


def test_fixed_timers_by_class_of_demand():
    """A gang is in the first class that is large enough, and beyond the last gets the pair."""
    rule = FixedTimers(5, 6, {8: (3, math.inf), 2: (1, 2)})
    state = state_for([[8]], *(gang(gpus, f"{gpus}") for gpus in (1, 2, 3, 8, 9)))
    leases = [tuple(timer / LEASE_S for timer in rule.timers_s(state, job)) for job in range(5)]
    assert leases == [(1, 2), (1, 2), (3, math.inf), (3, math.inf), (5, 6)]


@pytest.mark.parametrize("value", [-1, math.nan, "6", True])
def test_fixed_timers_refuse_what_is_no_time(value):
    """The message names the field."""
    with pytest.raises(FieldError, match="rack_leases"):
        FixedTimers(value, 1)
    with pytest.raises(FieldError, match="network_leases"):
        FixedTimers(1, 1, {4: (1, value)})


def test_what_is_no_class_and_no_window_is_refused():
    """A class is named by a gang; a window has a lease at least."""
    with pytest.raises(FieldError, match="by_gang"):
        FixedTimers(1, 1, {0: (1, 1)})
    with pytest.raises(FieldError, match="window_leases"):
        AutoTuner(0)


def test_given_timers_are_the_jobs_own():
    """None in the file is for ever."""
    state = state_for([[8]], gang(4, rack_timer_s=7.0, network_timer_s=None))
    assert GivenTimers().timers_s(state, 0) == (7.0, math.inf)
