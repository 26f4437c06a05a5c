"""One-shot allocation by trying every choice: slow, plain, and right."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from lyra_opt.allocation.checker import started_by_two_phase, waiting_horizon_s
from lyra_opt.allocation.instance import Objective, WorkerAllocation
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import require_time, within_time
from lyra_opt.formulations.brute_force import BruteForceSolver, too_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.allocation.instance import ElasticJob, Instance

MOST_CHOICES = 1_000_000
CHOICES_BETWEEN_LOOKS_AT_THE_CLOCK = 1000

Choices = list[list[tuple[int, int, Fraction]]]
"""For each job, in file order: workers, GPUs of the capacity, what they add to the cost."""


class BruteForce(BruteForceSolver):
    """Cost every choice of workers.

    Choices are enumerated with fewer workers first, the first job slowest, and the first of least
    cost is kept, which of the best choices makes the answer unique. Costs are rational numbers.
    Only what does not fit is cut off. Complexity O(product of the numbers of choices a job).
    """

    of = PROBLEM
    variants = tuple(objective for objective in Objective if objective is not Objective.MEAN_JCT)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why there are too many choices, None if there are not."""
        if instance.objective is Objective.MEAN_JCT:
            return Unsupported("brute force tries allocations at one moment, not schedules")
        choices = math.prod(
            job.max_workers - job.min_workers + (2 if can_wait else 1)
            for job, starts, can_wait in _decisions(instance)
            if starts
        )
        return too_many(
            choices,
            MOST_CHOICES,
            "there are {} ways to give workers, those that do not fit included",
        )

    def improvements(self, instance: Instance) -> Iterator[WorkerAllocation]:
        """Yield each allocation that costs less than all before; the reduction is a cost below 0.

        The reduction is the cost of the base demands, which cannot be chosen, less that found.
        """
        least: Fraction | None = None
        for tried, (workers, cost) in enumerate(_allocations(_choices(instance), instance.gpus)):
            if least is None or cost < least:
                least = cost
                yield WorkerAllocation(workers)
            if tried % CHOICES_BETWEEN_LOOKS_AT_THE_CLOCK == 0:
                require_time()

    def without_search(self, instance: Instance) -> WorkerAllocation:
        """Return the base demands of all that must run."""
        return WorkerAllocation(
            tuple(
                job.min_workers if starts and not can_wait else 0
                for job, starts, can_wait in _decisions(instance)
            )
        )

    def simple_bound(self, instance: Instance) -> float:
        """Return the value of the best choice of each job alone: as many workers as it can use."""
        reduces = instance.objective is Objective.JCT_REDUCTION
        least = sum(
            job.duration_s(job.max_workers) - reduces * job.duration_s(job.min_workers)
            for job, starts, _ in _decisions(instance)
            if starts
        )
        return float(-least if reduces else least)


def _decisions(instance: Instance) -> Iterator[tuple[ElasticJob, bool, bool]]:
    """Yield each job, whether it may be started, and whether it may wait instead."""
    if instance.objective is Objective.TWO_PHASE:
        for job, starts in zip(instance.jobs, started_by_two_phase(instance), strict=True):
            yield job, starts, not starts
    else:
        for job in instance.jobs:
            yield job, True, instance.objective is Objective.JOINT and not job.running


def _choices(instance: Instance) -> Choices:
    """Return what can be chosen for each job; for the reduction its costs are negative."""
    reduces = instance.objective is Objective.JCT_REDUCTION
    joint = instance.objective is Objective.JOINT
    choices: Choices = []
    for job, starts, can_wait in _decisions(instance):
        base_s = job.duration_s(job.min_workers)
        of_job = []
        if can_wait:
            waiting_s = base_s + waiting_horizon_s(instance) if joint else Fraction(0)
            of_job.append((0, 0, waiting_s))
        if starts:
            of_job += [
                (
                    workers,
                    (workers - job.min_workers * reduces) * job.gpus_per_worker,
                    job.duration_s(workers) - base_s * reduces,
                )
                for workers in within_time(
                    range(job.min_workers, job.max_workers + 1), CHOICES_BETWEEN_LOOKS_AT_THE_CLOCK
                )
            ]
        choices.append(of_job)
    return choices


def _allocations(choices: Choices, gpus: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Yield the workers and the cost of everything that fits, lexicographically."""
    workers = [0] * len(choices)

    def allocate(job: int, free: int, cost: Fraction) -> Iterator[tuple[tuple[int, ...], Fraction]]:
        if job == len(choices):
            yield tuple(workers), cost
            return
        for count, held, added in choices[job]:
            if held <= free:
                workers[job] = count
                yield from allocate(job + 1, free - held, cost + added)

    return allocate(0, gpus, Fraction(0))
