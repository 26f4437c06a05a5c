"""What all exact solvers share: the clock, the rounding of bounds, and what may be claimed.

A backend (HiGHS, CBC, SCIP, CP-SAT) computes in floats or calls optimal what it has not proved.
So nothing it says is passed on as it is: the values of its variables are rounded and what they
stand for is checked, and its bound is weakened before it is rounded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from lyra_opt.core.result import SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.core.problem import Problem
    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Observer

SolutionT = TypeVar("SolutionT")
Incumbent = tuple[SolutionT, "Number"]
"""A solution and its objective."""

ABSOLUTE_TOLERANCE = 1e-6  # the backends' own feasibility and integrality tolerances
FLOAT_MARGIN = 2.0**-32
"""How far, relatively, a bound of a backend in floats is moved to the safe side."""
LARGEST_SEED = 2**31 - 1  # the largest that all backends take
LONGEST_TIME_LIMIT_S = 1e9  # some backends cannot represent more, and 30 years is no limit


class OutOfTimeError(Exception):
    """A search used up its time."""


class Countdown:
    """The time that is left of a limit, from the moment of construction.

    As in `lyra_opt.core.stopwatch`, what a process loads once does not count.

    Parameters
    ----------
    time_s
        Wall-clock seconds, None for no limit.
    """

    def __init__(self, time_s: float | None) -> None:
        limited = time_s is not None and time_s < LONGEST_TIME_LIMIT_S
        self._time_s = time_s if limited else None
        self._stopwatch = Stopwatch()

    @property
    def remaining_s(self) -> float | None:
        """Seconds left, at least 0; None without a limit."""
        return None if self._time_s is None else max(0.0, self._time_s - self._stopwatch.elapsed_s)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.remaining_s == 0.0

    def require_time(self) -> None:
        """Raise `OutOfTimeError` if no time is left."""
        if self.is_over:
            raise OutOfTimeError


def safe_cost(bound: Number | Fraction | None, *, margin: float = FLOAT_MARGIN) -> Fraction | None:
    """Return a backend's lower bound on a cost, moved to the safe side; None if it is none.

    From a float max(1e-6, margin |bound|) and one unit in the last place are taken off: it may
    exceed the optimum by the backend's tolerances, and just then rounding it up would carry it a
    whole step beyond. An int or a Fraction was computed exactly and stays as it is.

    >>> float(safe_cost(6.86)), safe_cost(7), safe_cost(-math.inf)
    (6.859999, Fraction(7, 1), None)
    """
    if bound is None or not math.isfinite(bound):
        return None
    exact = Fraction(bound)  # from 2^53 on, sums of floats are rounded themselves
    if isinstance(bound, float):
        taken = max(Fraction(ABSOLUTE_TOLERANCE), abs(exact) * Fraction(margin))
        exact -= taken + Fraction(math.ulp(bound))
    return exact


def next_multiple(cost: Fraction, step: int = 1) -> int:
    """Return the least multiple of `step` >= 1 that is at least 0 and at least a bound.

    The lower bound that follows for an objective that takes no other values. Where the margin of
    `safe_cost` is above a step, from bounds of 10^9 steps on or so, proofs get lost but none
    gets wrong.

    >>> [next_multiple(safe_cost(bound), step=5) for bound in (6.86, 5.0000001, 5, -3.2)]
    [10, 5, 5, 0]
    """
    return max(0, math.ceil(cost / step) * step)


def valued(problem: Problem, instance: Any, solution: SolutionT) -> Incumbent[SolutionT] | None:
    """Return a solution with its value as the checker sees it, None if it is not valid."""
    objective = problem.check(instance, solution).objective
    return None if objective is None else (solution, objective)


def valued_start(problem: Problem, instance: Any, warm_start: SolutionT) -> Incumbent[SolutionT]:
    """Return a warm start with its value; ValueError if it is no valid solution."""
    report = problem.check(instance, warm_start)
    if report.objective is None:
        raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
    return warm_start, report.objective


def concluded(
    instance: Any,
    incumbent: Incumbent[SolutionT] | None,
    bound: Number | None,
    *,
    stopped_by: StoppedBy | None = None,
    counters: Mapping[str, int] | None = None,
    observer: Observer | None = None,
    promises_proof: bool = True,
) -> SolveResult[SolutionT]:
    """Return what is known: optimal only where the bound meets the objective.

    Integers meet where they are equal, floats within the variant's proof gap, relatively. A bound
    beyond the objective is passed on as it is; whoever checks the result reports it as a
    contradiction. An infinite bound without an incumbent says that there is no solution.
    """
    counters = counters or {}
    if incumbent is None and bound is not None and math.isinf(bound):
        return SolveResult(
            status=Status.INFEASIBLE, counters=counters, message="there is no solution"
        )
    if observer is not None and bound is not None:
        observer("dual_bound", bound)
    if incumbent is None:
        return SolveResult(
            status=Status.UNKNOWN, stopped_by=stopped_by, dual_bound=bound, counters=counters
        )
    solution, objective = incumbent
    gap = instance.variant.proof_gap
    is_proved = bound is not None and same_value(bound, objective, tolerance=gap)
    message = None
    if promises_proof and stopped_by is None and not is_proved:
        message = (
            f"the backend was done, but its bound, rounded to the safe side, is {bound}: "
            "floating point does not prove this objective"
        )
    return SolveResult(
        status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
        stopped_by=stopped_by,
        solution=solution,
        objective=objective,
        dual_bound=bound,
        counters=counters,
        message=message,
    )
