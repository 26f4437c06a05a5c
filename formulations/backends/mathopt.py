"""SCIP (GSCIP) and HiGHS through MathOpt of OR-Tools, for minimisations."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from formulations.exact_solver import BackendRun
from lyra_opt.core.result import StoppedBy

if TYPE_CHECKING:
    from formulations.exact_solver import BuiltModel, StartValues


def run_gscip(built: BuiltModel, start: StartValues, time_s: float | None, seed: int) -> BackendRun:
    """Run SCIP on one thread."""
    from ortools.math_opt.python import mathopt

    return _run(mathopt.SolverType.GSCIP, built, start, time_s, {"random_seed": seed, "threads": 1})


def run_highs(built: BuiltModel, start: StartValues, time_s: float | None, seed: int) -> BackendRun:
    """Run HiGHS on one thread, which MathOpt's common parameter refuses but HiGHS' own takes."""
    from ortools.math_opt.python import mathopt
    from ortools.math_opt.solvers import highs_pb2

    one_thread = highs_pb2.HighsOptionsProto(int_options={"threads": 1})
    return _run(
        mathopt.SolverType.HIGHS, built, start, time_s, {"random_seed": seed, "highs": one_thread}
    )


def _run(
    solver_type: Any,
    built: BuiltModel,
    start: StartValues,
    time_s: float | None,
    parameters: dict[str, Any],
) -> BackendRun:
    from ortools.math_opt.python import mathopt

    hint = mathopt.SolutionHint(
        variable_values={
            variable: float(value)
            for variable, value in zip(built.hinted, start.values, strict=True)
        }
    )
    try:
        result = mathopt.solve(
            built.model,
            solver_type,
            params=mathopt.SolveParameters(
                time_limit=None if time_s is None else timedelta(seconds=time_s),
                relative_gap_tolerance=0.0,
                absolute_gap_tolerance=0.0,
                **parameters,
            ),
            model_params=mathopt.ModelSolveParameters(solution_hints=[hint]),
        )
    except AttributeError as error:  # how OR-Tools 9.15 hides the real one
        raise RuntimeError(f"MathOpt: {error.__context__ or error}") from error
    termination = result.termination
    limited = termination.limit is mathopt.Limit.TIME
    if not limited and termination.reason is not mathopt.TerminationReason.OPTIMAL:
        raise RuntimeError(f"MathOpt ended with {termination.reason}: {termination.detail}")
    values = None
    if result.has_primal_feasible_solution():
        values = result.variable_values(built.decisions)
    return BackendRun(
        values=values,
        bound=termination.objective_bounds.dual_bound,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"nodes": max(0, result.solve_stats.node_count)},
    )
