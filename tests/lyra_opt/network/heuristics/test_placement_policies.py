"""All placement policies: what each must keep, and the rules of those that do not delay."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.network.heuristics.baselines import BestFitPlacement, ShortestRemainingTime
from lyra_opt.network.heuristics.delay_scheduling import tiresias_skew
from lyra_opt.network.heuristics.free_machines import BestFit
from lyra_opt.network.heuristics.gandiva import GandivaAffinity, GandivaShuffled
from lyra_opt.network.heuristics.policy import RunningGangs
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES, SUMMARIES, state_of
from lyra_opt.network.links import Tier
from lyra_opt.testing.strategies import network_instances, network_solutions_of
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import (
    ALL_TIERS,
    assert_valid,
    decided,
    epoch_of,
    gang,
    state_for,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.network.heuristics.policy import PlacementState

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


@given(instance=instances)
@draws(50)
def test_nobody_waits_beside_room(instance):
    """A rule without timers leaves nobody out whom what is left could hold where it can run."""
    state = state_of(instance).state
    waiting = state.waiting
    for name in ("best-fit", "no-wait", "srtf-network"):
        free = BestFit(state.machines)
        grants = PLACEMENT_POLICIES[name]().decide(state)
        for grant in grants:
            free.take(grant.gpus)
        for job in set(range(len(waiting))) - {grant.job for grant in grants}:
            can_run = (waiting.efficiency[job] > 0).tolist()
            assert free.nearest(int(waiting.gang[job]), can_run) is None


def test_best_fit_serves_the_file_in_order_and_packs_tightly():
    """The first gang takes the tightest machine, the next the tightest rack, the last the rest."""
    state = state_for([[8, 5], [4, 3]], gang(4, "a"), gang(7, "b"), gang(6, "c"), gang(3, "d"))
    assert decided(BestFitPlacement(), state) == {
        "a": ("machine", {2: 4}),
        "b": ("machine", {0: 7}),
        "c": ("rack", {0: 1, 1: 5}),
        "d": ("machine", {3: 3}),
    }


def plain_srtf(state: PlacementState) -> list[tuple[int, Tier]]:
    """Return who starts at which tier, everybody looked at anew at each turn."""
    waiting, free = state.waiting, BestFit(state.machines)
    left, chosen = list(range(len(waiting))), []
    while True:
        offers = [
            (waiting.remaining_s[job] / waiting.efficiency[job, tier], job, tier)
            for job in left
            for tier in Tier
            if waiting.efficiency[job, tier] > 0 and free.has_room(int(waiting.gang[job]), tier)
        ]
        if not offers:
            return chosen
        _, job, tier = min(offers)
        free.place(int(waiting.gang[job]), tier)
        chosen.append((job, tier))
        left.remove(job)


@given(instances)
@draws(50)
def test_srtf_is_the_plain_rule(instance):
    """The next is whoever would be done first at the best tier free then."""
    state = state_of(instance).state
    grants = ShortestRemainingTime().decide(state)
    assert [(grant.job, grant.tier) for grant in grants] == plain_srtf(state)


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


def affine_state(affinity: list[int], free: list[int], *gangs: int) -> PlacementState:
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


def test_gandiva_shuffled_strews_gangs_that_no_machine_holds():
    """Over the whole cluster, each free GPU as likely; what a machine holds stays together."""
    state = state_for([[8, 0, 8], [8, 8]], gang(12), gang(4, "y"))
    policy = GandivaShuffled()
    policy.prepare(state.machines, state.lease_s, np.random.default_rng(1))
    taken = np.zeros(5)
    for _ in range(200):
        state.machines.affinity[:] = 0
        grants = {state.waiting.ids[grant.job]: grant for grant in policy.decide(state)}
        assert len(grants["y"].gpus) == 1
        assert grants["x"].tier is Tier.NETWORK
        assert sum(grants["x"].gpus.values()) == 12
        taken += [grants["x"].gpus.get(machine, 0) for machine in range(5)]
    assert taken[1] == 0
    # y takes 4 of 8 on the first machine, so that 4, 8, 8 and 8 are free when x draws 12 of 28.
    assert taken[[0, 2, 3, 4]] / 200 == pytest.approx([12 / 7, 24 / 7, 24 / 7, 24 / 7], abs=0.4)


def test_gandiva_shuffled_repeats_its_seed():
    """Same seed, same strewing; another seed, another."""
    found = []
    for seed in (1, 1, 2):
        policy, state = GandivaShuffled(), state_for([[8, 8], [8, 8]], gang(12))
        policy.prepare(state.machines, state.lease_s, np.random.default_rng(seed))
        found.append([grant.gpus for grant in policy.decide(state)])
    assert found[0] == found[1] != found[2]


def running_on(
    placements: list[dict[int, int]], tiers: list[Tier], efficiency: dict[str, float]
) -> RunningGangs:
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


@given(st.data(), instances)
@draws(50)
def test_gandiva_moves_only_to_better_tiers_on_free_gpus(data, instance):
    """Each move is to a nearer and faster tier, whole, on GPUs that nobody holds or is given."""
    held = data.draw(network_solutions_of(instance))
    epoch = state_of(instance)
    place = {position: number for number, position in enumerate(epoch.machine_order)}
    free = epoch.state.machines.free_gpus.copy()
    rows = [instance.job_position[entry.job] for entry in held.placements]
    placements = [
        {place[instance.machine_position[name]]: count for name, count in entry.gpus.items()}
        for entry in held.placements
    ]

    def take(gpus: Mapping[int, int]) -> None:
        for machine, count in gpus.items():
            free[machine] -= count

    for gpus in placements:
        take(gpus)
    machines = replace(epoch.state.machines, free_gpus=free.copy())
    waiting = epoch.state.waiting
    running = RunningGangs(
        ids=[waiting.ids[row] for row in rows],
        gang=waiting.gang[rows],
        efficiency=waiting.efficiency[rows],
        tier=np.array([instance.tier_of(entry.gpus) for entry in held.placements], np.int64),
        placements=placements,
    )
    moves = GandivaAffinity().migrate(replace(epoch.state, machines=machines), running)
    assert len({move.job for move in moves}) == len(moves)
    for move in moves:
        now = running.tier[move.job]
        assert move.tier < now
        assert running.efficiency[move.job, move.tier] > running.efficiency[move.job, now]
        take(move.gpus)
    assert free.min() >= 0
    as_jobs = [replace(move, job=rows[move.job]) for move in moves]
    assert_valid(instance, epoch, as_jobs)
