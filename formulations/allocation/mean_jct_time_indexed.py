"""A time-indexed relaxation of mean JCT as a mixed-integer programme: never above the optimum.

Time is cut into slots of one length. The programme knows in which slot a job starts and in which
it completes, and how long it runs and how much it gets done in each; it forgets when in a slot
that is, so that capacity is kept on average over a slot only. Every schedule gives a solution of
the same value. Symbols: see the README beside this file, sections 9 and 12.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from formulations.allocation.mean_jct_model import MeanJctModel
from formulations.exact_solver import ABSOLUTE_TOLERANCE
from lyra_opt.core.result import SolveResult, Status, StoppedBy

if TYPE_CHECKING:
    from formulations.allocation.mean_jct_model import Incumbent, Observer
    from formulations.exact_solver import Countdown
    from lyra_opt.allocation.instance import AllocationInstance, Schedule

DEFAULT_SLOTS = 16
KNOWN_MARGIN = 1e-6
WINDOW_MARGIN = 1e-12
ROUNDS_OF_CUTS = 2
"""At the root of the search tree alone: by default SCIP spends most of its time in there."""


class Variables(NamedTuple):
    """By job, then by slot where it has one."""

    started: list[list[Any]]
    completed: list[list[Any]]
    run: list[list[Any]]
    extra: list[list[Any]]
    completion_time: list[Any]


class Slots(NamedTuple):
    """The instance on a grid.

    Parameters
    ----------
    instance
        The instance.
    step_s
        Length of a slot in seconds.
    slots
        How many there are.
    known_sum_s
        The sum of completions of a schedule that is known: the model is of those no worse.
    """

    instance: AllocationInstance
    step_s: float
    slots: int
    known_sum_s: float

    @property
    def earliest(self) -> list[float]:
        """The earliest completion of each job, in slots."""
        jobs = self.instance.jobs
        return [
            (job.release_s + float(job.duration_s(job.max_workers))) / self.step_s for job in jobs
        ]

    @property
    def latest(self) -> list[float]:
        """The latest completion of each job, in slots: that leaves the others their earliest."""
        spare = self.known_sum_s / self.step_s - math.fsum(self.earliest)
        return [min(float(self.slots), earliest + max(0.0, spare)) for earliest in self.earliest]


def known_sum_s(instance: AllocationInstance, objective_s: float) -> float:
    """Return the sum of completions of a schedule, with a margin for the backend's tolerances."""
    total_s = objective_s * len(instance.jobs) + math.fsum(job.release_s for job in instance.jobs)
    return total_s * (1 + KNOWN_MARGIN)


def horizon_s(instance: AllocationInstance, known_s: float) -> float:
    """Return a time by which an optimal schedule is done, `known_s` being reached by one.

    The last job completes no later than the sum of completions of a known schedule leaves it, and
    some job runs at any time after the last release.
    """
    jobs = instance.jobs
    least = [job.release_s + float(job.duration_s(job.max_workers)) for job in jobs]
    one_by_one = max(job.release_s for job in jobs) + math.fsum(
        float(job.duration_s(job.min_workers)) for job in jobs
    )
    return min(one_by_one * (1 + KNOWN_MARGIN), known_s - math.fsum(least) + max(least))


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
    """``a_js, b_js in {0, 1}``: j starts, completes by the end of s; ``u_js, e_js``; ``C_j``."""
    jobs, slots = range(len(data.instance.jobs)), range(data.slots)
    return Variables(
        started=[[model.add_binary_variable(name=f"a_{j}_{s}") for s in slots] for j in jobs],
        completed=[[model.add_binary_variable(name=f"b_{j}_{s}") for s in slots] for j in jobs],
        run=[[model.add_variable(lb=0, ub=1, name=f"u_{j}_{s}") for s in slots] for j in jobs],
        extra=[[model.add_variable(lb=0, ub=1, name=f"e_{j}_{s}") for s in slots] for j in jobs],
        completion_time=[
            model.add_variable(lb=earliest, ub=latest, name=f"C_{j}")
            for j, (earliest, latest) in enumerate(zip(data.earliest, data.latest, strict=True))
        ],
    )


# Constraints


def order_in_time(model: Any, data: Slots, variables: Variables) -> None:
    """``a_js <= a_j,s+1``, ``b_js <= b_j,s+1``, ``b_js <= a_js``."""
    for j in range(len(data.instance.jobs)):
        started, completed = variables.started[j], variables.completed[j]
        for s in range(data.slots):
            model.add_linear_constraint(completed[s] <= started[s], name=f"order_{j}_{s}")
            if s > 0:
                model.add_linear_constraint(started[s - 1] <= started[s], name=f"starts_{j}_{s}")
                model.add_linear_constraint(
                    completed[s - 1] <= completed[s], name=f"completes_{j}_{s}"
                )


