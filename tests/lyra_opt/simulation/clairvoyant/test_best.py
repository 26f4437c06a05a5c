"""The best schedule found is a schedule, never better than the optimum, and better than a list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.simulation.clairvoyant import best as module
from lyra_opt.simulation.clairvoyant.best import best_schedule
from lyra_opt.simulation.clairvoyant.checker import check_starts
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity, Gangs
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from tests.draws import draws
from tests.lyra_opt.simulation.clairvoyant.small import (
    FEW_GANGS,
    Fields,
    capacity_of,
    gangs_of,
    least_mean_jct_s,
    rooms,
)

BORDER_S = np.arange(60) * 2.0


def many() -> tuple[Gangs, Capacity, np.ndarray]:
    """Return a loaded cluster: many small jobs, some long ones, and some that are wide."""
    rng = np.random.default_rng(5)
    jobs = 600
    run_s = rng.lognormal(3.0, 1.5, jobs)
    gpus = rng.choice([1, 2, 4, 8], jobs, p=[0.8, 0.1, 0.05, 0.05])
    release_s = np.sort(rng.uniform(0, (run_s * gpus).sum() / 16, jobs))
    capacity = Capacity(since_s=np.array([0.0, 900.0, 1500.0]), gpus=np.array([16, 20, 16]))
    return Gangs.of(release_s, run_s, gpus), capacity, np.arange(400) * 20.0


@draws(50)
@given(jobs=FEW_GANGS, room=rooms())
def test_it_is_valid_and_never_beats_the_optimum(
    jobs: list[Fields], room: list[tuple[int, int]]
) -> None:
    """On small workloads, with a capacity that changes."""
    gangs, capacity = gangs_of(jobs), capacity_of(room)
    found = best_schedule(gangs, capacity, BORDER_S, passes=20, tries=2)
    start_us = np.round(found.start_s * MICROSECONDS).astype(np.int64)
    assert check_starts(gangs, capacity, start_us.tolist()).objective == found.jct_mean_s
    assert found.jct_mean_s >= least_mean_jct_s(jobs, room) - 1e-9


def test_it_is_better_than_the_list_alone() -> None:
    """Knowing what comes is worth much: most of the queuing of the plain list by area goes."""
    gangs, capacity, border_s = many()
    plain = gangs.jct_mean_s(ListScheduler.of(gangs, capacity).schedule(gangs.area_gpu_s))
    found = best_schedule(gangs, capacity, border_s, passes=160, tries=5)
    assert found.jct_mean_s < plain
    without_windows = best_schedule(gangs, capacity, border_s, passes=160, tries=0)
    assert found.jct_mean_s <= without_windows.jct_mean_s < plain


def test_same_seed_same_schedule() -> None:
    """A run can be repeated."""
    gangs, capacity, border_s = many()
    first, second = (
        best_schedule(gangs, capacity, border_s, seed=3, passes=20, tries=2) for _ in range(2)
    )
    assert first.start_s.tolist() == second.start_s.tolist()
    assert (first.jct_mean_s, first.evaluations) == (second.jct_mean_s, second.evaluations)


def test_without_time_there_is_a_schedule() -> None:
    """The plain list is there before the clock is looked at."""
    gangs, capacity, border_s = many()
    with limited_to(Limits(time_s=0.0)):
        found = best_schedule(gangs, capacity, border_s)
    assert found.evaluations == 2


def test_weights_decide_who_waits() -> None:
    """Of two alike the heavier goes first, whichever is first in the file."""
    for weight in ([1.0, 3.0], [3.0, 1.0]):
        gangs = Gangs.of([0, 0], [5, 5], [1, 1], weight)
        found = best_schedule(gangs, Capacity.constant(1), BORDER_S, passes=20, tries=2)
        assert found.jct_mean_s == (3 * 5 + 10) / 4


def test_jobs_of_weight_zero_run_too() -> None:
    """They count for nothing, and wait for all others."""
    gangs = Gangs.of([0, 0], [5, 5], [1, 1], [0.0, 1.0])
    found = best_schedule(gangs, Capacity.constant(1), BORDER_S, passes=20, tries=2)
    assert found.start_s.tolist() == [5.0, 0.0]


def test_a_job_that_never_fits_is_an_error() -> None:
    """A gang larger than the cluster is the user's to mend."""
    with pytest.raises(UserError, match="never room for job 0, which needs 5 GPUs"):
        best_schedule(Gangs.of([0], [1], [5]), Capacity.constant(4), BORDER_S)


def test_a_schedule_that_the_checker_refutes_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes schedules does not grade them."""
    monkeypatch.setattr(
        ListScheduler, "schedule", lambda self, *_, **__: np.zeros(2, dtype=np.int64)
    )
    with pytest.raises(module.RefutedClaimError, match="1 GPUs are held too many"):
        best_schedule(
            Gangs.of([0, 0], [5, 5], [1, 1]), Capacity.constant(1), BORDER_S, passes=5, tries=0
        )
