"""The reclaim model for the CP-SAT backend of OR-Tools."""

from typing import Any

from lyra_opt.formulations.backends.cpsat import BACKEND, integers, total
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement
from lyra_opt.formulations.reclaim.model_data import PLAIN, STRENGTHENED, ReclaimModel, Variables

# Variables


def add_variables(model: Any, data: ReclaimModel) -> Variables:
    """Choose server s: ``x_s in {0, 1}``; preempt job j: ``y_j in {0, 1}``."""
    return integers(model, data.largest)


# Constraints


def reclaim_count(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Choose exactly N_R servers: ``N_R = sum_s x_s``."""
    model.add(total(variables.x.values()) == data.reclaim_servers).with_name("reclaim_count")


def preempting_servers(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Preempt job j if server s, whose loss alone preempts j, is chosen: ``y_j >= x_s``."""
    for j, s in data.preempting:
        model.add_implication(variables.x[s], variables.y[j]).with_name(
            f"preempting_servers_{j}_{s}"
        )


def loss_thresholds(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Preempt j if it loses more than b_j workers: ``b_j + (n_j - b_j) y_j >= sum_s n_js x_s``."""
    for j in data.thresholds:
        job = data.jobs[j]
        losses = total(count * variables.x[s] for s, count in job.losses)
        largest_excess = job.all_losses - job.slack
        model.add(job.slack + largest_excess * variables.y[j] >= losses).with_name(
            f"loss_thresholds_{j}"
        )


def server_dominance(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Choose a dominating server first: ``x_s >= x_t`` where server s dominates t."""
    for s, t in data.dominance:
        model.add_implication(variables.x[t], variables.x[s]).with_name(f"server_dominance_{s}_{t}")


CONSTRAINTS = (reclaim_count, preempting_servers, loss_thresholds, server_dominance)


# Objective


def add_objective(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Minimise the weight of preempted jobs: ``sum_s c_s x_s + sum_j w_j y_j``."""
    model.minimize(
        total(data.server_cost[s] * x for s, x in variables.x.items())
        + total(data.jobs[j].weight * y for j, y in variables.y.items())
    )


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

CPSAT = ExactModelSolver(PLAIN, STATEMENT, BACKEND)
CPSAT_STRENGTHENED = ExactModelSolver(STRENGTHENED, STATEMENT, BACKEND)
