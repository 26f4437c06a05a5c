"""The solver that every reclaim model becomes: start, build, run, round, pay in integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formulations.exact_solver import (
    LARGEST_SEED,
    BackendRun,
    Countdown,
    better,
    concluded,
    load_modules,
    missing_module,
    safe_lower_bound,
)
from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.solver import Unsupported, find_solver
from lyra_opt.reclaim.checker import check
from lyra_opt.reclaim.heuristics.base import preempted_weight
from lyra_opt.reclaim.instance import ReclaimSolution, Semantics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formulations.reclaim.model_data import ReclaimModel, Start
    from lyra_opt.core.result import SolveResult
    from lyra_opt.reclaim.instance import ReclaimInstance

START_HEURISTICS = ("lyra-greedy", "peeling")
LARGEST_LOSSES_IN_FLOATS = 10**5
LARGEST_WEIGHT_IN_FLOATS = 10**13
INT64_LIMIT = 2**62


def float_limits(instance: ReclaimInstance) -> Unsupported | None:
    """Return why a backend that computes in floats would not be exact on `instance`.

    It takes a variable within 1e-6 of an integer for that integer. In a threshold row such
    errors add up to at most 2e-6 times the job's losses, which must stay well below one worker.
    Weights that sum to more than 10^13 have optima that differ by less than the relative
    precision of its sums; CBC then even calls instances infeasible.
    """
    if instance.total_weight > LARGEST_WEIGHT_IN_FLOATS:
        return Unsupported(
            f"the weights sum to {instance.total_weight}; floating-point arithmetic is exact "
            f"enough up to {LARGEST_WEIGHT_IN_FLOATS}"
        )
    if instance.semantics is Semantics.RIGID:  # all coefficients are 1
        return None
    return _losses_above(instance, LARGEST_LOSSES_IN_FLOATS, "exact in floating-point arithmetic")


def int64_limits(instance: ReclaimInstance) -> Unsupported | None:
    """Return why a backend that computes in 64-bit integers would overflow on `instance`."""
    if instance.total_weight >= INT64_LIMIT:
        return Unsupported(
            f"the weights sum to {instance.total_weight}; 64-bit integers need less than 2**62"
        )
    return _losses_above(instance, INT64_LIMIT - 1, "exact in 64-bit integers")


def _losses_above(instance: ReclaimInstance, limit: int, rule: str) -> Unsupported | None:
    losses = instance.index.losses
    jobs = np.repeat(np.arange(losses.jobs), losses.span())
    # In floats, because 64-bit integers may overflow, which is what this is to find out.
    all_losses = np.bincount(jobs, weights=losses.job_counts, minlength=losses.jobs)
    above = np.flatnonzero(all_losses > limit)
    if not len(above):
        return None
    workers = sum(count for _, count in losses.row(above[0]))
    return Unsupported(
        f"job {instance.jobs[above[0]].id!r} has {workers} workers on servers on loan; "
        f"the model is {rule} up to {limit}"
    )


@dataclass(frozen=True, kw_only=True)
class ReclaimModelSolver:
    """An exact model of reclaiming with one backend; implements `lyra_opt.core.solver.Solver`.

    Starts from the warm start or, without one, from the best of `START_HEURISTICS` and of the
    first N_R servers on loan, and never returns worse. Claims optimality only where the safely
    rounded bound of the backend meets the objective in integers. One thread; the seed of the
    backend comes from the generator.

    Of the limits only the time is kept: nodes and memory are not passed on, because the backends
    count neither alike. Building the model counts as time but is not interrupted, and the
    backends look at the clock between steps of their own: HiGHS has taken 2.7 s where 0.3 s were
    allowed, on 520 servers.

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
        limit) and a seed from 0 to 2**31 - 2; returns the values of the x variables.
    limits_of_arithmetic
        What says why an instance is beyond the backend's arithmetic.
    modules
        The Python modules that the backend needs.
    """

    name: str
    form: Callable[[ReclaimInstance], ReclaimModel]
    build: Callable[[ReclaimModel], Any]
    run: Callable[[Any, Start, float | None, int], BackendRun]
    limits_of_arithmetic: Callable[[ReclaimInstance], Unsupported | None]
    modules: tuple[str, ...]
    problem: ClassVar[str] = "reclaim"
    variants: ClassVar[Sequence[str]] = tuple(str(semantics) for semantics in Semantics)
    proves_optimality: ClassVar[bool] = True
    gives_bound: ClassVar[bool] = True

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is; imports none of them."""
        return missing_module(self.modules)

    def supports(self, instance: ReclaimInstance) -> Unsupported | None:
        """Return why the instance is beyond the backend's arithmetic, None if it is not."""
        return self.limits_of_arithmetic(instance)

    def solve(
        self,
        instance: ReclaimInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: ReclaimSolution | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[ReclaimSolution]:
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
        seed = int(rng.integers(LARGEST_SEED))  # drawn first: the start must not move it
        start = _start(instance, warm_start, rng)
        if observer is not None:
            observer("objective", start[1])
        if start[1] == 0:  # no weight is negative
            return concluded(start, 0, observer=observer)
        model = self.form(instance)
        built = None if countdown.is_over else self.build(model)
        if countdown.is_over:
            return concluded(start, 0, stopped_by=StoppedBy.TIME, observer=observer)
        start_values = model.start(start[0].positions(instance))
        run = self.run(built, start_values, countdown.remaining_s, seed)
        incumbent = better(start, _found(instance, model, run))
        if observer is not None and incumbent is not start:
            observer("objective", incumbent[1])
        step = math.gcd(*(job.weight for job in model.jobs), *model.server_cost)
        return concluded(
            incumbent,
            safe_lower_bound(run.bound, step=step),
            stopped_by=run.stopped_by,
            counters=run.counters,
            observer=observer,
        )


def valid_start(
    instance: ReclaimInstance, warm_start: ReclaimSolution
) -> tuple[ReclaimSolution, int]:
    """Return the warm start with its objective; ValueError if it is no valid solution."""
    report = check(instance, warm_start)
    if report.objective is None:
        raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
    return warm_start, report.objective


def _start(
    instance: ReclaimInstance, warm_start: ReclaimSolution | None, rng: np.random.Generator
) -> tuple[ReclaimSolution, int]:
    """Return the solution to start from, with its objective; ties go to the first candidate."""
    if warm_start is not None:
        return valid_start(instance, warm_start)
    candidates = []
    for name in START_HEURISTICS:
        heuristic = find_solver("reclaim", name)
        if not (heuristic.availability() or heuristic.supports(instance)):
            result = heuristic.solve(instance, limits=Limits(), rng=rng)
            if result.solution is not None:
                candidates.append(result.solution)
    first = instance.index.on_loan[: instance.reclaim_servers].tolist()
    candidates.append(ReclaimSolution.of_positions(instance, first))
    return min(
        ((solution, _cost(instance, solution)) for solution in candidates),
        key=lambda candidate: candidate[1],
    )


def _found(
    instance: ReclaimInstance, model: ReclaimModel, run: BackendRun
) -> tuple[ReclaimSolution, int] | None:
    """Return what the backend found, rounded, with its objective in integers."""
    if run.values is None:
        return None
    chosen = [
        position for position, x in zip(model.positions, run.values, strict=True) if round(x) == 1
    ]
    if len(chosen) != instance.reclaim_servers:
        raise RuntimeError(
            f"the backend chooses {len(chosen)} servers, not {instance.reclaim_servers}"
        )
    solution = ReclaimSolution.of_positions(instance, chosen)
    return solution, _cost(instance, solution)


def _cost(instance: ReclaimInstance, solution: ReclaimSolution) -> int:
    return preempted_weight(instance.index, solution.positions(instance))
