"""The reclaim model in PuLP, solved by CBC (in its own process) or HiGHS (in this process)."""

from typing import Any

from lyra_opt.formulations.backends.pulp import CBC, HIGHS, integers, total
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement
from lyra_opt.formulations.reclaim.model_data import PLAIN, STRENGTHENED, ReclaimModel, Variables

# Variables


def add_variables(model: Any, data: ReclaimModel) -> Variables:
    """Choose server s: ``x_s in {0, 1}``; preempt job j: ``y_j in {0, 1}``."""
    return integers(model, data.largest)


# Constraints


def reclaim_count(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Choose exactly N_R servers: ``N_R = sum_s x_s``."""
    model += total(variables.x.values()) == data.reclaim_servers, "reclaim_count"


def preempting_servers(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Preempt job j if server s, whose loss alone preempts j, is chosen: ``y_j >= x_s``."""
    for j, s in data.preempting:
        model += variables.y[j] >= variables.x[s], f"preempting_servers_{j}_{s}"


def loss_thresholds(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Preempt j if it loses more than b_j workers: ``b_j + (n_j - b_j) y_j >= sum_s n_js x_s``."""
    for j in data.thresholds:
        job = data.jobs[j]
        losses = total(count * variables.x[s] for s, count in job.losses)
        largest_excess = job.all_losses - job.slack
        model += (job.slack + largest_excess * variables.y[j] >= losses, f"loss_thresholds_{j}")


def server_dominance(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Choose a dominating server first: ``x_s >= x_t`` where server s dominates t."""
    for s, t in data.dominance:
        model += variables.x[s] >= variables.x[t], f"server_dominance_{s}_{t}"


CONSTRAINTS = (reclaim_count, preempting_servers, loss_thresholds, server_dominance)


# Objective


def add_objective(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Minimise the weight of preempted jobs: ``sum_s c_s x_s + sum_j w_j y_j``."""
    model += total(data.server_cost[s] * x for s, x in variables.x.items()) + total(
        data.jobs[j].weight * y for j, y in variables.y.items()
    )


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

PULP_CBC = ExactModelSolver(PLAIN, STATEMENT, CBC)
PULP_CBC_STRENGTHENED = ExactModelSolver(STRENGTHENED, STATEMENT, CBC)
PULP_HIGHS = ExactModelSolver(PLAIN, STATEMENT, HIGHS)
PULP_HIGHS_STRENGTHENED = ExactModelSolver(STRENGTHENED, STATEMENT, HIGHS)
