"""Fixed timers by simulation: never worse than the baselines, and the same for the same seed."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.experiments.tuning.outcome import compare, regret_in_words
from lyra_opt.experiments.tuning.search import LEAST_TRIALS, best_of, tune
from lyra_opt.experiments.tuning.situation import Situation, evaluator, mean_jct_s
from lyra_opt.experiments.tuning.timer_space import BASELINES, TimerSpace
from lyra_opt.instances.network.generated_jobs import dally_batch
from lyra_opt.network.links import LINK_SETS
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.network.communication import ClosedForm
from lyra_opt.simulation.network.topology import Rack, Topology
from lyra_opt.simulation.scheme import find_scheme
from tests.lyra_opt.network.heuristics.cases import LEASE_S, gang, state_for

if TYPE_CHECKING:
    from lyra_opt.simulation.network.class_timers import ClassTimers

TOPOLOGY = Topology.uniform(racks=2, machines_per_rack=2, gpus_per_machine=8)
SPACE = TimerSpace.of(TOPOLOGY)
SITUATION = Situation(
    cluster=Cluster.of_racks(
        TOPOLOGY, ClosedForm(links=LINK_SETS["congested-2"]), network="congested-2"
    ),
    draws=tuple(dally_batch(seed=seed, jobs=10) for seed in range(2)),
)


def distance(timers: ClassTimers) -> tuple[float]:
    """Return how far the small gangs' timers are from 9 and 4 leases."""
    each = timers.classes[0]
    return (min(100.0, abs(each.rack_leases - 9)) + min(100.0, abs(each.network_leases - 4)),)


def test_baselines_come_first_and_are_not_beaten_by_the_best() -> None:
    """What is recommended is no worse than what anybody would try first."""
    trials = tune(distance, SPACE, trials=LEAST_TRIALS + 2, seed=0)
    for trial, (name, pair) in zip(trials, BASELINES.items(), strict=False):
        assert trial.baseline == name
        assert trial.timers == SPACE.timers(SPACE.steps_of(*pair))
    assert best_of(trials).mean_jct_s == min(trial.mean_jct_s for trial in trials)


def test_the_same_seed_tries_the_same_timers_and_learns() -> None:
    """A result that cannot be had again is none; and a search that does not learn is no use."""
    first, again = (tune(distance, SPACE, trials=45, seed=3) for _ in range(2))
    assert first == again
    assert best_of(first).mean_jct_s <= 4
    assert first != tune(distance, SPACE, trials=45, seed=4)


def test_a_missing_extra_is_named_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most users have not installed Optuna."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r'pip install "lyra-opt\[tuning\]"'):
        tune(distance, SPACE, trials=10, seed=0)


def test_too_few_trials_and_nothing_to_choose_are_refused() -> None:
    """Neither would leave a recommendation that says anything."""
    with pytest.raises(FieldError, match="trials"):
        tune(distance, SPACE, trials=LEAST_TRIALS - 1, seed=0)
    with pytest.raises(UserError, match="hold nobody back"):
        TimerSpace.of(Topology.uniform(racks=1, machines_per_rack=1, gpus_per_machine=8))


@pytest.mark.parametrize(
    ("racks", "machines", "classes", "names"),
    [
        (2, 2, (), ["rack-8", "network-8", "network-16"]),
        (1, 2, (), ["rack-8"]),
        (2, 1, (), ["network-8"]),
        (2, 2, (1, 4, 99), ["rack-4", "network-4", "rack-99", "network-99"]),
        (2, 2, (8, 16, 32), ["rack-8", "network-8", "network-16"]),
        (2, 2, (2, 8), ["rack-2", "network-2", "rack-8", "network-8", "network-16"]),
        (1, 2, (2,), ["rack-2", "rack-8"]),
    ],
)
def test_only_timers_that_hold_somebody_back_are_chosen(
    racks: int, machines: int, classes: tuple[int, ...], names: list[str]
) -> None:
    """Others would make the search learn from noise."""
    topology = Topology.uniform(racks=racks, machines_per_rack=machines, gpus_per_machine=8)
    space = TimerSpace.of(topology, classes=classes)
    assert [choice.name for choice in space.choices] == names


@st.composite
def spaces(draw: st.DrawFn) -> TimerSpace:
    """Return spaces of small clusters on which timers hold somebody back, with any classes."""
    sizes = st.builds(Rack, machines=st.integers(1, 3), gpus_per_machine=st.integers(2, 4))
    racks = tuple(draw(st.lists(sizes, min_size=1, max_size=3)))
    assume(len(racks) > 1 or racks[0].machines > 1)
    return TimerSpace.of(
        Topology(name="drawn", racks=racks),
        most_leases=draw(st.integers(0, 24)),
        classes=sorted(draw(st.sets(st.integers(1, 40), max_size=3))),
    )


