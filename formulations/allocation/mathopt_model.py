"""The knapsack of allocation in the MathOpt of OR-Tools, solved by its SCIP (GSCIP) or its HiGHS.

Twin of ``pulp_model.py`` and ``cpsat_model.py``: the same constraints by the same names in the
same order. Symbols: see the README beside this file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formulations.allocation.model_data import Built, Variables, plain, strengthened
from formulations.allocation.model_solver import AllocationModelSolver, float_limits
from formulations.backends.mathopt import run_gscip, run_highs

if TYPE_CHECKING:
    from formulations.allocation.model_data import KnapsackModel


def build(data: KnapsackModel) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.math_opt.python import mathopt

    model = mathopt.Model(name="allocation")
    variables = add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data, variables)
    add_objective(model, data, variables)
    return Built(model, variables)


# Variables


def add_variables(model: Any, data: KnapsackModel) -> Variables:
    """``x_k in {0, 1}`` for each choice k of each class."""
    return Variables(x=[model.add_binary_variable(name=f"x_{k}") for k in range(len(data.items))])


# Constraints


def one_choice(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """``1 = sum_{k in K_c} x_k`` for each class c."""
    from ortools.math_opt.python import mathopt

    for c, choices in enumerate(data.classes):
        model.add_linear_constraint(
            mathopt.fast_sum(variables.x[k] for k in choices) == 1, name=f"one_choice_{c}"
        )


def capacity(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """``C >= sum_k w_k x_k``."""
    from ortools.math_opt.python import mathopt

    model.add_linear_constraint(
        mathopt.fast_sum(w * x for w, x in zip(data.weight, variables.x, strict=True) if w)
        <= data.capacity,
        name="capacity",
    )


CONSTRAINTS = (one_choice, capacity)


# Objective


def add_objective(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Minimise ``sum_k c_k x_k``."""
    from ortools.math_opt.python import mathopt

    model.minimize(
        mathopt.fast_sum(cost * x for cost, x in zip(data.cost_in_floats, variables.x, strict=True))
    )


# Backends


MATHOPT_GSCIP = AllocationModelSolver(
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
