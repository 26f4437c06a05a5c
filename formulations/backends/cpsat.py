"""CP-SAT of OR-Tools, for minimisations with integer coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import StoppedBy
from lyra_opt.formulations.backends.backend import Backend, BackendRun, added

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.core.result import Number
    from lyra_opt.formulations.backends.backend import Built, CostUnit, KindsT, Values


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


def run_cpsat(built: Built, start: Values | None, time_s: float | None, seed: int) -> BackendRun:
    """Run CP-SAT with one worker and the full linear relaxation.

    Without ``linearization_level=2`` the bound stays near 0 on these models; with several
    workers the portfolio sets levels of its own, with the same effect.
    """
    from ortools.sat.python import cp_model

    model, variables = built.model, built.in_order
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            model.add_hint(variable, value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.random_seed = seed
    # Else Ctrl-C would end it like a limit, and its handler would stay in the place of Python's.
    solver.parameters.catch_sigint_signal = False
    if time_s is not None:
        solver.parameters.max_time_in_seconds = time_s
    status = solver.solve(model)
    if start is not None and status == cp_model.OPTIMAL:
        objective = model.proto.objective
        value_of = dict(zip((each.index for each in variables), start, strict=True))
        terms = zip(objective.vars, objective.coeffs, strict=True)
        # Presolve has been seen to lose the optimum, and the very solution that it was given.
        if solver.objective_value > objective.offset + sum(c * value_of[v] for v, c in terms):
            solver.parameters.cp_model_presolve = False
            status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
        raise RuntimeError(f"CP-SAT ended with {solver.status_name(status)}")
    has_solution = status != cp_model.UNKNOWN
    bound = int(solver.response_proto.inner_objective_lower_bound)  # without the constant
    constant = round(model.proto.objective.offset)
    return BackendRun(
        values=[solver.value(variable) for variable in variables] if has_solution else None,
        # The bound in integers; `best_objective_bound` is a double, off by one at times. Before
        # anything is known it is 0, which is no bound where objectives are negative.
        bound=bound + constant if has_solution or bound else None,
        stopped_by=None if status == cp_model.OPTIMAL or time_s is None else StoppedBy.TIME,
        counters={"branches": solver.num_branches, "conflicts": solver.num_conflicts},
    )


BACKEND = Backend(
    name="cpsat",
    new_model=new_model,
    run=run_cpsat,
    in_floats=False,
    modules=("ortools.sat.python.cp_model",),
    language="cpsat",
    set_unit=set_unit,
)
