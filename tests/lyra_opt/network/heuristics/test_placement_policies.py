"""All placement policies: what each must keep, and the rules of those that do not delay."""

import numpy as np
import pytest
from hypothesis import given

from lyra_opt.network.heuristics.baselines import BestFitPlacement, ShortestRemainingTime
from lyra_opt.network.heuristics.delay_scheduling import tiresias_skew
from lyra_opt.network.heuristics.gandiva import GandivaAffinity
from lyra_opt.network.heuristics.policy import RunningGangs
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES, SUMMARIES, state_of
from lyra_opt.network.links import Tier
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import (
    ALL_TIERS,
    assert_valid,
    decided,
    epoch_of,
    gang,
    state_for,
)

instances = network_instances(max_jobs=8, max_machines=7)


def test_every_policy_has_a_summary():
    """Help and tables name what there is."""
    assert PLACEMENT_POLICIES.keys() == SUMMARIES.keys()
    assert all(make().name == name for name, make in PLACEMENT_POLICIES.items())


@given(instance=instances)
@draws(50)
def test_decisions_are_valid_and_repeat(instance):
    """Whole gangs, no GPU twice, no gang beyond its label; the same again, the state untouched."""
    fresh = state_of(instance).state
    for make in PLACEMENT_POLICIES.values():
        epoch, found = state_of(instance), []
        for state in (epoch.state, state_of(instance).state):
            policy = make()
            policy.prepare(state.machines, state.lease_s, np.random.default_rng(0))
            found.append(policy.decide(state))
        assert found[0] == found[1]
        assert_valid(instance, epoch, found[0])
        assert (epoch.state.machines.free_gpus == fresh.machines.free_gpus).all()
        assert (epoch.state.waiting.waiting_s == fresh.waiting.waiting_s).all()


def test_best_fit_serves_the_file_in_order_and_packs_tightly():
    """The first gang takes the tightest machine, the next the tightest rack, the last the rest."""
    state = state_for([[8, 5], [4, 3]], gang(4, "a"), gang(7, "b"), gang(6, "c"), gang(3, "d"))
    assert decided(BestFitPlacement(), state) == {
        "a": ("machine", {2: 4}),
        "b": ("machine", {0: 7}),
        "c": ("rack", {0: 1, 1: 5}),
        "d": ("machine", {3: 3}),
    }


def test_srtf_counts_what_the_network_takes():
    """90 s at 0.3 are longer than 150 s at 0.9, once the only machine is gone."""
    jobs = [gang(8, "long", remaining_s=150.0), gang(9, "wide", remaining_s=90.0)]
    assert list(decided(ShortestRemainingTime(), state_for([[8], [8]], *jobs))) == ["long"]
    assert list(decided(ShortestRemainingTime(), state_for([[8, 8]], *jobs))) == ["wide"]


def test_srtf_takes_the_faster_tier_and_not_the_nearer():
    """With links as shipped the network may be faster than the rack."""
    job = gang(4, efficiency={"machine": 0.9, "rack": 0.4, "network": 0.6})
    found = decided(ShortestRemainingTime(), state_for([[3, 3], [3]], job))
    assert found["x"][0] == "network"


def test_tiresias_keeps_some_together():
    """A model that needs no consolidation takes what there is; another waits, unless too large."""
    free = [[3, 3], [3]]
    kept, loose = gang(4), gang(4, needs_consolidation=False)
    assert decided(tiresias_skew(), state_for(free, kept)) == {}
    assert decided(tiresias_skew(), state_for(free, loose)) == {"x": ("rack", {0: 3, 1: 1})}
    assert decided(tiresias_skew(), state_for([[3], [3]], loose))["x"][0] == "network"
    assert decided(tiresias_skew(), state_for([[8, 8]], gang(9)))["x"][0] == "rack"


def test_tiresias_serves_those_who_had_least():
    """Attained service, then the longest wait; how much the network hurts does not count."""
    jobs = [
        gang(8, "much", attained_gpu_s=9.0, score=0.0),
        gang(8, "short", attained_gpu_s=3.0, score=1.0, waiting_s=1.0),
        gang(8, "long", attained_gpu_s=3.0, score=1.0, waiting_s=2.0),
    ]
    found = list(decided(tiresias_skew(), state_for([[8, 8]], *jobs)))
    assert found == ["long", "short"]


