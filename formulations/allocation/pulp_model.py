"""The knapsack model of allocation in PuLP, solved by CBC (in its own process) or HiGHS."""

from typing import Any

from lyra_opt.formulations.allocation.model_data import (
    PLAIN,
    STRENGTHENED,
    KnapsackModel,
    Variables,
)
from lyra_opt.formulations.backends.pulp import CBC, HIGHS, integers, total
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement

# Variables


def add_variables(model: Any, data: KnapsackModel) -> Variables:
    """Add a variable for each choice k: ``x_k in {0, 1}``, 1 if choice k is taken."""
    return integers(model, data.largest)


# Constraints


def one_choice(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Take exactly one choice of workers for each job c: ``1 = sum_{k in K_c} x_k``."""
    for c, choices in enumerate(data.classes):
        model += total(variables.x[k] for k in choices) == 1, f"one_choice_{c}"


def capacity(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Use at most C GPUs, where choice k uses w_k GPUs: ``C >= sum_k w_k x_k``."""
    model += (
        total(data.weight[k] * x for k, x in variables.x.items() if data.weight[k])
        <= data.capacity,
        "capacity",
    )


CONSTRAINTS = (one_choice, capacity)


# Objective


def add_objective(model: Any, data: KnapsackModel, variables: Variables) -> None:
    """Minimise the cost of the choices: ``sum_k c_k x_k``."""
    model += total(data.cost[k] * x for k, x in variables.x.items())


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

PULP_CBC = ExactModelSolver(PLAIN, STATEMENT, CBC)
PULP_CBC_STRENGTHENED = ExactModelSolver(STRENGTHENED, STATEMENT, CBC)
PULP_HIGHS = ExactModelSolver(PLAIN, STATEMENT, HIGHS)
PULP_HIGHS_STRENGTHENED = ExactModelSolver(STRENGTHENED, STATEMENT, HIGHS)
