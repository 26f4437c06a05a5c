"""Mean JCT on a grid in CP-SAT: starts on the grid, whole workers, real schedules.

Every solution is a schedule, so its value is never below the optimum. Symbols: see the README
beside this file, sections 9 and 12.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from formulations.allocation.mean_jct_model import Incumbent, MeanJctModel
from lyra_opt.allocation.exact.mean_jct.solver import schedule_value
from lyra_opt.allocation.instance import Schedule, SchedulePiece
from lyra_opt.core.result import SolveResult, Status, StoppedBy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.allocation.mean_jct_model import Observer
    from formulations.exact_solver import Countdown
    from lyra_opt.allocation.instance import AllocationInstance, ElasticJob

DEFAULT_SLOTS = 24
RATE_UNIT = 10**6
"""Parts of a worker in which rates are counted, rounded down."""


class Variables(NamedTuple):
    """By job, then by slot."""

    held: list[list[Any]]
    started: list[list[Any]]
    completed: list[list[Any]]


class GridSchedule(NamedTuple):
    """What the model found.

    Parameters
    ----------
    schedule
        The schedule; a job completes within its last slot as soon as its work is done. None if
        none was found.
    model_mean_s
        The model's value, which counts whole slots; falls, or stays, when the step is halved.
    """

    schedule: Schedule | None
    model_mean_s: float
    is_optimal: bool


def slots_needed(instance: AllocationInstance, step: Fraction) -> int:
    """Return a number of slots in which all jobs fit one after another."""
    total = math.ceil(max(Fraction(job.release_s) for job in instance.jobs) / step)
    return total + sum(math.ceil(job.duration_s(job.min_workers) / step) for job in instance.jobs)


def build(instance: AllocationInstance, step: Fraction) -> tuple[Any, Variables]:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    variables = add_variables(model, instance, slots_needed(instance, step))
    for add_constraint in CONSTRAINTS:
        add_constraint(model, instance, step, variables)
    add_objective(model, variables)
    return model, variables


# Variables


def add_variables(model: Any, instance: AllocationInstance, slots: int) -> Variables:
    """``w_js in {0} u [w_min, w_max]``; ``a_js, b_js in {0, 1}``: started, completed before s."""
    from ortools.sat.python import cp_model

    return Variables(
        held=[
            [
                model.new_int_var_from_domain(
                    cp_model.Domain.from_intervals([[0, 0], [job.min_workers, job.max_workers]]),
                    f"w_{j}_{s}",
                )
                for s in range(slots)
            ]
            for j, job in enumerate(instance.jobs)
        ],
        started=[
            [model.new_bool_var(f"a_{j}_{s}") for s in range(slots)]
            for j in range(len(instance.jobs))
        ],
        completed=[
            [model.new_bool_var(f"b_{j}_{s}") for s in range(slots + 1)]
            for j in range(len(instance.jobs))
        ],
    )


# Constraints


def order_in_time(
    model: Any, instance: AllocationInstance, step: Fraction, variables: Variables
) -> None:
    """``a_js <= a_j,s+1``, ``b_js <= b_j,s+1``, ``b_js <= a_js``; released, running, done."""
    for j, job in enumerate(instance.jobs):
        started, completed = variables.started[j], variables.completed[j]
        for before, after in pairwise(started):
            model.add_implication(before, after)
        for before, after in pairwise(completed):
            model.add_implication(before, after)
        for done, begun in zip(completed, started, strict=False):
            model.add_implication(done, begun)
        first = math.ceil(Fraction(job.release_s) / step)
        for begun in started[:first]:
            model.add(begun == 0)
        if job.running:
            model.add(started[0] == 1)
        model.add(completed[0] == 0)
        model.add(completed[-1] == 1)


def held_while_running(
    model: Any,
    instance: AllocationInstance,
    step: Fraction,  # noqa: ARG001
    variables: Variables,
) -> None:
    """``w_min (a_js - b_js) <= w_js <= w_max (a_js - b_js)``."""
    for j, job in enumerate(instance.jobs):
        for s, held in enumerate(variables.held[j]):
            runs = variables.started[j][s] - variables.completed[j][s]
            model.add(held >= job.min_workers * runs)
            model.add(held <= job.max_workers * runs)


def work_done(
    model: Any, instance: AllocationInstance, step: Fraction, variables: Variables
) -> None:
    """``step sum_s rate(w_js) >= work_j``, rates rounded down."""
    for j, job in enumerate(instance.jobs):
        gain, loss = _rates(job)
        runs = sum(variables.started[j]) - sum(variables.completed[j][:-1])
        due = math.ceil(Fraction(job.work_worker_s) / step * RATE_UNIT)
        model.add(gain * sum(variables.held[j]) + loss * runs >= due)


def capacity(
    model: Any,
    instance: AllocationInstance,
    step: Fraction,  # noqa: ARG001
    variables: Variables,
) -> None:
    """``sum_j g_j w_js <= gpus`` for each slot s."""
    for held in zip(*variables.held, strict=True):
        model.add(
            sum(job.gpus_per_worker * w for job, w in zip(instance.jobs, held, strict=True))
            <= instance.gpus
        )


CONSTRAINTS = (order_in_time, held_while_running, work_done, capacity)


# Objective


def add_objective(model: Any, variables: Variables) -> None:
    """Minimise ``sum_js (1 - b_js)``, the sum of completions in slots."""
    model.minimize(sum(1 - done for completed in variables.completed for done in completed[:-1]))


def _rates(job: ElasticJob) -> tuple[int, int]:
    """Return what a worker does, and what a running job does besides, in units, rounded down."""
    gain = math.floor((1 - Fraction(job.scaling_loss)) * RATE_UNIT)
    return gain, job.min_workers * (RATE_UNIT - gain)


def grid_schedule(
    instance: AllocationInstance, step_s: float, *, time_s: float | None = None, seed: int = 0
) -> GridSchedule:
    """Return the best schedule on the grid of `step_s`."""
    from ortools.sat.python import cp_model

    step = Fraction(step_s)
    model, variables = build(instance, step)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = seed
    if time_s is not None:
        solver.parameters.max_time_in_seconds = time_s
    status = solver.solve(model)
    if status == cp_model.UNKNOWN:
        return GridSchedule(None, math.inf, is_optimal=False)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RuntimeError(f"CP-SAT ended with {solver.status_name(status)}")
    workers = [[solver.value(w) for w in held] for held in variables.held]
    releases = sum(Fraction(job.release_s) for job in instance.jobs)
    mean = (round(solver.objective_value) * step - releases) / len(instance.jobs)
    return GridSchedule(
        _schedule(instance, step, workers), float(mean), is_optimal=status == cp_model.OPTIMAL
    )


def _schedule(
    instance: AllocationInstance, step: Fraction, workers: Sequence[Sequence[int]]
) -> Schedule:
    """Return the pieces; each job's last one ends when its work is done."""
    pieces = []
    for j, job in enumerate(instance.jobs):
        left = Fraction(job.work_worker_s)
        last: tuple[Fraction, Fraction, int] | None = None
        for s, held in enumerate(workers[j]):
            if not held or left <= 0:
                continue
            rate = job.rate(held)
            end = min((s + 1) * step, s * step + left / rate)
            left -= rate * (end - s * step)
            if last is not None and last[2] == held:
                last = (last[0], end, held)
                continue
            if last is not None:
                pieces.append((last[0], j, last[1], last[2]))
            last = (s * step, end, held)
        if last is not None:
            pieces.append((last[0], j, last[1], last[2]))
    return Schedule(
        tuple(
            SchedulePiece(
                job=instance.jobs[j].id,
                start_s=float(start),
                end_s=float(end),
                workers=float(held),
            )
            for start, j, end, held in sorted(pieces)
        )
    )


