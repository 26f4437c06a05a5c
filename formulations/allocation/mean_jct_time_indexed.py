"""A time-indexed relaxation of mean JCT as a mixed-integer programme: never above the optimum.

Time is cut into slots of one length. The programme knows in which slot a job starts and in which
it completes, and how long it runs and how much it gets done in each; it forgets when in a slot
that is, so that capacity is kept on average over a slot only. Every schedule gives a solution of
the same value. Symbols: see ``mean_jct.md`` beside this file.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from formulations.exact_solver import (
    ABSOLUTE_TOLERANCE,
    Countdown,
    load_modules,
    missing_module,
)
from lyra_opt.allocation.instance import Objective, Schedule
from lyra_opt.allocation.mean_jct_exact import schedule_value
from lyra_opt.allocation.mean_jct_starts import best_priority_schedule
from lyra_opt.result import SolveResult, Status, StoppedBy
from lyra_opt.solver import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from lyra_opt.allocation.instance import AllocationInstance
    from lyra_opt.result import Limits

MODULES = ("ortools.math_opt.python.mathopt",)
DEFAULT_SLOTS = 16
LARGEST_SEED = 2**31 - 1


class Variables(NamedTuple):
    """By job, then by slot where it has one."""

    start: list[list[Any]]
    completion: list[list[Any]]
    run: list[list[Any]]
    extra: list[list[Any]]
    completion_time: list[Any]


class Slots(NamedTuple):
    """The instance on a grid; times in steps."""

    instance: AllocationInstance
    step_s: float
    slots: int


def horizon_s(instance: AllocationInstance, objective_s: float) -> float:
    """Return a time by which an optimal schedule is done, `objective_s` being reached by one.

    The last job completes no later than the sum of completions of a known schedule leaves it, and
    some job runs at any time after the last release.
    """
    jobs = instance.jobs
    least = [job.release_s + float(job.duration_s(job.max_workers)) for job in jobs]
    total = objective_s * len(jobs) + math.fsum(job.release_s for job in jobs)
    one_by_one = max(job.release_s for job in jobs) + math.fsum(
        float(job.duration_s(job.min_workers)) for job in jobs
    )
    return min(one_by_one, total - math.fsum(least) + max(least)) * (1 + 1e-9)


def build(data: Slots) -> tuple[Any, Variables]:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.math_opt.python import mathopt

    model = mathopt.Model(name="mean_jct_time_indexed")
    variables = add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data, variables)
    add_objective(model, variables)
    return model, variables


# Variables


def add_variables(model: Any, data: Slots) -> Variables:
    """``y_js, z_js in {0, 1}``: j starts, completes in s; ``0 <= u_js, e_js <= 1``; ``C_j``."""
    jobs, slots = range(len(data.instance.jobs)), range(data.slots)
    return Variables(
        start=[[model.add_binary_variable(name=f"y_{j}_{s}") for s in slots] for j in jobs],
        completion=[[model.add_binary_variable(name=f"z_{j}_{s}") for s in slots] for j in jobs],
        run=[[model.add_variable(lb=0, ub=1, name=f"u_{j}_{s}") for s in slots] for j in jobs],
        extra=[[model.add_variable(lb=0, ub=1, name=f"e_{j}_{s}") for s in slots] for j in jobs],
        completion_time=[
            model.add_variable(
                lb=(job.release_s + float(job.duration_s(job.max_workers))) / data.step_s,
                ub=data.slots,
                name=f"C_{j}",
            )
            for j, job in enumerate(data.instance.jobs)
        ],
    )


# Constraints


def one_start(model: Any, data: Slots, variables: Variables) -> None:
    """Keep ``sum_s y_js = 1``; none before the release, and at 0 for a running job."""
    for j, job in enumerate(data.instance.jobs):
        first = math.floor(job.release_s / data.step_s * (1 - 1e-12))
        for s in range(data.slots):
            if s < first or (job.running and s > 0):
                model.add_linear_constraint(variables.start[j][s] <= 0)
        model.add_linear_constraint(sum(variables.start[j]) == 1, name=f"one_start_{j}")


def one_completion(model: Any, data: Slots, variables: Variables) -> None:
    """Keep ``sum_s z_js = 1``."""
    for j in range(len(data.instance.jobs)):
        model.add_linear_constraint(sum(variables.completion[j]) == 1, name=f"one_completion_{j}")


def runs_between(model: Any, data: Slots, variables: Variables) -> None:
    """``sum_{r<s} (y_jr - z_jr) - z_js <= u_js <= sum_{r<=s} y_jr - sum_{r<s} z_jr``.

    A running job runs from the beginning of its first slot: its lower side has ``r <= s``.
    """
    for j, job in enumerate(data.instance.jobs):
        started: Any = 0
        completed: Any = 0
        for s in range(data.slots):
            before = started
            started = started + variables.start[j][s]
            run = variables.run[j][s]
            model.add_linear_constraint(run <= started - completed, name=f"runs_within_{j}_{s}")
            completed = completed + variables.completion[j][s]
            since = started if job.running else before
            model.add_linear_constraint(run >= since - completed, name=f"runs_through_{j}_{s}")


def extra_while_running(model: Any, data: Slots, variables: Variables) -> None:
    """``e_js <= u_js``."""
    for j in range(len(data.instance.jobs)):
        for s in range(data.slots):
            model.add_linear_constraint(
                variables.extra[j][s] <= variables.run[j][s], name=f"extra_{j}_{s}"
            )


def work_done(model: Any, data: Slots, variables: Variables) -> None:
    """``step sum_s (w_min u_js + (1 - l) (w_max - w_min) e_js) = work_j``."""
    for j, job in enumerate(data.instance.jobs):
        spread = (job.max_workers - job.min_workers) * (1 - job.scaling_loss)
        due = job.work_worker_s / data.step_s
        done = sum(
            job.min_workers / due * run + spread / due * extra
            for run, extra in zip(variables.run[j], variables.extra[j], strict=True)
        )
        model.add_linear_constraint(done == 1, name=f"work_{j}")


def capacity(model: Any, data: Slots, variables: Variables) -> None:
    """``sum_j g_j (w_min u_js + (w_max - w_min) e_js) <= gpus`` for each slot s."""
    for s in range(data.slots):
        held = sum(
            job.min_gpus * variables.run[j][s]
            + (job.max_gpus - job.min_gpus) * variables.extra[j][s]
            for j, job in enumerate(data.instance.jobs)
        )
        model.add_linear_constraint(held <= data.instance.gpus, name=f"capacity_{s}")


def completion_in_slot(model: Any, data: Slots, variables: Variables) -> None:
    """``C_j >= sum_r r z_jr + u_js - 1 + z_js`` for each slot s."""
    for j in range(len(data.instance.jobs)):
        slot = sum(s * z for s, z in enumerate(variables.completion[j]))
        for s in range(data.slots):
            model.add_linear_constraint(
                variables.completion_time[j]
                >= slot + variables.run[j][s] - 1 + variables.completion[j][s],
                name=f"completion_in_slot_{j}_{s}",
            )


def completion_after_run(model: Any, data: Slots, variables: Variables) -> None:
    """``C_j >= max(r_j, sum_s s y_js) + sum_s u_js``."""
    for j, job in enumerate(data.instance.jobs):
        run = sum(variables.run[j])
        slot = sum(s * y for s, y in enumerate(variables.start[j]))
        completion = variables.completion_time[j]
        model.add_linear_constraint(completion >= job.release_s / data.step_s + run)
        model.add_linear_constraint(completion >= slot + run, name=f"completion_after_run_{j}")


CONSTRAINTS = (
    one_start,
    one_completion,
    runs_between,
    extra_while_running,
    work_done,
    capacity,
    completion_in_slot,
    completion_after_run,
)


# Objective


def add_objective(model: Any, variables: Variables) -> None:
    """Minimise ``sum_j C_j``, in steps."""
    model.minimize(sum(variables.completion_time))


class TimeIndexedMilp:
    """A lower bound on mean JCT by a time-indexed relaxation, solved by SCIP.

    The schedule returned is the warm start or, without one, the best priority list's; the model
    gives the bound alone. Halving the step never lowers the model's value.

    Parameters
    ----------
    step_s
        Length of a slot in seconds; None for a sixteenth of the horizon.
    """

    name = "time-indexed-milp"
    problem = "allocation"
    variants: ClassVar[Sequence[str]] = (str(Objective.MEAN_JCT),)
    proves_optimality = False
    gives_bound = True

    def __init__(self, step_s: float | None = None) -> None:
        self.step_s = step_s

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is."""
        return missing_module(MODULES)

    def supports(self, instance: AllocationInstance) -> Unsupported | None:
        """Return a reason for the one-shot objectives."""
        if instance.objective is not Objective.MEAN_JCT:
            return Unsupported("the model is of the objective mean_jct")
        return None

    def solve(
        self,
        instance: AllocationInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Schedule | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[Schedule]:
        """Bound the optimum; see `lyra_opt.solver.Solver.solve`."""
        load_modules(MODULES)
        countdown = Countdown(limits.time_s)
        seed = int(rng.integers(LARGEST_SEED))
        schedule = warm_start or best_priority_schedule(instance)
        objective = schedule_value(instance, schedule)
        if observer is not None:
            observer("objective", objective)
        horizon = horizon_s(instance, objective)
        step_s = self.step_s or horizon / DEFAULT_SLOTS
        data = Slots(instance, step_s, max(1, math.ceil(horizon / step_s)))
        bound, limited = 0.0, True
        if not countdown.is_over:
            model, _ = build(data)
            if not countdown.is_over:
                bound, limited = _run(model, countdown.remaining_s, seed)
        releases = math.fsum(job.release_s for job in instance.jobs)
        mean = (bound * data.step_s - releases) / len(instance.jobs)
        margin = ABSOLUTE_TOLERANCE * max(bound * data.step_s, releases) / len(instance.jobs)
        safe = min(objective, max(0.0, mean - margin))
        if observer is not None:
            observer("dual_bound", safe)
        return SolveResult(
            status=Status.OPTIMAL if safe == objective else Status.FEASIBLE,
            stopped_by=StoppedBy.TIME if limited and safe < objective else None,
            solution=schedule,
            objective=objective,
            dual_bound=safe,
            counters={"slots": data.slots},
        )


def _run(model: Any, time_s: float | None, seed: int) -> tuple[float, bool]:
    """Return SCIP's bound, and whether time ran out."""
    from ortools.math_opt.python import mathopt

    try:
        result = mathopt.solve(
            model,
            mathopt.SolverType.GSCIP,
            params=mathopt.SolveParameters(
                time_limit=None if time_s is None else timedelta(seconds=time_s),
                relative_gap_tolerance=1e-7,
                absolute_gap_tolerance=0.0,
                random_seed=seed,
                threads=1,
            ),
        )
    except AttributeError as error:  # how OR-Tools 9.15 hides the real one
        raise RuntimeError(f"MathOpt: {error.__context__ or error}") from error
    termination = result.termination
    limited = termination.limit is mathopt.Limit.TIME
    if not limited and termination.reason is not mathopt.TerminationReason.OPTIMAL:
        raise RuntimeError(f"MathOpt ended with {termination.reason}: {termination.detail}")
    bound = termination.objective_bounds.dual_bound
    return (bound if math.isfinite(bound) else 0.0), limited
