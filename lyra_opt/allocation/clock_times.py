"""Schedules of clock times, such as Unix's: whatever computes one counts from the first release.

Floats near 1.7e9 s are 2e-7 s apart, and near 1.7e12 a quarter of a millisecond; what is relative
to such times, such as a tolerance, is relative to nothing that was asked. So times are shifted on
the way in and on the way out, and nowhere else.
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
    """Return a schedule whose times are later by so much, each rounded once; none is below 0."""
    pieces = []
    for piece in schedule.pieces:
        start_s = max(0.0, piece.start_s + by_s)
        # A piece that is shorter than times are apart is not lost: its job has to be somewhere.
        end_s = max(piece.end_s + by_s, math.nextafter(start_s, math.inf))
        pieces.append(
            SchedulePiece(job=piece.job, start_s=start_s, end_s=end_s, workers=piece.workers)
        )
    return Schedule(tuple(pieces))


def from_first_release(solve: SolveT) -> SolveT:
    """Let a method `solve` see an instance whose first release is at 0.

    Its schedule gets the instance's own times, each rounded to a float, and is worth what it then
    is; the bound is lowered by what the rounding of releases may gain. A proof that gets lost
    there is none any more. ValueError if the warm start is no valid solution.
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
                start = None  # valid only by the rounding of its times: nothing to begin with
        told = None if observer is None else _told_of_clock_times(instance, observer)
        result = solve(self, relative, warm_start=start, observer=told, **others)
        solution, objective = None, None
        if result.solution is not None:
            solution, objective = _moved_back(instance, result.solution)
        if start_value is not None and (objective is None or start_value <= objective):
            solution, objective = warm_start, start_value
        return _at_clock_times(instance, result, solution, objective)

    return cast("SolveT", shifted)


def _moved_back(instance: Instance, schedule: Schedule) -> tuple[Schedule, float]:
    """Return a schedule at the instance's times, and what it is worth there."""
    solution = moved(schedule, instance.first_release_s)
    return solution, mean_jct_s(instance, solution)  # whoever asked a solver checks it


def _told_of_clock_times(instance: Instance, observer: Observer) -> Observer:
    """Return what is told by a solver that counts from the first release."""

    def told(kind: str, value: Number, solution: Any = None) -> None:
        if kind == "dual_bound":
            value = instance.bound_at_clock_times(value)
        elif solution is not None:
            solution, value = _moved_back(instance, solution)
        observer(kind, value, solution)

    return told


def _at_clock_times(
    instance: Instance,
    result: SolveResult[Any],
    solution: Schedule | None,
    objective: float | None,
) -> SolveResult[Any]:
    """Return a result with a solution at the instance's times, and what the bound proves of it."""
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
