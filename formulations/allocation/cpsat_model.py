"""The knapsack model of allocation for the CP-SAT backend of OR-Tools."""

from typing import Any

from lyra_opt.formulations.allocation.model_data import (
    PLAIN,
    STRENGTHENED,
    KnapsackModel,
    Variables,
)
from lyra_opt.formulations.backends.cpsat import BACKEND, integers, weighted
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement

# Variables


def add_variables(model: Any, data: KnapsackModel) -> Variables:
    """Add a variable for each choice k: ``x_k in {0, 1}``, 1 if choice k is taken."""
    return integers(model, data.largest)


# Constraints


def one_choice(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Take exactly one choice of workers for each job c: ``1 = sum_{k in K_c} x_k``."""
    for c, choices in enumerate(data.classes):
        model.add_exactly_one(variables.x[k] for k in choices).with_name(f"one_choice_{c}")


def capacity(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Use at most C GPUs, where choice k uses w_k GPUs: ``C >= sum_k w_k x_k``."""
    model.add(
        weighted(zip(data.weight, variables.x.values(), strict=True)) <= data.capacity
    ).with_name("capacity")


CONSTRAINTS = (one_choice, capacity)


# Objective


def add_objective(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Minimise the cost of the choices: ``sum_k c_k x_k``."""
    model.minimize(weighted(zip(data.cost, variables.x.values(), strict=True)))


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

CPSAT = ExactModelSolver(PLAIN, STATEMENT, BACKEND)
CPSAT_STRENGTHENED = ExactModelSolver(STRENGTHENED, STATEMENT, BACKEND)
