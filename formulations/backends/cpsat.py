"""CP-SAT of OR-Tools, for minimisations with integer coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import is_out_of_time, limits_in_force, remaining_s
from lyra_opt.formulations.backends.backend import Backend, BackendRun, added, interruptible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.core.result import Number
    from lyra_opt.formulations.backends.backend import (
        Built,
        CostUnit,
        KindsT,
        Settings,
        Values,
        Watch,
    )


WORKERS = (
    *("max_lp", "default_lp", "lb_tree_search", "reduced_costs", "quick_restart", "no_lp"),
    *("core", "probing"),
)
"""Of CP-SAT, the first that there are threads for."""


def new_model() -> Any:
    """Return an empty model."""
    from ortools.sat.python import cp_model

    return cp_model.CpModel()


def integers(model: Any, largest: KindsT) -> KindsT:
    """Add integer variables from 0 to what `largest`, a named tuple of mappings, says."""
    return added(largest, lambda name, most: model.new_int_var(0, most, name))


def total(variables: Iterable[Any]) -> Any:
    """Return their sum; `LinearExpr.sum` would lose digits of coefficients from 2^53 on."""
    return sum(variables)


def weighted(terms: Iterable[tuple[Number, Any]]) -> Any:
    """Return the sum of coefficients times variables."""
    from ortools.sat.python import cp_model

    coefficients, variables = zip(*terms, strict=True) if (terms := list(terms)) else ((), ())
    return cp_model.LinearExpr.weighted_sum(variables, coefficients)


def set_unit(model: Any, unit: CostUnit) -> None:
    """Say what the cost is in the instance's objective; coefficients stay integers.

    CP-SAT's objective is ``scaling_factor * (sum + offset)``, maximised where the factor is
    negative.
    """
    objective = model.proto.objective
    objective.scaling_factor = float(unit.scale)
    objective.offset += float(unit.offset / unit.scale)


def run_cpsat(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run CP-SAT with the full linear relaxation, with as many workers as there may be threads.

    Without ``linearization_level=2`` the bound stays near 0 on these models; of several workers
    the first must be ``max_lp``, or it does so too.
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
    # Presolve that compares which constraints include others has proved wrong optima: 16 of 8,333
    # drawn instances of heterogeneous rounds, none without it.
    solver.parameters.presolve_inclusion_work_limit = 0
    # Else Ctrl-C would end it like a limit: `interruptible` is for that.
    solver.parameters.catch_sigint_signal = False
    if (time_s := remaining_s()) is not None:
        solver.parameters.max_time_in_seconds = time_s
    callback = None if settings.watch is None else _callback(solver, variables, settings.watch)
    status = interruptible(lambda: solver.solve(model, callback), solver.stop_search)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
        raise RuntimeError(f"CP-SAT ended with {solver.status_name(status)}")
    has_solution = status != cp_model.UNKNOWN
    # The bound in integers; `best_objective_bound` is a double, off by one at times. A 0 before the
    # end may be the default of the response, which the constant must not hide.
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
    """Return what CP-SAT calls with its solutions; its bounds it tells at once."""
    from ortools.sat.python import cp_model

    class Found(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]  # OR-Tools is not typed
        def on_solution_callback(self) -> None:
            watch.found([self.value(variable) for variable in variables])

    solver.best_bound_callback = watch.bounded
    return Found()


BACKEND = Backend(
    name="cpsat",
    new_model=new_model,
    run=run_cpsat,
    in_floats=False,
    modules=("ortools.sat.python.cp_model",),
    is_parallel=True,
    language="cpsat",
    set_unit=set_unit,
)
