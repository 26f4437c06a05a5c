"""The best schedule found is a schedule, never better than the optimum, and better than a list."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits
from lyra_opt.core.solving import RefutedClaimError
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.clairvoyant.best import best_schedule, obstacle, schedule_of
from lyra_opt.simulation.clairvoyant.checker import check_starts
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity, Gangs
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from lyra_opt.simulation.cluster import Cluster, GpuType
from lyra_opt.simulation.scheme import simulate
from lyra_opt.simulation.speed import Speed
from tests.draws import draws
from tests.lyra_opt.simulation.clairvoyant.small import (
    FEW_GANGS,
    capacity_of,
    gangs_of,
    least_mean_jct_s,
    rooms,
)
from tests.lyra_opt.simulation.replays import job_of, workload_of

BORDER_S = np.arange(60) * 2.0


def many():
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
def test_it_is_valid_and_never_beats_the_optimum(jobs, room):
    """On small workloads, with a capacity that changes."""
    gangs, capacity = gangs_of(jobs), capacity_of(room)
    found = best_schedule(gangs, capacity, BORDER_S, passes=20, tries=2)
    start_us = np.round(found.start_s * MICROSECONDS).astype(np.int64)
    assert check_starts(gangs, capacity, start_us.tolist()).objective == found.jct_mean_s
    assert found.jct_mean_s >= least_mean_jct_s(jobs, room) - 1e-9


def test_it_is_better_than_the_list_alone(monkeypatch):
    """Knowing what comes is worth much: most of the queuing of the plain list by area goes."""
    gangs, capacity, border_s = many()
    monkeypatch.setattr("lyra_opt.simulation.clairvoyant.best.MOVES", 0)
    plain = gangs.jct_mean_s(ListScheduler.of(gangs, capacity).schedule(gangs.area_gpu_s))
    found = best_schedule(gangs, capacity, border_s, passes=160, tries=5)
    assert found.jct_mean_s < plain
    without_windows = best_schedule(gangs, capacity, border_s, passes=160, tries=0)
    assert found.jct_mean_s <= without_windows.jct_mean_s < plain


def test_every_part_of_the_search_helps(monkeypatch):
    """Jobs are pulled forward into free GPUs, and then a few at a time put in another order."""
    gangs, capacity, border_s = many()
    found_s = []
    for part in ("", "MOVES", "PULLS"):
        if part:
            monkeypatch.setattr(f"lyra_opt.simulation.clairvoyant.best.{part}", 0)
        found_s.append(best_schedule(gangs, capacity, border_s, passes=160, tries=5).jct_mean_s)
    assert found_s[0] < found_s[1] < found_s[2]


def test_same_seed_same_schedule():
    """A run can be repeated."""
    gangs, capacity, border_s = many()
    first, second = (
        best_schedule(gangs, capacity, border_s, seed=3, passes=20, tries=2) for _ in range(2)
    )
    assert first.start_s.tolist() == second.start_s.tolist()
    assert (first.jct_mean_s, first.evaluations) == (second.jct_mean_s, second.evaluations)


def test_without_time_there_is_a_schedule():
    """The plain list is there before the clock is looked at."""
    gangs, capacity, border_s = many()
    with limited_to(Limits(time_s=0.0)):
        found = best_schedule(gangs, capacity, border_s)
    assert found.evaluations == 2


ONE_GPU, TWO_ALIKE = Capacity.constant(1), Gangs.of([0, 0], [5, 5], [1, 1])


def test_a_schedule_that_the_checker_refutes_is_no_answer(monkeypatch):
    """Whoever makes schedules does not grade them."""
    monkeypatch.setattr(ListScheduler, "schedule", lambda *_, **__: np.zeros(2, dtype=np.int64))
    with pytest.raises(RefutedClaimError, match="jobs hold 1 GPUs too many"):
        best_schedule(TWO_ALIKE, ONE_GPU, BORDER_S, passes=5, tries=0)


FAST = GpuType(name="fast", relative_speed=1.25)
CLUSTER = Cluster.of_servers(2, gpus_per_server=4, gpu=FAST)


def workload(*jobs):
    """Return rigid jobs given by submission, GPUs and seconds on a reference GPU."""
    return workload_of(
        *(
            job_of(f"j{number}", submit_s, seconds, gpus)
            for number, (submit_s, gpus, seconds) in enumerate(sorted(jobs))
        )
    )


JOBS = st.tuples(st.floats(5, 20), st.integers(1, 8), st.floats(0.5, 9))


@draws(25)
@given(st.lists(JOBS, min_size=1, max_size=8))
def test_found_is_between_the_proof_and_a_simulation(jobs):
    """Bound, schedule and simulation are three programmes: each would show a fault of another."""
    made, speed = workload(*jobs), Speed(CLUSTER)
    bound = whole_bound(made, CLUSTER, reading=Reading.RESTART, queue=False)
    found = schedule_of(made, speed, bound.jct.border_s, bound.jct.price)
    assert bound.jct_mean_bound_s <= found.jct_mean_s * (1 + 1e-9)
    if len(jobs) == 1:
        assert found.jct_mean_s == pytest.approx(bound.jct_mean_bound_s, rel=1e-6)
    runs = simulate(made, CLUSTER, "sjf").runs
    # A schedule by luck is possible, one that is much worse than that of a plain rule is not.
    assert found.jct_mean_s <= 1.5 * sum(run.jct_s for run in runs) / len(runs)


@pytest.mark.parametrize(
    ("change", "cluster", "told"),
    [
        ({"max_workers": 8}, CLUSTER, "j0 is elastic"),
        ({"gpus_per_worker": 2}, CLUSTER, "a worker of job j0 needs several GPUs"),
        # They would be left out.
        ({}, Cluster.of_servers(2, inference_servers=1), "has several GPU types or loans"),
    ],
)
def test_what_is_no_gang_is_said(change, cluster, told):
    """A schedule of other jobs than those of the workload would say nothing of the bound."""
    found = obstacle(workload_of(job_of("j0", 0, 4, **change)), Speed(cluster))
    assert told in found
