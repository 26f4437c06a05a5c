"""The knapsacks of allocation as exact models see them: two forms, and where to begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.allocation.heuristics.mckp_greedy import MckpGreedy
from lyra_opt.allocation.knapsack.of_instance import (
    KNAPSACK_OBJECTIVES,
    AllocationKnapsack,
    knapsack_bound,
    refusal,
)
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.allocation.model_data import NONE, plain, strengthened
from lyra_opt.formulations.exact_model import Formulation, best_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.allocation.instance import Instance, NamedWorkers, WorkerAllocation
    from lyra_opt.formulations.allocation.model_data import KnapsackModel
    from lyra_opt.formulations.exact_solver import Incumbent

LARGEST_CAPACITY_IN_FLOATS = 10**5


def supports(instance: Instance, in_floats: bool) -> Unsupported | None:
    """Return why the instance is no knapsack, or beyond a backend's arithmetic.

    In floats a variable within 1e-6 of an integer is taken for that integer, and the sum of the
    weights taken may be off by that times the capacity, which must stay well below one GPU. For
    integers costs are scaled so that they fit 64 bits.
    """
    refused = refusal(instance)
    if refused is not None or not in_floats or instance.gpus <= LARGEST_CAPACITY_IN_FLOATS:
        return refused
    return Unsupported(
        f"gpus is {instance.gpus}; the model is exact in floating-point arithmetic up to "
        f"{LARGEST_CAPACITY_IN_FLOATS}"
    )


def _tidied(instance: Instance, solution: WorkerAllocation | NamedWorkers) -> WorkerAllocation:
    """Return the workers by position, without those that add nothing."""
    task = AllocationKnapsack.of(instance)
    return task.allocation(task.choice(task.workers(task.allocation_of(solution))))


def _data(form: Callable[..., KnapsackModel]) -> Callable[..., KnapsackModel]:
    def data(instance: Instance, start: Incumbent[Any] | None, in_floats: bool) -> KnapsackModel:
        task = AllocationKnapsack.of(instance)
        if start is None:
            nothing = np.full(task.knapsack.classes, NONE)
            return form(task, nothing, 0.0, in_floats=in_floats)
        chosen = task.choice(task.workers(start[0]))
        return form(task, chosen, float(start[1]), in_floats=in_floats)

    return data


PLAIN = Formulation(
    problem=PROBLEM,
    variants=KNAPSACK_OBJECTIVES,
    supports=supports,
    data=_data(plain),
    begin=best_of(MckpGreedy()),
    simple_bound=knapsack_bound,
    summary="Textbook model",
    tidied=_tidied,
)
STRENGTHENED = replace(
    PLAIN,
    data=_data(strengthened),
    summary="Model without dominated choices",
    suffix="-strengthened",
)
