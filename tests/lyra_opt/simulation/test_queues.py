"""Queues: the order of a pass, who is blocked with whom, and where preempted jobs return to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.job_run import JobRates, JobRun
from lyra_opt.simulation.queues import ORDERS, JobQueue
from lyra_opt.simulation.speed import Speed
from tests.lyra_opt.simulation.replays import job_of

if TYPE_CHECKING:
    from random import Random


def runs_of(*sizes: tuple[float, int]) -> list[JobRun]:
    """Return jobs of (duration, workers), submitted in this order."""
    return [
        JobRun(
            job_of(f"j{order}", 0, duration_s, workers),
            order,
            duration_s * workers,
            JobRates(float(workers), workers, (), ()),
        )
        for order, (duration_s, workers) in enumerate(sizes)
    ]


def take_while_room(queue: JobQueue, gpus: int) -> list[int]:
    """Carry out a pass on so many free GPUs; return who starts, in order."""
    started = []
    queue.begin()
    while (run := queue.first()) is not None:
        if run.job.min_gpus <= gpus:
            gpus -= run.job.min_gpus
            queue.take()
            started.append(run.order)
        else:
            queue.block()
    return started


def by_duration(run: JobRun) -> tuple[float, ...]:
    return (run.job.duration_s,)


def by_submission(run: JobRun) -> tuple[float, ...]:
    return ()


def gpus_needed(run: JobRun) -> int:
    return run.job.min_gpus


def first_come() -> JobQueue:
    """Return a queue in which jobs that take long stand apart, and nobody overtakes his like."""
    return JobQueue(by_submission, lambda run: run.job.duration_s > 5)


SIZES = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=12)


@given(SIZES, st.lists(st.integers(0, 8), min_size=1, max_size=4), st.randoms())
def test_first_come_is_never_overtaken(sizes: list, gpus: list[int], random: Random) -> None:
    """Whoever starts is the longest submitted, in whatever order jobs were queued."""
    runs = runs_of(*sizes)
    queue = first_come()
    for run in random.sample(runs, len(runs)):
        queue.add(run)
    waiting = list(runs)
    for free in gpus:
        expected = []
        while waiting and waiting[0].job.min_gpus <= free:
            free -= waiting[0].job.min_gpus
            expected.append(waiting.pop(0).order)
        assert (
            take_while_room(queue, sum(runs[o].job.min_gpus for o in expected) + free) == expected
        )
        assert len(queue) == len(waiting)


@given(SIZES, st.lists(st.integers(0, 8), min_size=1, max_size=4), st.randoms())
def test_smallest_first_skips_what_does_not_fit(
    sizes: list, gpus: list[int], random: Random
) -> None:
    """Blocking all jobs of a kind at once is the same as trying every job."""
    runs = runs_of(*sizes)
    queue = JobQueue(by_duration, gpus_needed)
    for run in random.sample(runs, len(runs)):
        queue.add(run)
    waiting = sorted(runs, key=lambda run: (run.job.duration_s, run.order))
    for free in gpus:
        left, expected = free, []
        for run in list(waiting):
            if run.job.min_gpus <= left:
                left -= run.job.min_gpus
                expected.append(run.order)
                waiting.remove(run)
        assert take_while_room(queue, free) == expected
        assert len(queue) == len(waiting)


def test_a_preempted_job_returns_to_its_place() -> None:
    """It is not sent behind those that came later."""
    runs = runs_of((1, 1), (1, 1), (1, 1))
    queue = first_come()
    for run in runs:
        queue.add(run)
    assert take_while_room(queue, 2) == [0, 1]
    queue.add(runs[1])
    assert take_while_room(queue, 2) == [1, 2]


def test_jobs_that_stand_apart_hold_up_only_each_other() -> None:
    """Jobs that wait for other GPUs do not wait for one another; among themselves they do."""
    runs = runs_of((1, 9), (1, 9), (9, 1), (1, 1), (9, 1), (1, 1))
    queue = first_come()
    for run in runs:
        queue.add(run)
    assert len(queue) == 6
    assert take_while_room(queue, 2) == [2, 4]
    assert take_while_room(queue, 9) == [0]
    assert take_while_room(queue, 11) == [1, 3, 5]
    assert len(queue) == 0
    for run in runs[3:1:-1]:
        queue.add(run)
    assert take_while_room(queue, 2) == [2, 3], "both are offered by submission"


def test_the_size_counts_as_of_when_a_job_is_queued() -> None:
    """A preempted job with checkpoints is nearer to its end than when it was submitted."""
    long, short = runs_of((50, 1), (30, 1))
    speed = Speed(Cluster.of_servers(1))
    queue = JobQueue(lambda run: ORDERS["smallest-work"](run, speed), gpus_needed)
    queue.add(short)
    long.left = 10.0
    queue.add(long)
    assert take_while_room(queue, 1) == [0]
