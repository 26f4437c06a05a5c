"""The optimum of one-shot instances by looking at every choice, and examples of the paper."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from lyra_opt.allocation import (
    ElasticJob,
    Instance,
    Objective,
    Schedule,
    SchedulePiece,
    WorkerAllocation,
    check,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT = ElasticJob(id="B", min_workers=2, max_workers=6, work_worker_s=120)
LONG = ElasticJob(id="A", min_workers=2, max_workers=6, work_worker_s=300)
NARROW = ElasticJob(id="A", min_workers=2, max_workers=3, work_worker_s=300)

EXAMPLE_ROWS = {
    (LONG, 2, 6): (63 + 1 / 3, 20, 41 + 2 / 3),
    (LONG, 3, 5): (62, 24, 43),
    (LONG, 4, 4): (60, 30, 45),
    (LONG, 5, 3): (56 + 2 / 3, 40, 48 + 1 / 3),
    (LONG, 6, 2): (50, 53 + 1 / 3, 51 + 2 / 3),
    (NARROW, 3, 5): (100, 24, 62),
    (NARROW, 2, 6): (106 + 2 / 3, 20, 63 + 1 / 3),
}
"""Lyra, section 5.1: job A and the first workers of A and B, then completions and mean JCT."""


def example(job: ElasticJob = LONG, objective: str = "mean_jct", gpus: int = 8) -> Instance:
    """Return Lyra's first example, or its second with `NARROW`."""
    return Instance(name="example", objective=objective, gpus=gpus, jobs=(job, SHORT))


def example_schedule(job: ElasticJob, first: int, second: int) -> Schedule:
    """Return the schedule of a row: when one job ends, the other has all that it can use."""
    jobs = {job.id: (job, first), SHORT.id: (SHORT, second)}
    ends = {name: task.work_worker_s / workers for name, (task, workers) in jobs.items()}
    earlier, later = sorted(ends, key=ends.__getitem__)
    task, workers = jobs[later]
    left = task.work_worker_s - ends[earlier] * workers
    pieces = [
        SchedulePiece(job=earlier, start_s=0, end_s=ends[earlier], workers=jobs[earlier][1]),
        SchedulePiece(job=later, start_s=0, end_s=ends[earlier], workers=workers),
        SchedulePiece(
            job=later,
            start_s=ends[earlier],
            end_s=ends[earlier] + left / task.max_workers,
            workers=task.max_workers,
        ),
    ]
    return Schedule(tuple(pieces))


def all_allocations(instance: Instance) -> Iterator[tuple[WorkerAllocation, float]]:
    """Yield every valid allocation with its objective, by the checker."""
    ranges = [(0, *range(job.min_workers, job.max_workers + 1)) for job in instance.jobs]
    for workers in product(*ranges):
        solution = WorkerAllocation(workers)
        objective = check(instance, solution).objective
        if objective is not None:
            yield solution, objective


def best_allocation(instance: Instance) -> tuple[WorkerAllocation, float]:
    """Return an optimal allocation and its objective."""
    best = max if instance.objective is Objective.JCT_REDUCTION else min
    return best(all_allocations(instance), key=lambda found: found[1])
