"""The SCIP (GSCIP) and HiGHS backends through MathOpt of OR-Tools, for minimisation."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from lyra_opt.core.result import Number, StoppedBy
from lyra_opt.core.stopwatch import remaining_s
from lyra_opt.formulations.backends.backend import (
    Backend,
    BackendRun,
    Built,
    CostUnit,
    KindsT,
    NoSolutionError,
    Settings,
    Values,
    add_bounded,
    interruptible,
)
from lyra_opt.formulations.backends.linear import presolve_within
from lyra_opt.formulations.backends.rows import Row, Term

MODULES = ("ortools.math_opt.python.mathopt",)


def new_model() -> Any:
    """Return an empty model."""
    from ortools.math_opt.python import mathopt

    return mathopt.Model()


def add_variable(model: Any, name: str, most: Number, is_integer: bool = True) -> Any:
    """Add a variable from 0 to `most`."""
    return model.add_variable(lb=0, ub=most, is_integer=is_integer, name=name)


def integers(model: Any, largest: KindsT) -> KindsT:
    """Add an integer variable from 0 to n for each value n in `largest`, a tuple of mappings."""
    return add_bounded(largest, partial(add_variable, model))


def total(variables: Iterable[Any]) -> Any:
    """Return the sum of variables."""
    from ortools.math_opt.python import mathopt

    return mathopt.fast_sum(variables)


def weighted(terms: Iterable[Term]) -> Any:
    """Return the sum of coefficients times variables."""
    return total(coefficient * variable for coefficient, variable in terms)


def add_row(model: Any, row: Row) -> None:
    """Add a row."""
    held = weighted(row.terms)
    model.add_linear_constraint(
        held == row.limit if row.is_equation else held <= row.limit, name=row.name
    )


def minimize(model: Any, cost: Iterable[Term]) -> None:
    """Set the cost that the model minimises."""
    model.minimize(weighted(cost))


def set_unit(model: Any, unit: CostUnit) -> None:
    """Replace the model's minimised cost by the instance's objective and its sense."""
    objective = model.objective
    objective.is_maximize = unit.scale < 0
    for term in list(objective.linear_terms()):
        objective.set_linear_coefficient(term.variable, float(unit.scale) * term.coefficient)
    objective.offset = float(unit.scale) * objective.offset + float(unit.offset)


def run_gscip(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run SCIP through MathOpt, on one thread.

    SCIP's callbacks are not used. With callbacks, SCIP has returned a different bound, and OR-Tools
    9.15 has printed SCIP errors and reported a bound of 0 before a bound existed.
    """
    return run("GSCIP", built, start, settings, threads=1)


def run_highs(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run HiGHS through MathOpt, on one thread.

    HiGHS' own option sets the thread, because MathOpt rejects its common option for HiGHS.

    A run with another number of threads would fail: the first run in a process fixes the number for
    all later runs, and MathOpt offers no way to reset it. MathOpt offers no HiGHS callbacks either.
    """
    from ortools.math_opt.solvers import highs_pb2

    presolve = presolve_within(remaining_s(), len(built.in_order))
    options = highs_pb2.HighsOptionsProto(
        int_options={"threads": 1}, string_options={"presolve": presolve}
    )
    return run("HIGHS", built, start, settings, highs=options)


def run(
    solver_type: str, built: Built, start: Values | None, settings: Settings, **parameters: Any
) -> BackendRun:
    """Run one of MathOpt's solvers.

    Parameters
    ----------
    solver_type
        The solver's name in MathOpt.
    parameters
        Further parameters of MathOpt's ``SolveParameters``; they replace the common ones.
    """
    from ortools.math_opt.python import mathopt

    variables, hints = built.in_order, []
    if start is not None:
        values = {x: float(value) for x, value in zip(variables, start, strict=True)}
        hints.append(mathopt.SolutionHint(variable_values=values))
    time_s = remaining_s()
    result = solve(
        built.model,
        solver_type,
        time_s,
        {
            "relative_gap_tolerance": 0.0,
            "absolute_gap_tolerance": 0.0,
            "random_seed": settings.seed,
            **parameters,
        },
        model_params=mathopt.ModelSolveParameters(solution_hints=hints),
    )
    termination = result.termination
    reasons = mathopt.TerminationReason
    # CP-SAT does not report which limit ended its run, but only a time limit is ever set.
    limited = termination.limit is mathopt.Limit.TIME or (
        time_s is not None
        and termination.limit in (None, mathopt.Limit.UNDETERMINED)
        and termination.reason in (reasons.FEASIBLE, reasons.NO_SOLUTION_FOUND)
    )
    if not limited and termination.reason is not reasons.OPTIMAL:
        none = termination.reason in (reasons.INFEASIBLE, reasons.INFEASIBLE_OR_UNBOUNDED)
        failed = NoSolutionError if none else RuntimeError
        raise failed(f"MathOpt stopped with {termination.reason}: {termination.detail}")
    return BackendRun(
        values=result.variable_values(variables) if result.has_primal_feasible_solution() else None,
        bound=termination.objective_bounds.dual_bound,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"nodes": max(0, result.solve_stats.node_count)},
    )


def solve(
    model: Any, solver_type: str, time_s: float | None, parameters: dict[str, Any], **given: Any
) -> Any:
    """Return the result of MathOpt's `solve`; raise RuntimeError if MathOpt fails."""
    from ortools.math_opt.python import mathopt

    limit = None if time_s is None else timedelta(seconds=time_s)
    try:
        # MathOpt's interrupter is not used, because HiGHS ignores it and SCIP prints errors.
        return interruptible(
            lambda: mathopt.solve(
                model,
                mathopt.SolverType[solver_type],
                params=mathopt.SolveParameters(time_limit=limit, **parameters),
                **given,
            )
        )
    except AttributeError as error:  # OR-Tools 9.15 hides the real error behind this one
        raise RuntimeError(f"MathOpt: {error.__context__ or error}") from error


GSCIP = Backend(
    name="mathopt-gscip",
    new_model=new_model,
    add_variable=add_variable,
    add_row=add_row,
    minimize=minimize,
    run=run_gscip,
    in_floats=True,
    modules=MODULES,
    language="mathopt",
    set_unit=set_unit,
)
HIGHS = replace(GSCIP, name="mathopt-highs", run=run_highs)
