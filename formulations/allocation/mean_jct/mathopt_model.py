"""A time-indexed mixed-integer relaxation of mean JCT, whose optimum is a lower bound.

Time is divided into slots of equal length. The programme decides in which slots a job starts and
completes, and how long it runs and how much work it does in each slot. It does not decide when this
happens within a slot, so capacity holds only on average over a slot. Every schedule gives a
solution of equal value. Sections 9 and 12 of the allocation README define the symbols.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.formulations.allocation.mean_jct.grid import (
    GridSolver,
    SlotModel,
    SlotVariables,
    on_grid,
)
from lyra_opt.formulations.backends.mathopt import GSCIP, run_gscip
from lyra_opt.formulations.exact_model import Statement

if TYPE_CHECKING:
    from lyra_opt.formulations.backends.backend import BackendRun, Built, Settings, Values

WINDOW_MARGIN = 1e-12
LARGEST_COEFFICIENT = 1e2
"""The largest coefficient in work rows, given SCIP's tolerances: 1e-9 for 0 and 1e-6 per row."""
ROUNDS_OF_CUTS = 2
"""Rounds of cuts at the root, none elsewhere: SCIP's default spends most of its time on cuts."""


# Variables


def add_variables(model: Any, data: SlotModel) -> SlotVariables:
    """Add variables for start, completion, run time, extra workers and completion time.

    ``a_js, b_js in {0, 1}`` say whether job j starts or completes by the end of slot s. ``u_js`` is
    the share of slot s in which j runs, ``e_js`` the share with all extra workers, and ``C_j`` the
    completion time of j in slots.
    """
    jobs, slots = range(len(data.instance.jobs)), range(data.slots)
    keys = [(j, s) for j in jobs for s in slots]
    return SlotVariables(
        started={(j, s): model.add_binary_variable(name=f"a_{j}_{s}") for j, s in keys},
        completed={(j, s): model.add_binary_variable(name=f"b_{j}_{s}") for j, s in keys},
        run={(j, s): model.add_variable(lb=0, ub=1, name=f"u_{j}_{s}") for j, s in keys},
        extra={(j, s): model.add_variable(lb=0, ub=1, name=f"e_{j}_{s}") for j, s in keys},
        completion_time={
            j: model.add_variable(lb=earliest, ub=latest, name=f"C_{j}")
            for j, (earliest, latest) in enumerate(zip(data.earliest, data.latest, strict=True))
        },
    )


# Constraints


