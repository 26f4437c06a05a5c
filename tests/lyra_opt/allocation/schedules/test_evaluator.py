"""The evaluator: what it makes of decisions, how exact it is, and what it refuses."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example as pinned
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import check
from lyra_opt.allocation.heuristics.policy_solver import (
    REMAINING_GPU_WORK,
    REMAINING_WORK,
    SHORTEST_JOB,
    Fill,
    SmallestRemainingWork,
    quick_schedule,
)
from lyra_opt.allocation.schedules.evaluator import (
    FluidState,
    evaluate,
    mean_jct_s,
    moldable_schedule,
)
from lyra_opt.allocation.schedules.kernel import (
    FILL_BASES_FIRST,
    FILL_IN_TURN,
    FILL_ONE_BY_ONE,
    FILL_WITH_FORESIGHT,
    MARGINAL,
    NEVER,
)
from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.instances.family import generate
from lyra_opt.testing.strategies import allocation_instances
from tests.lyra_opt.allocation.examples import (
    EXAMPLE_ROWS,
    example,
    in_other_units,
    instance_of,
    job,
)
from tests.lyra_opt.allocation.fill_reference import mean_jct_of_fill
from tests.tables import tables

TABLES = tables(__file__)

SCHEDULES = allocation_instances(objective="mean_jct", max_jobs=6)
RULES = (FILL_BASES_FIRST, FILL_ONE_BY_ONE, FILL_IN_TURN, FILL_WITH_FORESIGHT, MARGINAL)
KEYS = (SHORTEST_JOB, REMAINING_WORK, REMAINING_GPU_WORK)


def run_fill(instance, fill, *, compiled=None):
    state = FluidState(instance, compiled=compiled)
    fill.run(state, decides=False)
    return state.schedule()


def smallest_remaining_work(instance):
    return SmallestRemainingWork().schedule(instance, np.random.default_rng(0))


def targets_in_turn(*decisions):
    """Return a policy that takes these decisions, ids to workers, one after the other."""
    left = list(decisions)

    def decide(state):
        decision = left.pop(0)
        for active in state.active:
            state.set_target(active, decision.get(state.instance.jobs[active].id, 0))

    return decide


@pytest.mark.parametrize(("row", "printed"), list(EXAMPLE_ROWS.items()))
@pytest.mark.parametrize("compiled", [False, True])
def test_the_seven_example_rows(row, printed, compiled):
    """Lyra, tables 2 to 4: when one job ends, the other grows at once."""
    first, of_first, of_second = row
    state = FluidState(example(first), compiled=compiled)
    decide = targets_in_turn({"A": of_first, "B": of_second}, {"A": first.max_workers, "B": 6}, {})
    schedule = evaluate(state, decide)
    ends = {piece.job: piece.end_s for piece in schedule.pieces}
    assert (ends["A"], ends["B"]) == pytest.approx(printed[:2], rel=1e-14)
    assert mean_jct_s(example(first), schedule) == pytest.approx(printed[2], rel=1e-14)
    assert check(example(first), schedule).objective == mean_jct_s(example(first), schedule)


@given(instance=SCHEDULES)
def test_decisions_come_at_every_release_and_completion(instance):
    """And at no other time; all events of one moment are one decision."""
    times = []

    def decide(state):
        times.append(state.now_s)
        state.start_bases(by_key=False)

    schedule = evaluate(FluidState(instance), decide)
    ends = {piece.job: piece.end_s for piece in schedule.pieces}
    events = {float(released.release_s) for released in instance.jobs} | set(ends.values())
    assert all(later > earlier for earlier, later in pairwise(times))
    for time in events:
        assert min(abs(time - known) for known in times) <= 2e-12 * time
    assert set(times) <= events


@pinned(
    # After 5 s at rate 1 + 4/5 "started" has 11 worker-seconds left, as many as "comes": a tie.
    instance=instance_of(
        3,
        job("started", 1, 2, 20.0, scaling_loss=0.2, running=True),
        job("comes", 1, 2, 11.0, release_s=5.0),
    ),
    rule=FILL_BASES_FIRST,
    key=REMAINING_WORK,
)
@given(
    instance=SCHEDULES,
    rule=st.sampled_from((FILL_BASES_FIRST, FILL_ONE_BY_ONE, FILL_IN_TURN)),
    key=st.sampled_from(KEYS),
)
def test_fills_agree_with_rational_numbers(instance, rule, key):
    """All three fills by all three keys, against a simulation in fractions."""
    exact_keys = {
        SHORTEST_JOB: lambda one, left: Fraction(one.work_worker_s) / one.max_workers,
        REMAINING_WORK: lambda one, left: left,
        REMAINING_GPU_WORK: lambda one, left: left * one.gpus_per_worker,
    }
    exact = mean_jct_of_fill(
        instance, exact_keys[key], one_by_one=rule != FILL_BASES_FIRST, in_turn=rule == FILL_IN_TURN
    )
    assert mean_jct_s(instance, run_fill(instance, Fill(rule, key))) == pytest.approx(
        float(exact), rel=1e-12
    )


@given(instance=SCHEDULES, rule=st.sampled_from(RULES), key=st.sampled_from(KEYS))
def test_interpreted_and_compiled_make_the_same_schedule(instance, rule, key):
    """To the last bit, so that the size from which kernels are compiled shows nowhere."""
    fill = Fill(rule, key)
    slow, fast = (run_fill(instance, fill, compiled=compiled) for compiled in (False, True))
    assert slow == fast


@given(instance=SCHEDULES, rule=st.sampled_from(RULES), factor=st.sampled_from((1e-9, 3.7, 1e9)))
def test_the_unit_of_time_decides_nothing(instance, rule, factor):
    """Work and releases by a factor: the same workers, and times by the factor."""
    scaled = in_other_units(instance, factor)
    before, after = (run_fill(each, Fill(rule, SHORTEST_JOB)) for each in (instance, scaled))
    assert [(piece.job, piece.workers) for piece in before.pieces] == [
        (piece.job, piece.workers) for piece in after.pieces
    ]
    assert mean_jct_s(scaled, after) == pytest.approx(factor * mean_jct_s(instance, before))


def test_completions_that_rounding_separates_are_one_decision():
    """0.1 + 0.2 and 0.3 differ as floats; the big job must see both jobs' GPUs at once."""
    instance = instance_of(
        2,
        job("short", 1, 1, 0.1, running=True),
        job("long", 1, 1, 0.3, running=True),
        job("next", 1, 1, 0.2),
        job("big", 2, 2, 2.0),
        job("small", 1, 1, 5.0),
    )
    schedule = smallest_remaining_work(instance)
    starts = {piece.job: piece.start_s for piece in reversed(schedule.pieces)}
    assert starts["big"] == pytest.approx(0.3)
    assert starts["small"] == pytest.approx(1.3)