class CpsatSchedule(MeanJctModel):
    """A schedule with whole workers on a grid of time, by CP-SAT.

    Never below the optimum of `mean_jct`, and equal to it where an optimum with whole workers
    changes on the grid alone. It gives no bound.

    Parameters
    ----------
    step_s
        Length of a slot in seconds; None for a 24th of the longest needed time.
    """

    name = "cpsat"
    gives_bound = False
    modules = ("ortools.sat.python.cp_model",)

    def run(
        self,
        instance: AllocationInstance,
        incumbent: Incumbent,
        countdown: Countdown,
        seed: int,
        observer: Observer | None,
    ) -> SolveResult[Schedule]:
        """Search the grid."""
        longest_s = max(job.release_s for job in instance.jobs) + math.fsum(
            float(job.duration_s(job.min_workers)) for job in instance.jobs
        )
        limited = countdown.is_over
        if not limited:
            found = grid_schedule(
                instance,
                self.step_s or longest_s / DEFAULT_SLOTS,
                time_s=countdown.remaining_s,
                seed=seed,
            )
            limited = not found.is_optimal
            if found.schedule is not None:
                objective = schedule_value(instance, found.schedule)
                if objective < incumbent.objective:
                    incumbent = Incumbent(found.schedule, objective)
                    if observer is not None:
                        observer("objective", objective)
        return SolveResult(
            status=Status.FEASIBLE,
            stopped_by=StoppedBy.TIME if limited else None,
            solution=incumbent.schedule,
            objective=incumbent.objective,
        )
