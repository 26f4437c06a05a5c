"""Putting jobs back in another order keeps schedules valid and never makes them worse."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.clairvoyant.checker import check_starts
from lyra_opt.simulation.clairvoyant.gangs import LATEST_US, MICROSECONDS, Capacity, Gangs
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from lyra_opt.simulation.clairvoyant.profile import NOWHERE, ROOM, add, earliest, profile_of
from lyra_opt.simulation.clairvoyant.reinsertion import reinserted
from tests.draws import draws
from tests.lyra_opt.simulation.clairvoyant.small import (
    FEW_GANGS,
    GANG,
    capacity_of,
    gangs_of,
    least_mean_jct_s,
    rooms,
)

NO_JOBS = np.zeros(0, dtype=np.int64)


@draws(50)
@given(jobs=FEW_GANGS, room=rooms())
def test_it_is_valid_and_between_the_optimum_and_the_first_schedule(jobs, room):
    """On small workloads, with a capacity that changes."""
    gangs, capacity = gangs_of(jobs), capacity_of(room)
    start_us = ListScheduler.of(gangs, capacity).schedule(-gangs.area_gpu_s, backfills=False)
    found_us = reinserted(gangs, capacity, start_us, 40)
    found_s = check_starts(gangs, capacity, found_us.tolist()).objective
    assert least_mean_jct_s(jobs, room) - 1e-9 <= found_s <= gangs.jct_mean_s(start_us) + 1e-9


def test_a_poor_schedule_becomes_much_better():
    """From the largest job first to an order in which small jobs do not wait."""
    rng = np.random.default_rng(2)
    gangs = Gangs.of(np.zeros(200), rng.lognormal(3, 1.5, 200), rng.choice([1, 2, 4], 200))
    capacity = Capacity.constant(8)
    schedule = ListScheduler.of(gangs, capacity).schedule
    found_us = reinserted(gangs, capacity, schedule(-gangs.area_gpu_s), 20_000)
    found_s = check_starts(gangs, capacity, found_us.tolist()).objective
    assert found_s <= 1.02 * gangs.jct_mean_s(schedule(gangs.area_gpu_s))


@given(jobs=st.lists(GANG, max_size=60), job=GANG, limit=st.integers(0, 40), room=rooms())
def test_the_profile_is_that_of_seconds(jobs, job, limit, room):
    """After jobs came and went, it has the free GPUs of each second, and finds the first room."""
    steps = [np.array(each, dtype=np.int64) for each in zip(*room, strict=True)]
    profile = profile_of(NO_JOBS, NO_JOBS, NO_JOBS, *steps)
    free = np.array([[gpus for since, gpus in room if since <= now][-1] for now in range(60)])
    for number, (since, run, gpus) in enumerate(jobs):
        add(profile, since, since + run, -gpus)
        if number % 3:
            free[since : since + run] -= gpus
    for since, run, gpus in reversed(jobs[::3]):
        add(profile, since, since + run, gpus)
    release, run, gpus = job
    fits = [now for now in range(release, 50) if (free[now : now + run] >= gpus).all()]
    assert earliest(profile, release, run, gpus, LATEST_US) == min(fits, default=NOWHERE)
    within = [now for now in fits if now <= max(limit, release)]
    assert earliest(profile, release, run, gpus, max(limit, release)) == min(
        within, default=NOWHERE
    )
    assert profile.count.max() <= ROOM


def test_many_changes_at_one_time_end_a_block_and_not_the_search():
    """A bucket of the profile that is full is divided, and the schedule stays valid."""
    run_s = np.linspace(50.0, 60.0, 400)
    gangs = Gangs.of(np.zeros(400), run_s, np.ones(400))
    capacity = Capacity.constant(20)
    start_us = ListScheduler.of(gangs, capacity).schedule(-run_s)
    found_us = reinserted(gangs, capacity, start_us, 30_000)
    assert check_starts(gangs, capacity, found_us.tolist()).objective is not None
    assert gangs.jct_mean_s(found_us) < gangs.jct_mean_s(start_us)
    assert (found_us % MICROSECONDS != 0).any()
