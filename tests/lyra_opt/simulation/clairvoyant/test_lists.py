"""List schedules are those of a plain scheduler that looks at every second, in rounded times."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.clairvoyant.checker import check_starts
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity, Gangs, microseconds
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from tests.lyra_opt.simulation.clairvoyant.small import (
    FEW_GANGS,
    GANGS,
    by_the_second,
    capacity_of,
    gangs_of,
    least_mean_jct_s,
    rooms,
)

BACKFILLS = pytest.mark.parametrize("backfills", [False, True])


@BACKFILLS
@given(jobs=GANGS, room=rooms(), data=st.data())
def test_a_list_schedule_second_by_second(backfills, jobs, room, data):
    """Starts are the same where the capacity rises and falls, with jobs passed over and without."""
    turn = data.draw(st.permutations(range(len(jobs))))
    scheduler = ListScheduler.of(gangs_of(jobs), capacity_of(room))
    found = scheduler.schedule(np.array(turn, dtype=float), backfills=backfills)
    expected = by_the_second(jobs, room, turn, backfills=backfills)
    assert (found / MICROSECONDS).tolist() == expected


@given(jobs=FEW_GANGS, room=rooms(), data=st.data())
def test_no_list_schedule_beats_the_optimum(jobs, room, data):
    """The checker takes every list schedule, and none is better than the best order of all."""
    gangs, capacity = gangs_of(jobs), capacity_of(room)
    turn = data.draw(st.permutations(range(len(jobs))))
    held_s = data.draw(st.lists(st.integers(0, 9), min_size=len(jobs), max_size=len(jobs)))
    earliest_us = np.array(held_s) * MICROSECONDS
    found = ListScheduler.of(gangs, capacity).schedule(np.array(turn, dtype=float), earliest_us)
    report = check_starts(gangs, capacity, found.tolist())
    assert report.violations == ()
    assert (found >= earliest_us).all()
    assert report.objective is not None
    assert report.objective >= least_mean_jct_s(jobs, room) - 1e-9
    assert report.objective == pytest.approx(gangs.jct_mean_s(found))


@BACKFILLS
def test_compiled_schedules_are_those_of_the_kernel_as_written(backfills):
    """Machine code, which large workloads get, starts jobs when interpreted code does."""
    rng = np.random.default_rng(3)
    jobs = 400
    gangs = Gangs.of(
        rng.uniform(0, 500, jobs), rng.exponential(30, jobs) + 0.1, rng.integers(1, 9, jobs)
    )
    capacity = Capacity(since_s=np.arange(40) * 25.3, gpus=rng.integers(8, 20, 40))
    turn = rng.random(jobs)
    compiled = ListScheduler.of(gangs, capacity).schedule(turn, backfills=backfills)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lyra_opt.core.kernels.COMPILE_FROM_WORK", 10**9)
        interpreted = ListScheduler.of(gangs, capacity).schedule(turn, backfills=backfills)
    assert compiled.tolist() == interpreted.tolist()
    assert check_starts(gangs, capacity, compiled.tolist()).violations == ()


def test_a_job_that_never_fits_is_an_error():
    """The capacity ends before the job could complete."""
    capacity = Capacity(since_s=np.array([0.0, 5.0]), gpus=np.array([4, 0]))
    scheduler = ListScheduler.of(Gangs.of([0, 1], [5, 5], [1, 1]), capacity)
    with pytest.raises(UserError, match="job 1 needs 1 GPUs, which are never free"):
        scheduler.schedule(np.zeros(2))


SECONDS = st.floats(0, 1e12, allow_subnormal=False) | st.integers(0, 10**9).map(float)


@given(SECONDS)
def test_microseconds_are_no_better_than_seconds(seconds):
    """Up is not below the exact value, down not above, and both within a microsecond or so."""
    exact = Fraction(seconds) * 10**6
    up = int(microseconds(np.array([seconds]), up=True)[0])
    down = int(microseconds(np.array([seconds]), up=False)[0])
    assert down <= exact <= up
    assert up - down <= 2 + exact / 2**50
    if seconds == int(seconds) and exact < 2**53:
        assert up == down


def test_steps_without_time_are_left_out():
    """Steps nearer to one another than a microsecond leave the last one, rises later than falls."""
    since_s = np.array([0.0, 1e-9, 2.5e-6, 4.5e-6, 4.9e-6])
    capacity = Capacity(since_s=since_s, gpus=np.array([4, 2, 6, 8, 1]))
    since, gpus = capacity.steps_us
    assert (since.tolist(), gpus.tolist()) == ([0, 3, 4], [2, 6, 1])
