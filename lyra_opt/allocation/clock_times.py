"""Shift clock times, such as Unix times, so that solvers count seconds from the first release.

Floats near 1.7e9 s (a Unix time) are 2e-7 s apart, and near 1.7e12 s a quarter of a millisecond. A
tolerance relative to such a time would not be related to the JCTs of the instance. So times are
shifted only here: on the way into a solver and on the way out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.instance import Schedule, SchedulePiece
from lyra_opt.allocation.schedules.evaluator import mean_jct_s
from lyra_opt.core.result import SolveResult, Status, same_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.allocation.instance import Instance
    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Observer

SolveT = TypeVar("SolveT", bound="Callable[..., SolveResult[Any]]")


def moved(schedule: Schedule, by_s: float) -> Schedule:
    """Return the schedule with all times shifted by `by_s` seconds, but not below 0."""
    pieces = []
    for piece in schedule.pieces:
        start_s = max(0.0, piece.start_s + by_s)
        # A piece shorter than the spacing of floats keeps a positive length, so no job vanishes.
        end_s = max(piece.end_s + by_s, math.nextafter(start_s, math.inf))
        pieces.append(
            SchedulePiece(job=piece.job, start_s=start_s, end_s=end_s, workers=piece.workers)
        )
    return Schedule(tuple(pieces))


def from_first_release(solve: SolveT) -> SolveT:
    """Decorate a method `solve` so that it sees an instance whose first release is at 0.

    The schedule is converted back to the times of the instance, each rounded to a float, and its
    objective is recomputed. The bound is lowered by the most that the rounding of releases may
    gain. If the proof of optimality is lost by this, the status becomes feasible. ValueError if the
    warm start is not a valid solution.
    """

    @wraps(solve)
    def shifted(
        self: Any,
        instance: Instance,
        *,
        warm_start: Any = None,
        observer: Observer | None = None,
        **others: Any,
    ) -> SolveResult[Any]:
        origin_s = instance.first_release_s
        if origin_s == 0 or not (warm_start is None or isinstance(warm_start, Schedule)):
            return solve(self, instance, warm_start=warm_start, observer=observer, **others)
        relative, start, start_value = instance.from_first_release, None, None
        if warm_start is not None:
            report = check(instance, warm_start)
            if report.objective is None:
                raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
            start, start_value = moved(warm_start, -origin_s), report.objective
            if check(relative, start).objective is None:
                start = None  # valid only by rounding, so it is not passed on
        told = None if observer is None else _converting(instance, observer)
        result = solve(self, relative, warm_start=start, observer=told, **others)
        solution, objective = None, None
        if result.solution is not None:
            solution, objective = _moved_back(instance, result.solution)
        if start_value is not None and (objective is None or start_value <= objective):
            solution, objective = warm_start, start_value
        return _at_clock_times(instance, result, solution, objective)

    return cast("SolveT", shifted)


def _moved_back(instance: Instance, schedule: Schedule) -> tuple[Schedule, float]:
    """Return a schedule in the clock times of `instance`, and its mean JCT in seconds."""
    solution = moved(schedule, instance.first_release_s)
    return solution, mean_jct_s(instance, solution)  # the caller of a solver checks the schedule


def _converting(instance: Instance, observer: Observer) -> Observer:
    """Return an observer that converts reported values and solutions to the instance's times."""

    def told(kind: str, value: Number, solution: Any = None) -> None:
        if kind == "dual_bound":
            value = instance.bound_at_clock_times(value)
        elif solution is not None:
            solution, value = _moved_back(instance, solution)
        observer(kind, value, solution)

    return told


def _at_clock_times(
    instance: Instance, result: SolveResult[Any], solution: Schedule | None, objective: float | None
) -> SolveResult[Any]:
    """Return a solver's result with `solution` inserted and its bound converted to clock times."""
    bound, status, message = result.dual_bound, result.status, result.message
    if bound is not None:
        bound = instance.bound_at_clock_times(bound)
    if objective is not None:
        gap = instance.variant.proof_gap
        if bound is not None and same_value(bound, objective):
            bound = min(bound, objective)
        is_proved = bound is not None and same_value(bound, objective, tolerance=gap)
        if status is Status.OPTIMAL and not is_proved:
            message = (
                f"optimal but for the rounding of its times: near {instance.first_release_s:g} s "
                f"floats are {math.ulp(instance.first_release_s):g} s apart"
            )
        status = Status.OPTIMAL if is_proved else Status.FEASIBLE
    return replace(
        result,
        status=status,
        solution=solution,
        objective=objective,
        dual_bound=bound,
        message=message,
    )
