"""The checker finds what schedules lie about."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.clairvoyant.checker import check_starts
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity, Gangs
from tests.lyra_opt.simulation.clairvoyant.small import (
    GANGS,
    capacity_of,
    free_by_second,
    gangs_of,
    hold,
    rooms,
)

TWO = Gangs.of([0, 2], [5, 3], [3, 2])
FOUR_GPUS = Capacity.constant(4)


def test_a_valid_schedule_is_worth_its_mean_jct():
    """GPUs are free at the moment of a completion; JCT counts from the release."""
    report = check_starts(TWO, FOUR_GPUS, [0, 5 * MICROSECONDS])
    assert (report.violations, report.objective) == ((), 11 / 2)


FALLING = Capacity(since_s=np.array([0.0, 4.0, 8.0]), gpus=np.array([4, 2, 4]))


@pytest.mark.parametrize(
    ("capacity", "starts_us", "violation"),
    [
        (FOUR_GPUS, [0, 5 * MICROSECONDS - 1], "from 4.999999 s on, jobs hold 1 GPUs too many"),
        (
            FOUR_GPUS,
            [0, 2 * MICROSECONDS - 1],
            "job 1 starts at 1.999999 s, but is released at 2.0 s",
        ),
        (FOUR_GPUS, [0], "there must be one start per job (2), not 1"),
        # A job that runs when its GPUs go.
        (FALLING, [0, 8 * MICROSECONDS], "from 4.0 s on, jobs hold 1 GPUs too many"),
    ],
)
def test_a_lie_is_named(capacity, starts_us, violation):
    """A microsecond too soon is too soon."""
    report = check_starts(TWO, capacity, starts_us)
    assert violation in report.violations
    assert report.objective is None


def checked(jobs, room, starts):
    starts_us = [start * MICROSECONDS for start in starts]
    return check_starts(gangs_of(jobs), capacity_of(room), starts_us)


@given(jobs=GANGS, room=rooms(), data=st.data())
def test_the_checker_knows_valid_schedules(jobs, room, data):
    """Random starts are valid if and only if no second, looked at alone, has too few GPUs."""
    free = free_by_second(jobs, room)
    starts = [data.draw(st.integers(0, len(free) - job[1])) for job in jobs]
    released = all(start >= job[0] for job, start in zip(jobs, starts, strict=True))
    for job, start in zip(jobs, starts, strict=True):
        hold(job, start, free)
    report = checked(jobs, room, starts)
    # Seconds in which the room lacks nothing but is used by nobody are no violation.
    assert (report.violations == ()) == (released and min(free) >= 0)
