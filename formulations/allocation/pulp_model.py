"""The knapsack of allocation in PuLP, solved by CBC (a process of its own) or by HiGHS.

Twin of ``cpsat_model.py`` and ``mathopt_model.py``: the same constraints by the same names in the
same order. Symbols: see the README beside this file.

How PuLP's backends are run: ``formulations/backends/pulp.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formulations.allocation.model_data import Built, Variables, plain, strengthened
from formulations.allocation.model_solver import AllocationModelSolver, float_limits
from formulations.backends.pulp import run_cbc, run_highs

if TYPE_CHECKING:
    from formulations.allocation.model_data import KnapsackModel


def build(data: KnapsackModel) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    import pulp

    model = pulp.LpProblem("allocation", pulp.LpMinimize)
    variables = add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data, variables)
    add_objective(model, data, variables)
    return Built(model, variables)


# Variables


def add_variables(model: Any, data: KnapsackModel) -> Variables:
    """``x_k in {0, 1}`` for each choice k of each class."""
    return Variables(
        x=[model.add_variable(f"x_{k}", cat="Binary") for k in range(len(data.items))],
    )


# Constraints


def one_choice(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """``1 = sum_{k in K_c} x_k`` for each class c."""
    import pulp

    for c, choices in enumerate(data.classes):
        model += pulp.lpSum(variables.x[k] for k in choices) == 1, f"one_choice_{c}"


def capacity(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """``C >= sum_k w_k x_k``."""
    import pulp

    model += (
        pulp.lpSum(w * x for w, x in zip(data.weight, variables.x, strict=True) if w)
        <= data.capacity,
        "capacity",
    )


CONSTRAINTS = (one_choice, capacity)


# Objective


def add_objective(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Minimise ``sum_k c_k x_k``."""
    import pulp

    model += pulp.lpSum(cost * x for cost, x in zip(data.cost_in_floats, variables.x, strict=True))


# Backends


PULP_CBC = AllocationModelSolver(
    name="pulp-cbc",
    form=plain,
    build=build,
    run=run_cbc,
    limits_of_arithmetic=float_limits,
    modules=("pulp",),
)
PULP_CBC_STRENGTHENED = replace(PULP_CBC, name="pulp-cbc-strengthened", form=strengthened)
PULP_HIGHS = replace(PULP_CBC, name="pulp-highs", run=run_highs, modules=("pulp", "highspy"))
PULP_HIGHS_STRENGTHENED = replace(PULP_HIGHS, name="pulp-highs-strengthened", form=strengthened)
