"""The knapsack of allocation in the CP-SAT solver of OR-Tools.

Twin of ``pulp_model.py`` and ``mathopt_model.py``: the same constraints by the same names in the
same order. Symbols: see the README beside this file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formulations.allocation.model_data import Built, Variables, plain, strengthened
from formulations.allocation.model_solver import AllocationModelSolver, no_limits
from formulations.backends.cpsat import run_cpsat

if TYPE_CHECKING:
    from formulations.allocation.model_data import KnapsackModel


def build(data: KnapsackModel) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    variables = add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data, variables)
    add_objective(model, data, variables)
    return Built(model, variables)


# Variables


def add_variables(model: Any, data: KnapsackModel) -> Variables:
    """``x_k in {0, 1}`` for each choice k of each class."""
    return Variables(x=[model.new_bool_var(f"x_{k}") for k in range(len(data.items))])


# Constraints


def one_choice(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """``1 = sum_{k in K_c} x_k`` for each class c."""
    for c, choices in enumerate(data.classes):
        model.add_exactly_one(variables.x[k] for k in choices).with_name(f"one_choice_{c}")


def capacity(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """``C >= sum_k w_k x_k``."""
    from ortools.sat.python import cp_model

    model.add(
        cp_model.LinearExpr.weighted_sum(variables.x, data.weight) <= data.capacity
    ).with_name("capacity")


CONSTRAINTS = (one_choice, capacity)


# Objective


def add_objective(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Minimise ``sum_k c_k x_k``."""
    from ortools.sat.python import cp_model

    model.minimize(cp_model.LinearExpr.weighted_sum(variables.x, data.cost))


# Backend


CPSAT = AllocationModelSolver(
    name="cpsat",
    form=plain,
    build=build,
    run=run_cpsat,
    limits_of_arithmetic=no_limits,
    modules=("ortools.sat.python.cp_model",),
)
CPSAT_STRENGTHENED = replace(CPSAT, name="cpsat-strengthened", form=strengthened)