def windows(model: Any, data: Slots, variables: Variables) -> None:  # noqa: ARG001
    """Fix ``a_js``, ``b_js`` outside the earliest and latest start and completion of j.

    A start at the end of a slot is in the next one, a completion in that slot.
    """
    for j, job in enumerate(data.instance.jobs):
        earliest, latest = data.earliest[j], data.latest[j]
        shortest = float(job.duration_s(job.max_workers)) / data.step_s
        first_start = math.floor(job.release_s / data.step_s * (1 - WINDOW_MARGIN))
        last_start = 0 if job.running else math.floor((latest - shortest) * (1 + WINDOW_MARGIN))
        first_completion = math.ceil(earliest * (1 - WINDOW_MARGIN)) - 1
        last_completion = math.ceil(latest * (1 + WINDOW_MARGIN)) - 1
        for s, (started, completed) in enumerate(
            zip(variables.started[j], variables.completed[j], strict=True)
        ):
            is_last = s == data.slots - 1
            started.lower_bound = float(s >= last_start or is_last)
            started.upper_bound = float(s >= first_start or is_last)
            completed.lower_bound = float(s >= last_completion or is_last)
            completed.upper_bound = float(s >= first_completion or is_last)


def runs_between(model: Any, data: Slots, variables: Variables) -> None:
    """``a_j,s-1 - b_js <= u_js <= a_js - b_j,s-1``.

    Before the first slot none is completed, and running jobs alone are started.
    """
    for j, job in enumerate(data.instance.jobs):
        started, completed = variables.started[j], variables.completed[j]
        for s, run in enumerate(variables.run[j]):
            before = started[s - 1] if s > 0 else int(job.running)
            done = completed[s - 1] if s > 0 else 0
            model.add_linear_constraint(run <= started[s] - done, name=f"runs_within_{j}_{s}")
            model.add_linear_constraint(run >= before - completed[s], name=f"runs_through_{j}_{s}")


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
    """``C_j >= sum_r (1 - b_jr) + u_js - 1 + b_js - b_j,s-1`` for each slot s."""
    for j in range(len(data.instance.jobs)):
        completed = variables.completed[j]
        slot = data.slots - sum(completed)
        for s, run in enumerate(variables.run[j]):
            in_slot = completed[s] - (completed[s - 1] if s > 0 else 0)
            model.add_linear_constraint(
                variables.completion_time[j] >= slot + run - 1 + in_slot,
                name=f"completion_in_slot_{j}_{s}",
            )


def completion_after_run(model: Any, data: Slots, variables: Variables) -> None:
    """``C_j >= max(r_j, sum_s (1 - a_js)) + sum_s u_js``."""
    for j, job in enumerate(data.instance.jobs):
        run = sum(variables.run[j])
        slot = data.slots - sum(variables.started[j])
        completion = variables.completion_time[j]
        model.add_linear_constraint(completion >= job.release_s / data.step_s + run)
        model.add_linear_constraint(completion >= slot + run, name=f"completion_after_run_{j}")


def no_worse_than_known(model: Any, data: Slots, variables: Variables) -> None:
    """``sum_j C_j`` is at most that of a known schedule."""
    model.add_linear_constraint(
        sum(variables.completion_time) <= data.known_sum_s / data.step_s, name="known"
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


def add_objective(model: Any, variables: Variables) -> None:
    """Minimise ``sum_j C_j``, in steps."""
    model.minimize(sum(variables.completion_time))


class TimeIndexedMilp(MeanJctModel):
    """A lower bound on mean JCT by a time-indexed relaxation, solved by SCIP.

    The schedule returned is the warm start or, without one, the best priority list's; the model
    gives the bound alone. Halving the step never lowers the model's value.

    Parameters
    ----------
    step_s
        Length of a slot in seconds; None for a sixteenth of the horizon.
    """

    name = "time-indexed-milp"
    gives_bound = True
    modules = ("ortools.math_opt.python.mathopt",)

    def run(
        self,
        instance: AllocationInstance,
        incumbent: Incumbent,
        countdown: Countdown,
        seed: int,
        observer: Observer | None,
    ) -> SolveResult[Schedule]:
        """Bound the optimum."""
        objective = incumbent.objective
        known_s = known_sum_s(instance, objective)
        horizon = horizon_s(instance, known_s)
        step_s = self.step_s or horizon / DEFAULT_SLOTS
        data = Slots(instance, step_s, max(1, math.ceil(horizon / step_s)), known_s)
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
            solution=incumbent.schedule,
            objective=objective,
            dual_bound=safe,
            counters={"slots": data.slots},
        )


def _run(model: Any, time_s: float | None, seed: int) -> tuple[float, bool]:
    """Return SCIP's bound, and whether time ran out."""
    from ortools.math_opt.python import mathopt
    from ortools.math_opt.solvers.gscip import gscip_pb2

    scip = gscip_pb2.GScipParameters()
    scip.int_params["separating/maxroundsroot"] = ROUNDS_OF_CUTS
    scip.int_params["separating/maxrounds"] = 0
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
                gscip=scip,
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
