"""Ours: never less than Dally on an instance, and waits, or does not, for a reason."""

import numpy as np
import pytest
from hypothesis import given

import lyra_opt as lo
from lyra_opt.network.bounds.dual_bound import dual_bound
from lyra_opt.network.checker import value_of
from lyra_opt.network.heuristics.policy_solver import state_of, values_of
from lyra_opt.network.heuristics.priced_placement import ExpectedRoom, PricedPlacement
from lyra_opt.network.links import Tier
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import (
    ALL_TIERS,
    LEASE_S,
    decided,
    gang,
    instance_of,
    state_for,
)

# On instances.


@given(network_instances(max_jobs=10, max_machines=7, max_gpus=8))
@draws(40)
def test_between_dally_and_the_bound(instance):
    """Within the same timers."""
    ours = lo.solve(instance, "priced-placement")
    assert ours.solution is not None, ours.message
    assert lo.solve(instance, "dally").objective <= ours.objective <= dual_bound(instance)


@given(network_instances(max_jobs=4, max_machines=3, max_gpus=4))
@draws(40)
def test_values_are_those_of_the_checker(instance):
    """In floats; and 0 at tiers that are forbidden or held back."""
    value = values_of(state_of(instance).state, instance)
    for position, job in enumerate(instance.jobs):
        for tier in Tier:
            allowed = tier in instance.tiers_of(job)
            exact = float(value_of(instance, job, tier)) if allowed else 0.0
            assert value[position, tier] == pytest.approx(exact, rel=1e-12)


def test_the_best_packing_is_found_where_dally_misses_it():
    """Most hurt first takes the machine that only the other gang needs."""
    hurt = gang(4, "hurt", score=0.1)
    bound_to_machine = gang(4, "bound", score=0.2, efficiency={"machine": 0.9})
    instance = instance_of([[4, 2, 2]], [hurt, bound_to_machine])
    assert lo.solve(instance, "dally").objective == pytest.approx(4 * 0.9)
    ours = lo.solve(instance, "priced-placement").objective
    assert ours == pytest.approx(4 * 0.9 + 4 * 0.6) == dual_bound(instance)


# In the simulated cluster.


def _running(policy, state):
    """Let the policy start everybody; their GPUs are free no longer."""
    for _, (_, gpus) in decided(policy, state).items():
        for machine, count in gpus.items():
            state.machines.free_gpus[machine] -= count


def _next(policy, state, now_s, *jobs):
    """Return the tiers of those who start at a later time, in order of jobs."""
    later = state_for([[8]], *jobs)
    later.machines = state.machines
    later.now_s = now_s
    grants = sorted(policy.decide(later), key=lambda grant: grant.job)
    return [f"{later.waiting.ids[grant.job]} {grant.tier.label}" for grant in grants]


def _busy_cluster():
    """Three machines with 3 GPUs of 8 free; who runs does so for a lease."""
    state = state_for([[8, 8, 8]], *(gang(5, f"run{k}", remaining_s=LEASE_S) for k in range(3)))
    policy = PricedPlacement()
    _running(policy, state)
    assert state.machines.free_gpus.tolist() == [3, 3, 3]
    return policy, state


@pytest.mark.parametrize(("now_s", "started"), [(LEASE_S - 300, []), (60.0, ["new rack"])])
def test_waits_for_a_machine_that_is_free_soon(now_s, started):
    """A rack at 0.6 for all of the lease, or a machine at 0.9 for most of it or less than half."""
    policy, state = _busy_cluster()
    assert _next(policy, state, now_s, gang(8, "new", remaining_s=50_000.0)) == started


def test_dear_gpus_are_not_wasted_on_a_far_tier():
    """Alone it takes the rack; with others worth as much for each GPU, it does not."""
    slow = gang(8, "slow", remaining_s=50_000.0, efficiency={"machine": 0.9, "rack": 0.05})
    policy, state = _busy_cluster()
    assert _next(policy, state, 1.0, slow) == ["slow rack"]
    others = [gang(8, f"other{k}", remaining_s=60_000.0) for k in range(3)]
    policy, state = _busy_cluster()
    assert _next(policy, state, 1.0, slow, *others) == []
    fast = gang(8, "fast", remaining_s=30_000.0)
    assert _next(policy, state, 1.0, fast, slow, *others) == ["fast rack"]


def test_the_longest_gang_goes_first():
    """It is as long as all the rest together: else the makespan would be its own."""
    long = gang(8, "long", remaining_s=500_000.0)
    short = gang(8, "short", remaining_s=1000.0)
    assert list(decided(PricedPlacement(), state_for([[8]], short, long))) == ["long"]
    assert list(decided(PricedPlacement(2.0), state_for([[8]], short, long))) == ["short"]


def test_room_is_remembered_until_gpus_are_handed_over():
    """A lease that is over counts as room to come until its GPUs are seen to be free."""
    state = state_for([[8, 8]], gang(1))
    machines = state.machines
    room = ExpectedRoom(machines)
    room.note([100.0, 200.0], [8, 6], [0.0, 50.0], [1.0, 2.0], [{0: 8}, {1: 6}])
    machines.free_gpus[:] = (0, 2)
    assert room.running(150.0).T.tolist() == [[6.0, 100.0, 2.0]]
    assert room.waits_s(machines, 50.0, Tier.MACHINE, [2, 8, 9]) == [0.0, 50.0, np.inf]
    assert room.waits_s(machines, 50.0, Tier.RACK, [2, 9, 11]) == [0.0, 50.0, 150.0]
    room.forget(machines, 150.0)
    assert room.waits_s(machines, 150.0, Tier.MACHINE, [8]) == [0.0]
    machines.free_gpus[0] = 8
    room.forget(machines, 160.0)
    assert room.waits_s(machines, 160.0, Tier.MACHINE, [8, 9]) == [0.0, np.inf]
    assert room.waits_s(machines, 160.0, Tier.NETWORK, [11, 16]) == [40.0, 40.0]


def test_a_gang_without_a_machine_tier_does_not_wait_for_one():
    """Its best tier is the rack, and it takes it."""
    policy, state = _busy_cluster()
    only_rack = {"rack": ALL_TIERS["rack"], "network": ALL_TIERS["network"]}
    job = gang(8, "new", remaining_s=50_000.0, efficiency=only_rack)
    assert _next(policy, state, LEASE_S - 300, job) == ["new rack"]