def test_a_job_too_short_for_the_clock_is_valid():
    """Its piece is one unit in the last place long, which the checker allows."""
    instance = instance_of(1, job("a", 1, 1, 1e-9, release_s=1e9), job("b", 1, 1, 1.0))
    assert check(instance, smallest_remaining_work(instance)).violations == ()


@pytest.mark.parametrize("compiled", [False, True])
def test_pieces_are_kept_however_many_there_are(compiled):
    """One job changes its workers at each release of many, beyond the room first made."""
    ticks = [job(f"t{i}", 1, 1, 0.5, release_s=i) for i in range(1, 120)]
    instance = instance_of(3, job("long", 1, 3, 1000.0), *ticks)
    schedule = run_fill(instance, Fill(FILL_BASES_FIRST, REMAINING_WORK), compiled=compiled)
    assert check(instance, schedule).violations == ()
    assert sum(piece.job == "long" for piece in schedule.pieces) == 2 * 119 + 1
    held = [piece.workers for piece in schedule.pieces if piece.job == "long"]
    assert all(earlier != later for earlier, later in pairwise(held)), "pieces are merged"


@pytest.mark.parametrize(("release_s", "waits"), [(1, True), (44, True), (45, False), (60, False)])
def test_foresight_waits_for_a_job_to_come_while_it_pays(release_s, waits):
    """Long takes 100 s and short 10: long loses r + 10 by waiting, short 100 - r if it does not."""
    instance = instance_of(
        2, job("long", 2, 2, 200.0), job("short", 2, 2, 20.0, release_s=release_s)
    )
    schedule = run_fill(instance, Fill(FILL_WITH_FORESIGHT, REMAINING_WORK))
    assert [piece.job for piece in schedule.pieces] == (
        ["short", "long"] if waits else ["long", "short"]
    )


def test_a_job_of_key_never_does_not_start():
    """What cannot go on for ever is an error, and no schedule that lacks jobs."""
    state = FluidState(example())
    state.set_keys([0.0, 0.0], [NEVER, 1.0])
    with pytest.raises(ValueError, match="never starts the jobs that wait at 20"):
        state.run(FILL_BASES_FIRST, decides=False)


@pytest.mark.parametrize(("decisions", "fault"), TABLES["decisions_that_break_a_rule_are_refused"])
def test_decisions_that_break_a_rule_are_refused(decisions, fault):
    """A policy may be anybody's: the error says which rule and when."""
    with pytest.raises(ValueError, match=fault):
        evaluate(FluidState(example()), targets_in_turn(*decisions))


def test_thousands_of_jobs_stay_within_the_tolerance_of_the_checker():
    """Errors do not add up with the events that a job lives through."""
    load = {"jobs": 3_000, "load_percent": 1_000, "release_percent": 50}
    instance = generate("allocation", "load", **load, seed=1)
    schedule = smallest_remaining_work(instance)
    report = check(instance, schedule)
    assert report.violations == ()
    assert report.objective == mean_jct_s(instance, schedule)


# What is returned where there is no time for a rule.


@given(instance=SCHEDULES)
def test_moldable_schedule_is_valid_and_changes_no_workers(instance):
    schedule = moldable_schedule(instance)
    report = check(instance, schedule)
    assert report.violations == ()
    assert report.objective == mean_jct_s(instance, schedule)
    assert set(Counter(piece.job for piece in schedule.pieces).values()) == {1}


@given(instance=SCHEDULES)
def test_quick_schedule_is_valid_without_any_time(instance):
    with limited_to(Limits(time_s=0)):
        schedule = quick_schedule(instance)
    assert check(instance, schedule).violations == ()
