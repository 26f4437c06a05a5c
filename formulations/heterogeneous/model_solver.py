"""The solver that every model of schedules in rounds becomes: start, build, run, decode, check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from formulations.exact_solver import (
    ABSOLUTE_TOLERANCE,
    LARGEST_SEED,
    BackendRun,
    Countdown,
    load_modules,
    missing_module,
)
from formulations.heterogeneous.greedy_start import greedy_schedule, without_waste
from formulations.heterogeneous.model_data import round_model
from lyra_opt.core.result import SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.rounding import float_up
from lyra_opt.core.solver import Unsupported
from lyra_opt.heterogeneous.bounds.dual_bound import simple_bound
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.instance import SCHEDULE_OBJECTIVES, Objective, RoundSchedule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from formulations.heterogeneous.model_data import Built, RoundModel, Start
    from lyra_opt.core.result import Limits
    from lyra_opt.heterogeneous.instance import HeterogeneousInstance

    Incumbent = tuple[RoundSchedule, float]

MOST_RUNS = 200_000
FLOAT_MARGIN = 2.0**-32
"""How far, relatively, the bound of a backend in floats is moved to the safe side."""


@dataclass(frozen=True, kw_only=True)
class RoundModelSolver:
    """An exact model of schedules in rounds with one backend.

    Starts from the warm start or from the best of a few list schedules, and never returns worse.
    Claims optimality only where the bound, moved to the safe side by `FLOAT_MARGIN` if it comes
    from floats, is within the objective's `proof_gap`: 1e-9 for ``makespan`` and
    ``mean_jct``, 1e-6 for ``utility`` and ``round_progress``. One thread; the seed of the backend
    comes from the generator. Of the limits only the time is kept.

    Parameters
    ----------
    name
        The name the command line knows it by.
    build
        What makes the backend's model.
    run
        What runs the backend: takes the model, the start, the time left in seconds (None for no
        limit) and a seed from 0 to 2**31 - 2.
    uses_floats
        Whether the backend computes in floats.
    modules
        The Python modules that the backend needs.
    """

    name: str
    build: Callable[..., Built]
    run: Callable[[Any, Start, float | None, int], BackendRun]
    uses_floats: bool
    modules: tuple[str, ...]
    problem: ClassVar[str] = "heterogeneous"
    variants: ClassVar[Sequence[str]] = tuple(
        str(objective)
        for objective in Objective
        if objective in SCHEDULE_OBJECTIVES or objective is Objective.ROUND_PROGRESS
    )
    proves_optimality: ClassVar[bool] = True
    gives_bound: ClassVar[bool] = True

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is; imports none of them."""
        return missing_module(self.modules)

    def supports(self, instance: HeterogeneousInstance) -> Unsupported | None:
        """Return why the objective is not the model's, or the model would be too large."""
        if str(instance.objective) not in self.variants:
            return Unsupported(f"{self.name} takes schedules in rounds, not {instance.objective}")
        servers = 1 if not instance.forking else len(instance.servers)
        if any(job.spread_throughput is not None for job in instance.jobs):
            servers = len(instance.servers)
        runs = len(instance.jobs) * servers * len(instance.gpu_types) * instance.horizon_rounds
        if runs <= MOST_RUNS:
            return None
        return Unsupported(
            f"jobs x servers x types x rounds is {runs}; the model is built up to {MOST_RUNS}"
        )

    def solve(
        self,
        instance: HeterogeneousInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: RoundSchedule | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[RoundSchedule]:
        """Solve `instance`; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        ValueError
            If the warm start is no valid solution.
        RuntimeError
            If the backend fails.
        """
        load_modules(self.modules)
        countdown = Countdown(limits.time_s)
        seed = int(rng.integers(LARGEST_SEED))
        incumbent = _start(instance, warm_start)
        if observer is not None and incumbent is not None:
            observer("objective", incumbent[1])
        bound = _rounded(instance, simple_bound(instance))
        if countdown.is_over:
            return _concluded(instance, incumbent, bound, StoppedBy.TIME, {}, observer)
        model = round_model(instance, incumbent)
        if instance.objective.sense == "max" and not any(True for _ in model.run_keys()):
            return _concluded(instance, incumbent, bound, None, {}, observer)  # nothing can run
        built = self.build(model, has_start=incumbent is not None)
        if countdown.is_over:
            return _concluded(instance, incumbent, bound, StoppedBy.TIME, {}, observer)
        start = model.start(None if incumbent is None else incumbent[0], in_floats=self.uses_floats)
        run = self.run(built, start, countdown.remaining_s, seed)
        found = None if run.values is None else _checked(instance, model, run.values)
        if found is not None and _is_better(instance, found[1], incumbent):
            incumbent = found
            if observer is not None:
                observer("objective", incumbent[1])
        proved = self._proved(model, run)
        if proved is not None:
            if model.penalty and incumbent is None and proved >= model.penalty:
                return SolveResult(
                    status=Status.INFEASIBLE,
                    stopped_by=None,
                    counters=run.counters,
                    message="no schedule completes all jobs within the horizon",
                )
            tightened = _in_instance_units(model, proved, uses_floats=self.uses_floats)
            tighter = min if instance.objective.sense == "max" else max
            bound = tighter(bound, tightened)
        return _concluded(instance, incumbent, bound, run.stopped_by, run.counters, observer)

    def _proved(self, model: RoundModel, run: BackendRun) -> Fraction | None:
        """Return the backend's lower bound on the model's cost, moved to the safe side."""
        if run.bound is None or not math.isfinite(run.bound):
            return None
        least = Fraction(run.bound)
        if isinstance(run.bound, float):
            least -= max(Fraction(ABSOLUTE_TOLERANCE), abs(least) * Fraction(FLOAT_MARGIN))
        return Fraction(math.ceil(least)) if model.penalty else least


def _start(instance: HeterogeneousInstance, warm_start: RoundSchedule | None) -> Incumbent | None:
    if warm_start is None:
        minimises = instance.objective.sense == "min"
        return greedy_schedule(instance, minimises=minimises)
    report = check(instance, warm_start)
    if report.objective is None:
        raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
    return without_waste(instance, warm_start), report.objective


def _checked(
    instance: HeterogeneousInstance, model: RoundModel, values: Sequence[float]
) -> Incumbent | None:
    """Return the schedule of a backend's values as the checker sees it, None if it is not valid."""
    schedule = without_waste(instance, model.schedule(values))
    objective = check(instance, schedule).objective
    return None if objective is None else (schedule, objective)


def _is_better(instance: HeterogeneousInstance, value: float, incumbent: Incumbent | None) -> bool:
    if incumbent is None:
        return True
    return value > incumbent[1] if instance.objective.sense == "max" else value < incumbent[1]


def _in_instance_units(model: RoundModel, cost: Fraction, *, uses_floats: bool) -> float:
    """Return the bound on the objective that a bound on the model's cost is."""
    instance = model.instance
    if instance.objective.sense == "max":
        unit = model.worth_unit_in_floats if uses_floats else model.worth_unit
        return float_up(-cost * unit)
    seconds = cost * Fraction(instance.round_s)
    if instance.objective is Objective.MEAN_JCT:
        released_s = sum((Fraction(job.release_s) for job in instance.jobs), Fraction(0))
        seconds = (seconds - released_s) / len(instance.jobs)
    return -float_up(-seconds)


def _rounded(instance: HeterogeneousInstance, bound: Fraction) -> float:
    return float_up(bound) if instance.objective.sense == "max" else -float_up(-bound)


def _concluded(
    instance: HeterogeneousInstance,
    incumbent: Incumbent | None,
    bound: float,
    stopped_by: StoppedBy | None,
    counters: Any,
    observer: Callable[[str, int | float], None] | None,
) -> SolveResult[RoundSchedule]:
    if observer is not None:
        observer("dual_bound", bound)
    if incumbent is None:
        return SolveResult(
            status=Status.UNKNOWN, stopped_by=stopped_by, dual_bound=bound, counters=counters
        )
    is_proved = same_value(bound, incumbent[1], tolerance=instance.objective.proof_gap)
    message = None
    if stopped_by is None and not is_proved:
        message = (
            f"the backend was done, but its bound, rounded to the safe side, is {bound}: "
            "its arithmetic does not prove this objective"
        )
    return SolveResult(
        status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
        stopped_by=None if is_proved else stopped_by,
        solution=incumbent[0],
        objective=incumbent[1],
        dual_bound=bound,
        counters=counters,
        message=message,
    )
