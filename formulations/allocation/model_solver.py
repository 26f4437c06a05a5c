"""The solver that every knapsack model becomes: start, build, run, round, cost anew."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from formulations.exact_solver import (
    ABSOLUTE_TOLERANCE,
    LARGEST_SEED,
    BackendRun,
    Countdown,
    concluded,
    load_modules,
    missing_module,
)
from lyra_opt.allocation.checker import check
from lyra_opt.allocation.heuristics.mckp_greedy import greedy_choice
from lyra_opt.allocation.instance import Objective
from lyra_opt.allocation.knapsack.data import VALUE_MARGIN
from lyra_opt.allocation.knapsack.of_instance import (
    KNAPSACK_OBJECTIVES,
    AllocationKnapsack,
    refusal,
)
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.solver import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from formulations.allocation.model_data import KnapsackModel, Start
    from lyra_opt.allocation.instance import AllocationInstance, NamedWorkers, WorkerAllocation
    from lyra_opt.allocation.knapsack.data import IntArray
    from lyra_opt.core.result import Limits, SolveResult

LARGEST_CAPACITY_IN_FLOATS = 10**5
FLOAT_MARGIN = 2.0**-32
"""How far, relatively, the bound of a backend in floats is moved to the safe side."""


def float_limits(instance: AllocationInstance) -> Unsupported | None:
    """Return why a backend that computes in floats would not be exact on `instance`.

    It takes a variable within 1e-6 of an integer for that integer, and the sum of the weights
    taken may be off by that times the capacity, which must stay well below one GPU.
    """
    if instance.gpus <= LARGEST_CAPACITY_IN_FLOATS:
        return None
    return Unsupported(
        f"gpus is {instance.gpus}; the model is exact in floating-point arithmetic up to "
        f"{LARGEST_CAPACITY_IN_FLOATS}"
    )


def no_limits(instance: AllocationInstance) -> Unsupported | None:  # noqa: ARG001
    """Return None: costs are scaled so that they fit 64 bits."""
    return None


@dataclass(frozen=True, kw_only=True)
class AllocationModelSolver:
    """An exact model of the knapsack with one backend; implements `lyra_opt.core.solver.Solver`.

    Starts from the warm start or, without one, from `mckp-greedy`, and never returns worse.
    Claims optimality only where the bound, moved to the safe side by `FLOAT_MARGIN` if it comes
    from floats, is within 1e-9 of the objective. One thread; the seed of the backend comes from
    the generator. Of the limits only the time is kept, as by the models of reclaiming.

    Parameters
    ----------
    name
        The name the command line knows it by.
    form
        What makes the numbers of the model: `plain` or `strengthened`.
    build
        What makes the backend's model of them.
    run
        What runs the backend: takes the model, the start, the time left in seconds (None for no
        limit) and a seed from 0 to 2**31 - 2.
    limits_of_arithmetic
        What says why an instance is beyond the backend's arithmetic.
    modules
        The Python modules that the backend needs.
    """

    name: str
    form: Callable[[AllocationKnapsack, IntArray, float], KnapsackModel]
    build: Callable[[KnapsackModel], Any]
    run: Callable[[Any, Start, float | None, int], BackendRun]
    limits_of_arithmetic: Callable[[AllocationInstance], Unsupported | None]
    modules: tuple[str, ...]
    problem: ClassVar[str] = "allocation"
    variants: ClassVar[Sequence[str]] = tuple(str(objective) for objective in KNAPSACK_OBJECTIVES)
    proves_optimality: ClassVar[bool] = True
    gives_bound: ClassVar[bool] = True

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is; imports none of them."""
        return missing_module(self.modules)

    def supports(self, instance: AllocationInstance) -> Unsupported | None:
        """Return why the instance is no knapsack or beyond the backend's arithmetic."""
        return refusal(instance) or self.limits_of_arithmetic(instance)

    def solve(
        self,
        instance: AllocationInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: WorkerAllocation | NamedWorkers | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[WorkerAllocation]:
        """Solve `instance`; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        ValueError
            If the warm start is no valid solution.
        RuntimeError
            If the backend fails, or claims that there is no solution.
        """
        load_modules(self.modules)
        countdown = Countdown(limits.time_s)
        seed = int(rng.integers(LARGEST_SEED))
        task = AllocationKnapsack.of(instance)
        start = _start(task, warm_start)
        incumbent = _costed(task, start)
        if observer is not None:
            observer("objective", incumbent[1])
        if not task.knapsack.items:
            return concluded(incumbent, incumbent[1], observer=observer)
        relaxed = task.linear_bound_s()
        model = self.form(task, start, incumbent[1])
        built = None if countdown.is_over else self.build(model)
        if countdown.is_over:
            return concluded(incumbent, relaxed, stopped_by=StoppedBy.TIME, observer=observer)
        run = self.run(built, model.start(start), countdown.remaining_s, seed)
        maximises = instance.objective is Objective.JCT_REDUCTION
        if run.values is not None:
            found = _costed(task, model.chosen(run.values))
            if (found[1] > incumbent[1]) if maximises else (found[1] < incumbent[1]):
                incumbent = found
                if observer is not None:
                    observer("objective", incumbent[1])
        bound = safe_bound_s(run, model, maximises=maximises)
        return concluded(
            incumbent,
            relaxed if bound is None else bound,
            stopped_by=run.stopped_by,
            counters=run.counters,
            observer=observer,
        )


def safe_bound_s(run: BackendRun, model: KnapsackModel, *, maximises: bool) -> float | None:
    """Return the bound on the objective that follows from a backend's on the scaled costs."""
    if run.bound is None or not math.isfinite(run.bound):
        return None
    least, exponent = float(run.bound), model.exponent
    if isinstance(run.bound, float):
        least -= max(ABSOLUTE_TOLERANCE, FLOAT_MARGIN * abs(least))
        exponent = model.float_exponent
    least = math.ldexp(least - VALUE_MARGIN * abs(least), -exponent)
    bound = math.nextafter(-least, math.inf) if maximises else math.nextafter(least, -math.inf)
    return max(0.0, bound)


def _start(
    task: AllocationKnapsack, warm_start: WorkerAllocation | NamedWorkers | None
) -> IntArray:
    """Return the items to start from."""
    if warm_start is None:
        reduced = task.knapsack.reduced()
        return reduced.original(greedy_choice(reduced))
    report = check(task.instance, warm_start)
    if report.objective is None:
        raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
    return task.choice(task.workers(task.allocation_of(warm_start)))


def _costed(task: AllocationKnapsack, chosen: IntArray) -> tuple[WorkerAllocation, float]:
    solution = task.allocation(chosen)
    return solution, task.objective_s(task.workers(solution))
