"""Brute force for one-shot allocation: evaluate every combination of worker counts."""

import math
from collections.abc import Iterator
from fractions import Fraction

from lyra_opt.allocation.checker import started_by_two_phase, waiting_horizon_s
from lyra_opt.allocation.instance import ElasticJob, Instance, Objective, WorkerAllocation
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import require_time, within_time
from lyra_opt.formulations.brute_force import BruteForceSolver, too_many

MOST_CHOICES = 1_000_000
CHOICES_BETWEEN_TIME_CHECKS = 1000

Choices = list[list[tuple[int, int, Fraction]]]
"""For each job, in file order, its choices as triples (workers, GPUs, added cost in seconds)."""


class BruteForce(BruteForceSolver):
    """Brute-force solver that evaluates every combination of worker counts.

    Choices are enumerated in lexicographic order, fewer workers first and the last job changing
    fastest. The first choice of least cost is kept, so the answer is unique. Costs are rational
    numbers. Only choices that exceed the capacity are pruned. Complexity O(product of the jobs'
    numbers of choices).
    """

    of = PROBLEM
    variants = tuple(objective for objective in Objective if objective is not Objective.MEAN_JCT)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why brute force refuses the instance; None if it can solve the instance."""
        if instance.objective is Objective.MEAN_JCT:
            return Unsupported(
                "brute force enumerates allocations at one moment, not schedules over time"
            )
        choices = math.prod(
            job.max_workers - job.min_workers + (2 if can_wait else 1)
            for job, starts, can_wait in _decisions(instance)
            if starts
        )
        return too_many(
            choices,
            MOST_CHOICES,
            "worker counts can be combined in {} ways, with or without enough GPUs",
        )

    def improvements(self, instance: Instance) -> Iterator[WorkerAllocation]:
        """Enumerate allocations, and yield each that costs less than all allocations before it.

        A JCT reduction counts as a negative cost: the completion time minus that with the base
        demand.
        """
        least: Fraction | None = None
        for tried, (workers, cost) in enumerate(_allocations(_choices(instance), instance.gpus)):
            if least is None or cost < least:
                least = cost
                yield WorkerAllocation(workers)
            if tried % CHOICES_BETWEEN_TIME_CHECKS == 0:
                require_time()

    def without_search(self, instance: Instance) -> WorkerAllocation:
        """Return a fallback allocation: jobs that must run get their base demand, others 0."""
        return WorkerAllocation(
            tuple(
                job.min_workers if starts and not can_wait else 0
                for job, starts, can_wait in _decisions(instance)
            )
        )

    def simple_bound(self, instance: Instance) -> float:
        """Return a bound that ignores the capacity: every job has its maximum number of workers."""
        reduces = instance.objective is Objective.JCT_REDUCTION
        least = sum(
            job.duration_s(job.max_workers) - reduces * job.duration_s(job.min_workers)
            for job, starts, _ in _decisions(instance)
            if starts
        )
        return float(-least if reduces else least)


def _decisions(instance: Instance) -> Iterator[tuple[ElasticJob, bool, bool]]:
    """Yield (job, whether it may start, whether it may wait instead) for each job."""
    if instance.objective is Objective.TWO_PHASE:
        for job, starts in zip(instance.jobs, started_by_two_phase(instance), strict=True):
            yield job, starts, not starts
    else:
        for job in instance.jobs:
            yield job, True, instance.objective is Objective.JOINT and not job.running


def _choices(instance: Instance) -> Choices:
    """Return, for each job, its possible worker counts with their GPUs and added costs.

    For the JCT reduction the costs are at most 0.
    """
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
                    range(job.min_workers, job.max_workers + 1), CHOICES_BETWEEN_TIME_CHECKS
                )
            ]
        choices.append(of_job)
    return choices


def _allocations(choices: Choices, gpus: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Yield (workers per job, cost) of every allocation within the capacity, lexicographically."""
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
