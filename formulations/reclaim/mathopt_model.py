"""Reclaiming in the MathOpt of OR-Tools, solved by its SCIP (GSCIP) or by its HiGHS.

Twin of ``pulp_model.py`` and ``cpsat_model.py``: the same constraints by the same names in the
same order. Symbols: see the README beside this file.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from formulations.exact_solver import BackendRun
from formulations.reclaim.model_data import Built, Variables, plain, strengthened
from formulations.reclaim.model_solver import ReclaimModelSolver, float_limits
from lyra_opt.result import StoppedBy

if TYPE_CHECKING:
    from formulations.reclaim.model_data import ReclaimModel, Start


def build(data: ReclaimModel) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.math_opt.python import mathopt

    model = mathopt.Model(name="reclaim")
    variables = add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data, variables)
    add_objective(model, data, variables)
    return Built(model, variables)


# Variables


def add_variables(model: Any, data: ReclaimModel) -> Variables:
    """``x_s in {0, 1}`` for each server s; ``y_j in {0, 1}`` for each job j."""
    return Variables(
        x=[model.add_binary_variable(name=f"x_{s}") for s in range(len(data.positions))],
        y=[model.add_binary_variable(name=f"y_{j}") for j in range(len(data.jobs))],
    )


# Constraints


def reclaim_count(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``N_R = sum_s x_s``."""
    from ortools.math_opt.python import mathopt

    model.add_linear_constraint(
        mathopt.fast_sum(variables.x) == data.reclaim_servers, name="reclaim_count"
    )


def preempting_servers(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``y_j >= x_s`` for each job j and each server s whose choice alone preempts j."""
    for j, s in data.preempting:
        model.add_linear_constraint(
            variables.y[j] >= variables.x[s], name=f"preempting_servers_{j}_{s}"
        )


def loss_thresholds(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``b_j + (n_j - b_j) y_j >= sum_s n_js x_s`` for each job j with a threshold."""
    from ortools.math_opt.python import mathopt

    for j in data.thresholds:
        job = data.jobs[j]
        losses = mathopt.fast_sum(count * variables.x[s] for s, count in job.losses)
        largest_excess = job.all_losses - job.slack
        model.add_linear_constraint(
            job.slack + largest_excess * variables.y[j] >= losses, name=f"loss_thresholds_{j}"
        )


def server_dominance(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``x_s >= x_t`` for each pair (s, t) in which s dominates t."""
    for s, t in data.dominance:
        model.add_linear_constraint(
            variables.x[s] >= variables.x[t], name=f"server_dominance_{s}_{t}"
        )


CONSTRAINTS = (reclaim_count, preempting_servers, loss_thresholds, server_dominance)


# Objective


def add_objective(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Minimise ``sum_s c_s x_s + sum_j w_j y_j``."""
    from ortools.math_opt.python import mathopt

    model.minimize(
        mathopt.fast_sum(cost * x for cost, x in zip(data.server_cost, variables.x, strict=True))
        + mathopt.fast_sum(job.weight * y for job, y in zip(data.jobs, variables.y, strict=True))
    )


# Backends


def run_gscip(built: Built, start: Start, time_s: float | None, seed: int) -> BackendRun:
    """Run SCIP on one thread."""
    from ortools.math_opt.python import mathopt

    return _run(mathopt.SolverType.GSCIP, built, start, time_s, {"random_seed": seed, "threads": 1})


def run_highs(built: Built, start: Start, time_s: float | None, seed: int) -> BackendRun:
    """Run HiGHS on one thread, which MathOpt's common parameter refuses but HiGHS' own takes."""
    from ortools.math_opt.python import mathopt
    from ortools.math_opt.solvers import highs_pb2

    one_thread = highs_pb2.HighsOptionsProto(int_options={"threads": 1})
    return _run(
        mathopt.SolverType.HIGHS, built, start, time_s, {"random_seed": seed, "highs": one_thread}
    )


def _run(
    solver_type: Any, built: Built, start: Start, time_s: float | None, parameters: dict[str, Any]
) -> BackendRun:
    from ortools.math_opt.python import mathopt

    variables = built.variables
    hint = mathopt.SolutionHint(
        variable_values={
            variable: float(value)
            for variable, value in zip(
                (*variables.x, *variables.y), (*start.x, *start.y), strict=True
            )
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
        values = result.variable_values(variables.x)
    return BackendRun(
        values=values,
        bound=termination.objective_bounds.dual_bound,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"nodes": max(0, result.solve_stats.node_count)},
    )


MATHOPT_GSCIP = ReclaimModelSolver(
    name="mathopt-gscip",
    form=plain,
    build=build,
    run=run_gscip,
    limits_of_arithmetic=float_limits,
    modules=("ortools.math_opt.python.mathopt",),
)
MATHOPT_GSCIP_STRENGTHENED = replace(
    MATHOPT_GSCIP, name="mathopt-gscip-strengthened", form=strengthened
)
MATHOPT_HIGHS = replace(MATHOPT_GSCIP, name="mathopt-highs", run=run_highs)
MATHOPT_HIGHS_STRENGTHENED = replace(
    MATHOPT_HIGHS, name="mathopt-highs-strengthened", form=strengthened
)