def order_in_time(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Never undo a start or a completion, and let a job complete only after it has started.

    ``a_js <= a_j,s+1``, ``b_js <= b_j,s+1``, ``b_js <= a_js``.
    """
    for j in range(len(data.instance.jobs)):
        started = data.of_job(variables.started, j)
        completed = data.of_job(variables.completed, j)
        for s in range(data.slots):
            model.add_linear_constraint(completed[s] <= started[s], name=f"order_{j}_{s}")
            if s > 0:
                model.add_linear_constraint(started[s - 1] <= started[s], name=f"starts_{j}_{s}")
                model.add_linear_constraint(
                    completed[s - 1] <= completed[s], name=f"completes_{j}_{s}"
                )


def windows(model: Any, data: SlotModel, variables: SlotVariables) -> None:  # noqa: ARG001
    """Fix the start and completion variables of job j outside its feasible time windows.

    A start at the end of a slot counts for the next slot, a completion for the slot it ends.
    """
    for j, job in enumerate(data.instance.jobs):
        earliest, latest = data.earliest[j], data.latest[j]
        shortest = float(job.duration_s(job.max_workers)) / data.step
        first_start = math.floor(job.release_s / data.step * (1 - WINDOW_MARGIN))
        last_start = 0 if job.running else math.floor((latest - shortest) * (1 + WINDOW_MARGIN))
        first_completion = math.ceil(earliest * (1 - WINDOW_MARGIN)) - 1
        last_completion = math.ceil(latest * (1 + WINDOW_MARGIN)) - 1
        for s, (started, completed) in enumerate(
            zip(data.of_job(variables.started, j), data.of_job(variables.completed, j), strict=True)
        ):
            is_last = s == data.slots - 1
            started.lower_bound = float(s >= last_start or is_last)
            started.upper_bound = float(s >= first_start or is_last)
            completed.lower_bound = float(s >= last_completion or is_last)
            completed.upper_bound = float(s >= first_completion or is_last)


def runs_between(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Run only between start and completion: ``a_j,s-1 - b_js <= u_js <= a_js - b_j,s-1``.

    Before the first slot no job has completed, and only running jobs have started.
    """
    for j, job in enumerate(data.instance.jobs):
        started = data.of_job(variables.started, j)
        completed = data.of_job(variables.completed, j)
        for s, run in enumerate(data.of_job(variables.run, j)):
            before = started[s - 1] if s > 0 else int(job.running)
            done = completed[s - 1] if s > 0 else 0
            model.add_linear_constraint(run <= started[s] - done, name=f"runs_within_{j}_{s}")
            model.add_linear_constraint(run >= before - completed[s], name=f"runs_through_{j}_{s}")


def extra_while_running(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Let job j use workers above its base demand only while it runs: ``e_js <= u_js``."""
    for j in range(len(data.instance.jobs)):
        for s in range(data.slots):
            model.add_linear_constraint(
                variables.extra[j, s] <= variables.run[j, s], name=f"extra_{j}_{s}"
            )


def work_done(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Do all work of job j: ``step sum_s (w_min u_js + (1 - l) (w_max - w_min) e_js) = work_j``."""
    for j, job in enumerate(data.instance.jobs):
        spread = (job.max_workers - job.min_workers) * (1 - job.scaling_loss)
        due = job.work_worker_s / data.step
        # Rows are divided by the job's work, or by a larger number that keeps coefficients small.
        unit = max(due, max(job.min_workers, spread) / LARGEST_COEFFICIENT)
        done = sum(
            job.min_workers / unit * run + spread / unit * extra
            for run, extra in zip(
                data.of_job(variables.run, j), data.of_job(variables.extra, j), strict=True
            )
        )
        model.add_linear_constraint(done == due / unit, name=f"work_{j}")


def capacity(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Limit the GPUs used in slot s: ``sum_j g_j (w_min u_js + (w_max - w_min) e_js) <= gpus``."""
    for s in range(data.slots):
        held = sum(
            job.min_gpus * variables.run[j, s]
            + (job.max_gpus - job.min_gpus) * variables.extra[j, s]
            for j, job in enumerate(data.instance.jobs)
        )
        model.add_linear_constraint(held <= data.instance.gpus, name=f"capacity_{s}")


def completion_in_slot(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Let a job complete no earlier than after its run time in its last slot.

    ``C_j >= sum_r (1 - b_jr) + u_js - 1 + b_js - b_j,s-1`` for each slot s.
    """
    for j in range(len(data.instance.jobs)):
        completed = data.of_job(variables.completed, j)
        slot = data.slots - sum(completed)
        for s, run in enumerate(data.of_job(variables.run, j)):
            in_slot = completed[s] - (completed[s - 1] if s > 0 else 0)
            model.add_linear_constraint(
                variables.completion_time[j] >= slot + run - 1 + in_slot,
                name=f"completion_in_slot_{j}_{s}",
            )


def completion_after_run(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Let a job complete no earlier than its release, or its first slot, plus its run time.

    ``C_j >= max(r_j, sum_s (1 - a_js)) + sum_s u_js``.
    """
    for j, job in enumerate(data.instance.jobs):
        run = sum(data.of_job(variables.run, j))
        slot = data.slots - sum(data.of_job(variables.started, j))
        completion = variables.completion_time[j]
        model.add_linear_constraint(
            completion >= job.release_s / data.step + run, name=f"completion_after_release_{j}"
        )
        model.add_linear_constraint(completion >= slot + run, name=f"completion_after_run_{j}")


def no_worse_than_known(model: Any, data: SlotModel, variables: SlotVariables) -> None:
    """Limit the sum of completion times, ``sum_j C_j``, to that of a known schedule, if any."""
    if math.isinf(data.known_sum):
        return
    model.add_linear_constraint(
        sum(variables.completion_time.values()) <= data.known_sum, name="known"
    )


CONSTRAINTS = (
    order_in_time,
    windows,
    runs_between,
    extra_while_running,
    work_done,
    capacity,
    completion_in_slot,
    completion_after_run,
    no_worse_than_known,
)


# Objective


def add_objective(model: Any, data: SlotModel, variables: SlotVariables) -> None:  # noqa: ARG001
    """Minimise the sum of completion times, in slots: ``sum_j C_j``."""
    model.minimize(sum(variables.completion_time.values()))


def run_with_few_cuts(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run SCIP with `ROUNDS_OF_CUTS` rounds of cuts, to a relative gap of 1e-7."""
    from ortools.math_opt.solvers.gscip import gscip_pb2

    scip = gscip_pb2.GScipParameters()
    scip.int_params["separating/maxroundsroot"] = ROUNDS_OF_CUTS
    scip.int_params["separating/maxrounds"] = 0
    return run_gscip(built, start, settings, relative_gap_tolerance=1e-7, gscip=scip)


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)
TITLE = "OR-Tools MathOpt with SCIP"
BACKEND = replace(
    GSCIP, name="time-indexed-milp", title=TITLE, run=run_with_few_cuts, engine="gscip"
)


def time_indexed(step_s: float | None = None) -> GridSolver:
    """Return the solver of the time-indexed relaxation with slots of `step_s` seconds.

    None divides the horizon into 16 slots.

    The solver bounds mean JCT from below and returns its start schedule. Halving the step never
    lowers the model's optimum.
    """
    return GridSolver(on_grid(SlotModel, step_s), STATEMENT, BACKEND)


TIME_INDEXED = time_indexed()
