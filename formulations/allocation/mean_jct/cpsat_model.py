"""The mean-JCT model for CP-SAT, whose solutions are schedules on a time grid.

Jobs start and change on the grid only, and workers are whole. Every solution is a schedule, so its
value is never below the optimum. Sections 9 and 12 of the allocation README define the symbols.
"""

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from lyra_opt.allocation.instance import Instance, Objective, Solution
from lyra_opt.core.result import Limits, SolveResult
from lyra_opt.core.solver import Observer, Solver, Unsupported
from lyra_opt.formulations.allocation.cpsat_model import CPSAT
from lyra_opt.formulations.allocation.mean_jct.grid import (
    RATE_UNIT,
    GridSolver,
    ScheduleModel,
    ScheduleVariables,
    on_grid,
)
from lyra_opt.formulations.backends.cpsat import BACKEND
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement

# Variables


def add_variables(model: Any, data: ScheduleModel) -> ScheduleVariables:
    """Add variables for the workers of each job and slot, and for starts and completions.

    ``w_js in {0} u [w_min, w_max]`` is the number of workers of job j in slot s. ``a_js, b_js in
    {0, 1}`` say whether j has started or completed before slot s.
    """
    from ortools.sat.python import cp_model

    jobs, slots = list(enumerate(data.instance.jobs)), range(data.slots)
    domains = {
        j: cp_model.Domain.from_intervals(
            [[0, 0], [job.min_workers, data.instance.most_workers(job)]]
        )
        for j, job in jobs
    }
    return ScheduleVariables(
        held={
            (j, s): model.new_int_var_from_domain(domains[j], f"w_{j}_{s}")
            for j, _ in jobs
            for s in slots
        },
        started={(j, s): model.new_bool_var(f"a_{j}_{s}") for j, _ in jobs for s in slots},
        completed={
            (j, s): model.new_bool_var(f"b_{j}_{s}") for j, _ in jobs for s in range(data.slots + 1)
        },
    )


# Constraints


def order_in_time(model: Any, data: ScheduleModel, variables: ScheduleVariables) -> None:
    """Never undo a start or a completion, and let a job complete only after it has started.

    ``a_js <= a_j,s+1``, ``b_js <= b_j,s+1``, ``b_js <= a_js``.

    A job does not start before its release, a running job starts in the first slot, and every job
    completes by the end of the last slot.
    """
    for j, job in enumerate(data.instance.jobs):
        started = data.of_job(variables.started, j)
        completed = [variables.completed[j, s] for s in range(data.slots + 1)]
        for before, after in pairwise(started):
            model.add_implication(before, after)
        for before, after in pairwise(completed):
            model.add_implication(before, after)
        for done, begun in zip(completed, started, strict=False):
            model.add_implication(done, begun)
        first = math.ceil(Fraction(job.release_s) / data.step_s)
        for begun in started[:first]:
            model.add(begun == 0)
        if job.running:
            model.add(started[0] == 1)
        model.add(completed[0] == 0)
        model.add(completed[-1] == 1)


def held_while_running(model: Any, data: ScheduleModel, variables: ScheduleVariables) -> None:
    """Give job j between w_min and w_max workers while it runs, and none at any other time.

    ``w_min (a_js - b_js) <= w_js <= w_max (a_js - b_js)``.
    """
    for j, job in enumerate(data.instance.jobs):
        for s, held in enumerate(data.of_job(variables.held, j)):
            runs = variables.started[j, s] - variables.completed[j, s]
            model.add(held >= job.min_workers * runs)
            model.add(held <= data.instance.most_workers(job) * runs)


def work_done(model: Any, data: ScheduleModel, variables: ScheduleVariables) -> None:
    """Complete the work of job j: ``step sum_s rate(w_js) >= work_j``.

    Rates are rounded down.
    """
    for j, job in enumerate(data.instance.jobs):
        gain, loss = data.rates(job)
        runs = sum(data.of_job(variables.started, j)) - sum(data.of_job(variables.completed, j))
        due = math.ceil(Fraction(job.work_worker_s) / data.step_s * RATE_UNIT)
        model.add(gain * sum(data.of_job(variables.held, j)) + loss * runs >= due)


def capacity(model: Any, data: ScheduleModel, variables: ScheduleVariables) -> None:
    """Use at most the GPUs of the cluster in slot s: ``sum_j g_j w_js <= gpus``."""
    for s in range(data.slots):
        held = sum(
            job.gpus_per_worker * variables.held[j, s] for j, job in enumerate(data.instance.jobs)
        )
        model.add(held <= data.instance.gpus)


CONSTRAINTS = (order_in_time, held_while_running, work_done, capacity)


# Objective


def add_objective(model: Any, data: ScheduleModel, variables: ScheduleVariables) -> None:
    """Minimise the sum of completion times, in slots: ``sum_js (1 - b_js)``."""
    model.minimize(sum(1 - done for (_, s), done in variables.completed.items() if s < data.slots))


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)


def schedule_on_grid(step_s: float | None = None) -> GridSolver:
    """Return the CP-SAT solver of mean JCT on a time grid with slots of `step_s` seconds.

    None divides the time until the last release plus the run times at base demand into 24 slots.

    The result is never below the optimum of `mean_jct`. It equals the optimum if an optimal
    schedule has whole workers and changes only on the grid. The solver gives no bound.
    """
    return GridSolver(on_grid(step_s), STATEMENT, BACKEND)


class CpsatSolver(Solver):
    """OR-Tools CP-SAT for all allocation objectives; for `mean_jct` it uses a time grid.

    One-shot objectives are solved to proved optimality (`cpsat_model`). For `mean_jct`, time and
    workers are integers, so the schedule is never better than the optimum and there is no bound.

    Parameters
    ----------
    step_s
        The length of a slot for `mean_jct`, in seconds; None for the default of `schedule_on_grid`.
    """

    name = "cpsat"
    problem = "allocation"
    variants = (*CPSAT.variants, Objective.MEAN_JCT)
    exact_variants = CPSAT.variants
    gives_bound = True
    modules, engine, is_parallel = CPSAT.modules, CPSAT.engine, CPSAT.is_parallel
    language, form = CPSAT.language, CPSAT.form

    def __init__(self, step_s: float | None = None) -> None:
        self._schedule = schedule_on_grid(step_s)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the CP-SAT model cannot handle the instance; None if it can."""
        return self._model_of(instance).supports(instance)

    def model(self, instance: Instance) -> Any:
        """Return the CP-SAT model for the objective of the instance."""
        return self._model_of(instance).model(instance)

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Solution | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Solve the CP-SAT model for the objective of the instance."""
        return self._model_of(instance).solve(
            instance, limits=limits, rng=rng, warm_start=warm_start, observer=observer
        )

    def _model_of(self, instance: Instance) -> ExactModelSolver:
        return self._schedule if instance.objective is Objective.MEAN_JCT else CPSAT