def affine_state(affinity, free, *gangs):
    """Return machines of a rack kept for gangs of these sizes, and gangs in order."""
    jobs = [gang(gpus, f"j{number}") for number, gpus in enumerate(gangs)]
    state = epoch_of([free], *jobs).state
    state.machines.affinity[:] = affinity
    return state


@pytest.mark.parametrize(
    ("affinity", "free", "machine"),
    [
        ([0, 2, 4], [8, 2, 8], 1),  # kept for 2, though it is the fullest
        ([0, 2, 2], [8, 2, 4], 2),  # of those, the emptiest
        ([4, 0, 0], [8, 3, 4], 2),  # none is kept for 2: the emptiest that is kept for nobody
        ([4, 8, 0], [4, 5, 1], 1),  # any that holds it
    ],
)
def test_gandiva_chooses_by_affinity(affinity, free, machine):
    """Kept for the size, then for none, then any, which stays kept; the one with most free GPUs."""
    state = affine_state(affinity, free, 2)
    assert decided(GandivaAffinity(), state) == {"j0": ("machine", {machine: 2})}
    assert state.machines.affinity[machine] == (affinity[machine] or 2)


def test_gandiva_keeps_a_machine_for_the_first_size_on_it():
    """The latest gang comes first; one machine is kept for 2 then, the other for 1."""
    state = affine_state([0, 0], [8, 8], 2, 1, 2)
    assert decided(GandivaAffinity(), state) == {
        "j2": ("machine", {0: 2}),
        "j1": ("machine", {1: 1}),
        "j0": ("machine", {0: 2}),
    }
    assert state.machines.affinity.tolist() == [2, 1]


def test_gandiva_lets_large_gangs_take_anything_and_small_ones_wait():
    """A gang of 9 takes GPUs in order across racks, though a rack has room; one of 4 waits."""
    assert decided(GandivaAffinity(), state_for([[3], [8, 8]], gang(9))) == {
        "x": ("network", {0: 3, 1: 6})
    }
    assert decided(GandivaAffinity(), state_for([[3, 3]], gang(4))) == {}


def running_on(placements, tiers, efficiency):
    """Return gangs that run where they are placed."""
    shares = [efficiency.get(tier.label, 0.0) for tier in Tier]
    return RunningGangs(
        ids=[f"j{number}" for number in range(len(placements))],
        gang=np.array([sum(gpus.values()) for gpus in placements]),
        efficiency=np.array([shares] * len(placements)),
        tier=np.array(tiers),
        placements=placements,
    )


def test_gandiva_moves_gangs_closer():
    """The latest submitted takes the only machine; one in the network moves to a rack."""
    state = state_for([[4, 1], [5, 1]], gang(1))
    spread = running_on([{0: 1, 2: 3}, {0: 2, 2: 3}], [Tier.NETWORK, Tier.NETWORK], ALL_TIERS)
    moves = GandivaAffinity().migrate(state, spread)
    assert [(move.job, move.tier, move.gpus) for move in moves] == [
        (1, Tier.MACHINE, {2: 5}),
        (0, Tier.MACHINE, {0: 4}),
    ]
    wide = running_on([{0: 3, 2: 3}], [Tier.NETWORK], ALL_TIERS)
    assert [move.tier for move in GandivaAffinity().migrate(state, wide)] == [Tier.RACK]


def test_gandiva_stays_where_moving_does_not_pay():
    """From the network to a rack that is slower, or within a machine, nobody moves."""
    state = state_for([[2, 2]], gang(1))
    slower = {"machine": 0.9, "rack": 0.4, "network": 0.6}
    far = running_on([{5: 2, 9: 2}], [Tier.NETWORK], slower)
    near = running_on([{5: 1}], [Tier.MACHINE], ALL_TIERS)
    assert [GandivaAffinity().migrate(state, running) for running in (far, near)] == [[], []]
