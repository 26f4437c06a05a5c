"""What all exact solvers share: the rounding of bounds, and what may be claimed.

A backend (HiGHS, CBC, SCIP, CP-SAT) computes in floats or calls optimal what it has not proved.
So nothing it says is passed on as it is: the values of its variables are rounded and what they
stand for is checked, and its bound goes through `proved_cost` before anything is made of it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from lyra_opt.core.foreign import as_python
from lyra_opt.core.result import SolveResult, Status, StoppedBy, same_value

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
INFINITE_COST = 1e20
"""From here on backends mean infinity: SCIP by 1e20, CLP by 1e30, Gurobi by 1e100."""
LARGEST_SEED = 2**31 - 1  # the largest that all backends take


def proved_cost(
    bound: Number | Fraction | None, *, is_done: bool, margin: float = FLOAT_MARGIN
) -> Fraction | None:
    """Return what a backend's lower bound on a cost proves, None if nothing.

    The only way from a number of a backend to a bound, at the end of a run and while it goes on.
    Nothing, NaN and what stands for infinity prove nothing; nor does a 0 before the end, which
    results hold whose bound was never filled in, and which is no bound where costs may be negative.

    From a float max(1e-6, margin |bound|) and one unit in the last place are taken off: it may
    exceed the optimum by the backend's tolerances, and just then rounding it up would carry it a
    whole step beyond. An int comes from exact arithmetic and stays as it is; so does a Fraction,
    which was computed here, a 0 too.

    Parameters
    ----------
    bound
        As the backend gives it.
    is_done
        Whether the run has ended without a limit.
    margin
        Relative, for floats.

    Raises
    ------
    RuntimeError
        If it is no number at all.

    Examples
    --------
    >>> float(proved_cost(6.86, is_done=True)), proved_cost(7, is_done=True)
    (6.859999, Fraction(7, 1))
    >>> proved_cost(-math.inf, is_done=True), proved_cost(0, is_done=False)
    (None, None)
    """
    told = as_python(bound)
    if told is None:
        return None
    if isinstance(told, bool) or not isinstance(told, int | float | Fraction):
        raise RuntimeError(f"the backend's bound is {bound!r}, which is no number")
    if isinstance(told, Fraction):
        return told
    if not abs(told) < INFINITE_COST or (told == 0 and not is_done):  # NaN is below nothing
        return None
    exact = Fraction(told)
    if isinstance(told, float):  # from 2^53 on, sums of floats are rounded themselves
        taken = max(Fraction(ABSOLUTE_TOLERANCE), abs(exact) * Fraction(margin))
        exact -= taken + Fraction(math.ulp(told))
    return exact


def next_multiple(cost: Fraction, step: int = 1) -> int:
    """Return the least multiple of `step` >= 1 that is at least 0 and at least a bound.

    The lower bound that follows for an objective that takes no other values. Where the margin of
    `proved_cost` is above a step, from bounds of 10^9 steps on or so, proofs get lost but none
    gets wrong.

    >>> bounds = (6.86, 5.0000001, 5, -3.2)
    >>> [next_multiple(proved_cost(bound, is_done=True), step=5) for bound in bounds]
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
    message: str | None = None,
) -> SolveResult[SolutionT]:
    """Return what is known: optimal only where the bound meets the objective.

    Integers meet where they are equal, floats within the variant's proof gap, relatively. A bound
    beyond the objective is passed on as it is; whoever checks the result reports it as a
    contradiction. An infinite bound without an incumbent says that there is no solution.

    Raises
    ------
    RuntimeError
        If an infinite bound says that there is no solution, but there is one.
    """
    counters = counters or {}
    if bound is not None and math.isinf(bound):
        if incumbent is not None:
            raise RuntimeError(
                f"the dual bound {bound}, by which there is no solution, contradicts a valid one "
                f"of objective {incumbent[1]}"
            )
        return SolveResult(
            status=Status.INFEASIBLE, counters=counters, message="there is no solution"
        )
    if observer is not None and bound is not None:
        observer("dual_bound", bound)
    if incumbent is None:
        return SolveResult(
            status=Status.UNKNOWN,
            stopped_by=stopped_by,
            dual_bound=bound,
            counters=counters,
            message=message,
        )
    solution, objective = incumbent
    gap = instance.variant.proof_gap
    is_proved = bound is not None and same_value(bound, objective, tolerance=gap)
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
