"""The CP-SAT backend of OR-Tools, for minimisation with integer coefficients."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from lyra_opt.core.result import Number, StoppedBy
from lyra_opt.core.stopwatch import is_out_of_time, limits_in_force, remaining_s
from lyra_opt.formulations.backends.backend import (
    Backend,
    BackendRun,
    Built,
    CostUnit,
    KindsT,
    NoSolutionError,
    Settings,
    Values,
    Watch,
    add_bounded,
    interruptible,
)
from lyra_opt.formulations.backends.rows import Row, Term

WORKERS = (
    *("max_lp", "default_lp", "lb_tree_search", "reduced_costs", "quick_restart", "no_lp"),
    *("core", "probing"),
)
"""CP-SAT subsolvers in order of preference: a run with n threads uses the first n of them."""


def new_model() -> Any:
    """Return an empty model."""
    from ortools.sat.python import cp_model

    return cp_model.CpModel()


def add_variable(model: Any, name: str, most: Number, _is_integer: bool = True) -> Any:
    """Add a variable from 0 to `most`; all variables of CP-SAT are integers."""
    return model.new_int_var(0, most, name)


def integers(model: Any, largest: KindsT) -> KindsT:
    """Add an integer variable from 0 to n for each value n in `largest`, a tuple of mappings."""
    return add_bounded(largest, partial(add_variable, model))


def total(variables: Iterable[Any]) -> Any:
    """Return the sum of variables; `LinearExpr.sum` loses digits of coefficients above 2^53."""
    return sum(variables)


def weighted(terms: Iterable[Term]) -> Any:
    """Return the sum of coefficients times variables."""
    from ortools.sat.python import cp_model

    coefficients, variables = zip(*terms, strict=True) if (terms := list(terms)) else ((), ())
    return cp_model.LinearExpr.weighted_sum(variables, coefficients)


def add_row(model: Any, row: Row) -> None:
    """Add a row, whose numbers must be integers."""
    held = weighted(row.terms)
    model.add(held == row.limit if row.is_equation else held <= row.limit).with_name(row.name)


def minimize(model: Any, cost: Iterable[Term]) -> None:
    """Set the cost that the model minimises."""
    model.minimize(weighted(cost))


def set_unit(model: Any, unit: CostUnit) -> None:
    """Replace the model's minimised cost by the instance's objective; coefficients stay integers.

    CP-SAT's objective is ``scaling_factor * (sum + offset)``; a negative factor means maximisation.
    """
    objective = model.proto.objective
    objective.scaling_factor = float(unit.scale)
    objective.offset += float(unit.offset / unit.scale)


def run_cpsat(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run CP-SAT with the full linear relaxation and one worker per allowed thread.

    Without ``linearization_level=2`` the bound stays near 0 on these models. With several workers,
    ``max_lp`` must be the first for the same reason.
    """
    from ortools.sat.python import cp_model

    model, variables = built.model, built.in_order
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = limits_in_force().threads
    if limits_in_force().threads > 1:
        solver.parameters.subsolvers.extend(WORKERS)
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = settings.seed
    # A presolve step of CP-SAT that searches for nested constraints can prove wrong optima.
    # CP-SAT's inclusion step gave wrong optima for 16 of 8,333 random instances of rounds.
    solver.parameters.presolve_inclusion_work_limit = 0
    # `interruptible` handles Ctrl-C, because CP-SAT's own handler would report a limit.
    solver.parameters.catch_sigint_signal = False
    if (time_s := remaining_s()) is not None:
        solver.parameters.max_time_in_seconds = time_s
    callback = None if settings.watch is None else _callback(solver, variables, settings.watch)
    status = interruptible(lambda: solver.solve(model, callback), solver.stop_search)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
        failed = NoSolutionError if status == cp_model.INFEASIBLE else RuntimeError
        raise failed(f"CP-SAT stopped with {solver.status_name(status)}")
    has_solution = status != cp_model.UNKNOWN
    # The integer bound is read, because the float `best_objective_bound` can be off by 1.
    # A bound of 0 before the optimum is proved may mean that CP-SAT has not set the field yet.
    bound = int(solver.response_proto.inner_objective_lower_bound)
    constant = round(model.proto.objective.offset)
    return BackendRun(
        values=[solver.value(variable) for variable in variables] if has_solution else None,
        bound=bound + constant if bound or status == cp_model.OPTIMAL else None,
        stopped_by=None
        if status == cp_model.OPTIMAL or (time_s is None and not is_out_of_time())
        else StoppedBy.TIME,
        counters={"branches": solver.num_branches, "conflicts": solver.num_conflicts},
    )


def _callback(solver: Any, variables: Sequence[Any], watch: Watch) -> Any:
    """Return a CP-SAT callback that reports solutions, and register one that reports bounds."""
    from ortools.sat.python import cp_model

    class Found(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]  # OR-Tools is not typed
        def on_solution_callback(self) -> None:
            watch.found([self.value(variable) for variable in variables])

    solver.best_bound_callback = watch.bounded
    return Found()


BACKEND = Backend(
    name="cpsat",
    new_model=new_model,
    add_variable=add_variable,
    add_row=add_row,
    minimize=minimize,
    run=run_cpsat,
    in_floats=False,
    modules=("ortools.sat.python.cp_model",),
    is_parallel=True,
    language="cpsat",
    set_unit=set_unit,
)
