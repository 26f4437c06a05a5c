"""Rules that all exact solvers share: how to round bounds, and when to claim optimality.

Backends (HiGHS, CBC, SCIP, CP-SAT) compute in floats or call a solution optimal without proof. The
toolkit therefore never passes their answers on directly. Values of variables are rounded and the
resulting solution is checked. Every bound first goes through `proved_cost`.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeVar

from lyra_opt.core.foreign import as_python
from lyra_opt.core.problem import Problem
from lyra_opt.core.result import Number, SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.solver import Observer

SolutionT = TypeVar("SolutionT")
Incumbent = tuple[SolutionT, "Number"]
"""A solution and its objective."""

ABSOLUTE_TOLERANCE = 1e-6  # feasibility and integrality tolerance of all backends
FLOAT_MARGIN = 2.0**-32
"""The relative amount by which bounds of backends in floats are moved to the safe side."""
INFINITE_COST = 1e20
"""Costs from here on mean infinity: SCIP uses 1e20, CLP 1e30 and Gurobi 1e100."""
LARGEST_SEED = 2**31 - 1  # the largest seed that all backends accept


def proved_cost(
    bound: Number | Fraction | None, *, is_done: bool, margin: float = FLOAT_MARGIN
) -> Fraction | None:
    """Return the lower bound that a backend's reported bound proves; None if it proves nothing.

    Every bound of a backend, during a run and at its end, must pass through this function. None,
    NaN and numbers that stand for infinity prove nothing. Nor does 0 before the end of a run:
    results hold 0 where the backend never set a bound, and costs may be negative.

    A float bound is lowered by max(1e-6, margin |bound|) plus one unit in the last place. The
    reason: it may exceed the optimum by the backend's tolerances, and rounding it up would then
    skip a whole step of the objective. An int comes from exact arithmetic and stays unchanged. So
    does a Fraction, even 0, because the toolkit computed it.

    Parameters
    ----------
    bound
        The number as the backend returned it.
    is_done
        Whether the run ended without reaching a limit.
    margin
        The relative margin for floats.

    Raises
    ------
    RuntimeError
        If the bound is not a number.

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
        raise RuntimeError(f"the backend's bound must be a number, not {bound!r}")
    if isinstance(told, Fraction):
        return told
    if not abs(told) < INFINITE_COST or (told == 0 and not is_done):  # true for NaN
        return None
    exact = Fraction(told)
    if isinstance(told, float):  # an ulp, because sums of floats above 2^53 are rounded
        taken = max(Fraction(ABSOLUTE_TOLERANCE), abs(exact) * Fraction(margin))
        exact -= taken + Fraction(math.ulp(told))
    return exact


def next_multiple(cost: Fraction, step: int = 1) -> int:
    """Return the least non-negative multiple of `step` that is at least `cost`.

    This is the lower bound for an objective that takes only multiples of `step`. From about 10^9
    steps on, the margin of `proved_cost` may exceed one step. Then some proofs are lost, but no
    wrong bound appears.

    >>> bounds = (6.86, 5.0000001, 5, -3.2)
    >>> [next_multiple(proved_cost(bound, is_done=True), step=5) for bound in bounds]
    [10, 5, 5, 0]
    """
    return max(0, math.ceil(cost / step) * step)


def with_objective(
    problem: Problem, instance: Any, solution: SolutionT
) -> Incumbent[SolutionT] | None:
    """Return a solution with its objective according to the checker; None if it is not valid."""
    objective = problem.check(instance, solution).objective
    return None if objective is None else (solution, objective)


def start_with_objective(
    problem: Problem, instance: Any, warm_start: SolutionT
) -> Incumbent[SolutionT]:
    """Return a warm start with its objective; raise ValueError if it is not a valid solution."""
    report = problem.check(instance, warm_start)
    if report.objective is None:
        raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
    return warm_start, report.objective


def result_of(
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
    """Return the result of a run, with status optimal only if the bound meets the objective.

    Integers must be equal; floats must agree within the variant's relative proof gap. A bound
    beyond the objective is returned unchanged, and the check of the result reports the
    contradiction. An infinite bound without an incumbent means that the instance is infeasible.

    Raises
    ------
    RuntimeError
        If the bound is infinite, which claims infeasibility, but a valid solution is known.
    """
    counters = counters or {}
    if bound is not None and math.isinf(bound):
        if incumbent is not None:
            raise RuntimeError(
                f"the dual bound {bound} claims that the instance is infeasible, but a valid "
                f"solution has objective {incumbent[1]}"
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
            f"the backend finished, but its bound, moved to the safe side, is {bound}: "
            "floating-point arithmetic does not prove that this objective is optimal"
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
