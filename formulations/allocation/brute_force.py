"""One-shot allocation by trying every choice: slow, plain, and right; the oracle of the tests."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from formulations.exact_solver import Countdown
from lyra_opt.allocation.checker import check, started_by_two_phase, waiting_horizon_s
from lyra_opt.allocation.instance import Objective, WorkerAllocation
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from lyra_opt.allocation.instance import AllocationInstance, ElasticJob
    from lyra_opt.core.result import Limits

MOST_CHOICES = 1_000_000
CHOICES_BETWEEN_LOOKS_AT_THE_CLOCK = 1000

Choices = list[list[tuple[int, int, Fraction]]]
"""For each job, in file order: workers, GPUs of the capacity, what they add to the cost."""


class BruteForce:
    """Cost every choice of workers; implements `lyra_opt.core.solver.Solver`.

    Choices are enumerated with fewer workers first, the first job slowest, and the first of least
    cost is kept, which of the best choices makes the answer unique. Costs are rational numbers.
    Only what does not fit is cut off. Complexity O(product of the numbers of choices a job).

    Stopped by the time limit, it returns the best choice so far with the bound that takes the
    best choice of each job alone. Other limits are not kept.
    """

    name = "brute-force"
    problem = "allocation"
    variants: Sequence[str] = tuple(
        str(objective) for objective in Objective if objective is not Objective.MEAN_JCT
    )
    proves_optimality = True
    gives_bound = True

    def availability(self) -> Unsupported | None:
        """Brute force needs nothing beyond this package."""
        return None

    def supports(self, instance: AllocationInstance) -> Unsupported | None:
        """Return why there are too many choices, None if there are not."""
        if instance.objective is Objective.MEAN_JCT:
            return Unsupported("brute force tries allocations at one moment, not schedules")
        choices = math.prod(
            job.max_workers - job.min_workers + (2 if can_wait else 1)
            for job, starts, can_wait in _decisions(instance)
            if starts
        )
        if choices <= MOST_CHOICES:
            return None
        return Unsupported(
            f"there are {choices} ways to give workers, those that do not fit included; brute "
            f"force tries at most {MOST_CHOICES}"
        )

    def solve(
        self,
        instance: AllocationInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: WorkerAllocation | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[WorkerAllocation]:
        """Try every choice; see `lyra_opt.core.solver.Solver.solve`."""
        countdown = Countdown(limits.time_s)
        # The reduction is the cost of the base demands, which cannot be chosen, less that found.
        sign = -1 if instance.objective is Objective.JCT_REDUCTION else 1
        choices = _choices(instance)
        best: tuple[tuple[int, ...], Fraction] | None = None
        stopped_by = None
        for tried, (workers, cost) in enumerate(_allocations(choices, instance.gpus)):
            if best is None or cost < best[1]:
                value = float(sign * cost)
                is_new = best is None or value != float(sign * best[1])
                best = workers, cost
                if observer is not None and is_new:
                    observer("objective", value)
            if tried % CHOICES_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and countdown.is_over:
                stopped_by = StoppedBy.TIME
                break
        assert best is not None, "the base demands that must be met fit together"
        solution, objective = WorkerAllocation(best[0]), float(sign * best[1])
        bound = objective
        if stopped_by is not None:
            bound = float(sign * sum(min(cost for _, _, cost in of_job) for of_job in choices))
            if warm_start is not None:
                started = check(instance, warm_start).objective
                if started is not None and sign * started < sign * objective:
                    solution, objective = warm_start, started
        if observer is not None:
            observer("dual_bound", bound)
        return SolveResult(
            status=Status.OPTIMAL if bound == objective else Status.FEASIBLE,
            stopped_by=stopped_by,
            solution=solution,
            objective=objective,
            dual_bound=bound,
        )


def _decisions(instance: AllocationInstance) -> Iterator[tuple[ElasticJob, bool, bool]]:
    """Yield each job, whether it may be started, and whether it may wait instead."""
    if instance.objective is Objective.TWO_PHASE:
        for job, starts in zip(instance.jobs, started_by_two_phase(instance), strict=True):
            yield job, starts, not starts
    else:
        for job in instance.jobs:
            yield job, True, instance.objective is Objective.JOINT and not job.running


def _choices(instance: AllocationInstance) -> Choices:
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
                for workers in range(job.min_workers, job.max_workers + 1)
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