@given(space=spaces())
def test_baselines_hold_all_gangs_back_for_as_long_as_they_are_called(space: TimerSpace) -> None:
    """Whatever the classes; where the largest timer cuts them, they are called so."""
    topology = space.topology
    waiting = state_for([[8]], *(gang(size, f"{size}") for size in range(2, topology.gpus + 1)))
    fits_machine = waiting.waiting.gang <= topology.largest_machine_gpus
    fits_rack = waiting.waiting.gang <= topology.largest_rack_gpus
    has_rack_tier = any(rack.machines > 1 for rack in topology.racks)
    for (name, pair), (called, steps) in zip(
        BASELINES.items(), space.baselines.items(), strict=True
    ):
        rack, network = (
            each if each == math.inf else min(each, space.most_leases) for each in pair
        )
        assert called == (name if (rack, network) == pair else f"{name}, cut to {rack, network}")
        rule = space.timers(steps).rule()
        for job in range(len(waiting.waiting.gang)):
            rack_s, network_s = rule.timers_s(waiting, job)
            assert rack_s == rack * LEASE_S or not (has_rack_tier and fits_machine[job])
            assert network_s == network * LEASE_S or not (
                len(topology.racks) > 1 and fits_rack[job]
            )


def test_classes_that_leave_out_gangs_are_refused() -> None:
    """Gangs in no class do not wait, so no baseline would be what it is called."""
    with pytest.raises(FieldError, match=r"classes\[1\] is 8: must be at least 16"):
        TimerSpace(largest_gangs=(4, 8), topology=TOPOLOGY)


@given(rack=st.integers(0, 24), network=st.integers(0, 24) | st.just(math.inf))
def test_steps_stand_for_timers(rack: int, network: float) -> None:
    """The sampler sees whole numbers alone."""
    timers = SPACE.timers(SPACE.steps_of(rack, network))
    small, large = timers.classes
    assert (small.rack_leases, small.network_leases) == (rack, network)
    assert (large.rack_leases, large.network_leases) == (0, network)


def test_candidates_are_compared_on_the_same_draws() -> None:
    """Common random numbers: baselines are the policies that they stand for, draw by draw."""
    with evaluator(SITUATION) as evaluate:
        zero = evaluate(SPACE.timers({}))
        for space in (SPACE, TimerSpace.of(TOPOLOGY, classes=(2, 4))):
            for baseline, policy in (
                ("no wait", "no-wait"),
                ("floors (6, 12)", "manual"),
                ("consolidated", "consolidated"),
            ):
                timers = space.timers(space.baselines[baseline])
                assert evaluate(timers) == evaluate(find_scheme(policy))
    alone = mean_jct_s(
        SITUATION.draws[1], find_scheme("no-wait"), SITUATION.cluster, SITUATION.options
    )
    assert zero[1] == alone


def test_what_was_found_stands_last_beside_the_baselines() -> None:
    """In hindsight nothing that was tried is better; on fresh draws anything may be."""
    with evaluator(SITUATION) as evaluate:
        trials = tune(evaluate, SPACE, trials=LEAST_TRIALS + 1, seed=0)
        tuning = compare(trials, evaluate, lambda _: (1.0, 2.0))
    assert [each.name for each in tuning.compared] == [*BASELINES, "dally", "best found"]
    best_s = math.fsum(tuning.best.jct_s)
    assert all(best_s <= math.fsum(each.jct_s) for each in tuning.compared[: len(BASELINES)])
    record = tuning.as_json_object()
    assert len(record["tried"]) == LEAST_TRIALS + 1
    assert record["compared"][-1]["fresh_jct_mean_s"] == 1.5


def test_regret_says_how_far_draws_are_apart() -> None:
    """A mean without its spread hides that draws disagree."""
    assert regret_in_words((11.0, 18.0), (10.0, 20.0)) == "-3.3 (-10.0 to 10.0)"
    assert regret_in_words((11.0,), (10.0,)) == "10.0"


@pytest.mark.slow
def test_processes_change_nothing() -> None:
    """Results must not depend on the machine."""
    with evaluator(SITUATION) as alone, evaluator(SITUATION, processes=2) as together:
        for candidate in (find_scheme("dally"), SPACE.timers({})):
            assert alone(candidate) == together(candidate)
