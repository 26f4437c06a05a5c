"""Dally and its relatives: the rule by hand, against a plain one, and at the ends of its timers."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.network.heuristics.delay_scheduling import (
    DelayScheduling,
    FixedTimers,
    consolidated,
    dally,
    dally_with_given_timers,
    manual,
    no_wait,
)
from lyra_opt.network.heuristics.policy_solver import state_of
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import LEASE_S, decided, gang, instance_of, state_for

instances = network_instances(max_jobs=8, max_machines=7)


@given(instances)
@draws(50)
def test_ends_of_the_timers(instance):
    """Timers of 0 are no-wait and endless ones consolidated, with the jobs or fixed."""
    for timer_s, fixed, same in ((0.0, 0.0, no_wait), (None, math.inf, consolidated)):
        jobs = tuple(
            replace(job, rack_timer_s=timer_s, network_timer_s=timer_s) for job in instance.jobs
        )
        state = state_of(replace(instance, jobs=jobs)).state
        expected = decided(same(), state)
        assert decided(dally_with_given_timers(), state) == expected
        assert decided(manual(fixed, fixed), state) == expected
        assert same().next_decision_s(state) == math.inf


def test_most_hurt_goes_first_then_who_waits_longest():
    """Four gangs want the only machine: by score, then wait, then place in the file."""
    jobs = [
        gang(8, "slowed", score=0.2, waiting_s=1.0),
        gang(8, "new", waiting_s=5.0),
        gang(8, "old", waiting_s=6.0),
        gang(8, "same", waiting_s=6.0),
    ]
    for expected in ("old", "same", "new", "slowed"):
        assert list(decided(no_wait(), state_for([[8]], *jobs))) == [expected]
        jobs = [job for job in jobs if job.id != expected]


def test_timers_hold_back_and_then_let_go():
    """A gang of 4 beside 3 + 3 free takes the rack after an hour, racks after two."""
    rule = FixedTimers(1, 2)
    for waited_s, rack, racks in ((3599.0, {}, {}), (3600.0, True, {}), (7200.0, True, True)):
        near = state_for([[3, 3], [3]], gang(4, waiting_s=waited_s))
        far = state_for([[3], [3]], gang(4, waiting_s=waited_s))
        assert decided(DelayScheduling("x", rule), near) == (rack and {"x": ("rack", {0: 3, 1: 1})})
        assert decided(DelayScheduling("x", rule), far) == (
            racks and {"x": ("network", {0: 3, 1: 1})}
        )


def test_large_gangs_do_not_wait_for_what_cannot_be():
    """12 GPUs are more than a machine, 20 more than a rack: no timer holds them back there."""
    racks = [[8, 8], [8, 8]]
    assert decided(consolidated(), state_for(racks, gang(12)))["x"] == ("rack", {0: 8, 1: 4})
    assert decided(consolidated(), state_for(racks, gang(20)))["x"][0] == "network"
    assert decided(consolidated(), state_for([[8, 3], [8]], gang(12))) == {}


def test_an_offer_sees_the_timers_that_the_last_one_left():
    """The first gang's wait of 10 leases makes 10 of the rack timer, and 8 are not enough then."""
    jobs = [gang(4, "a", waiting_s=10 * LEASE_S), gang(4, "b", waiting_s=8 * LEASE_S)]
    assert list(decided(dally(), state_for([[4, 3, 3]], *jobs))) == ["a"]
    assert list(decided(dally(), state_for([[3, 3]], jobs[1]))) == ["b"]


def test_wakes_when_a_timer_runs_out_beside_room():
    """An hour is left of the rack timer; there is no waking for tiers that have no room."""
    waiting = gang(4, waiting_s=5 * LEASE_S)
    assert manual().next_decision_s(state_for([[3, 3]], waiting)) == pytest.approx(LEASE_S)
    racks = manual().next_decision_s(state_for([[3], [3]], waiting))
    assert racks == pytest.approx(7 * LEASE_S)
    assert manual().next_decision_s(state_for([[3]], waiting)) == math.inf


@given(
    st.floats(0, 1e9), st.floats(0, 1e6), st.floats(1e-3, 1e6), st.sampled_from([1.0, 3600.0, 0.1])
)
def test_a_gang_that_is_woken_has_waited_long_enough(since_s, waited_s, timer, lease_s):
    """However the time is rounded, or it would be woken again and again."""
    state = replace(state_for([[3, 3]], gang(4)), now_s=since_s + waited_s, lease_s=lease_s)
    policy = manual(timer, math.inf)
    state.waiting.waiting_s[0] = state.now_s - since_s
    if not policy.decide(state):
        now_s = state.now_s + policy.next_decision_s(state)
        state.waiting.waiting_s[0] = now_s - since_s
        assert policy.decide(replace(state, now_s=now_s))


def test_tiers_at_which_a_gang_cannot_run_are_passed_over():
    """It spans two racks though a machine has room, since it runs nowhere else."""
    job = gang(4, efficiency={"network": 0.5})
    state = state_of(instance_of([[8, 8], [8]], [job])).state
    assert decided(no_wait(), state) == {"x": ("network", {0: 3, 2: 1})}
