"""The solver that every model becomes: start, build, run, decode, check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from formulations.exact_solver import (
    ABSOLUTE_TOLERANCE,
    LARGEST_SEED,
    BackendRun,
    Countdown,
    concluded,
    load_modules,
    missing_module,
)
from formulations.network.greedy_start import greedy_solution
from formulations.network.model_data import MOST_COLUMNS, simple_bound
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.rounding import float_up
from lyra_opt.core.solver import Unsupported
from lyra_opt.network.checker import check
from lyra_opt.network.instance import COUNTING_OBJECTIVES, NetworkSolution, Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from formulations.network.model_data import Built, GangData, Start
    from lyra_opt.core.result import Limits, Number, SolveResult
    from lyra_opt.network.instance import NetworkInstance

    Incumbent = tuple[NetworkSolution, Number]

MOST_GPUS_IN_FLOATS = 10**5
FLOAT_MARGIN = 2.0**-32
"""How far, relatively, the bound of a backend in floats is moved to the safe side."""


class Model(Protocol):
    """The numbers of a model; `TierModel` or `PatternModel`."""

    @property
    def data(self) -> GangData:
        """What can be where, and what it is worth."""

    def start(self, solution: NetworkSolution) -> Start:
        """Return the values of all variables for a valid placement."""

    def solution(self, values: Sequence[float]) -> NetworkSolution:
        """Return the placement that values of the variables stand for."""


@dataclass(frozen=True, kw_only=True)
class NetworkModelSolver:
    """An exact model with one backend; implements `lyra_opt.core.solver.Solver`.

    Starts from the warm start or from the best of a few greedy placements, and never returns worse.
    Claims optimality only where the bound, moved to the safe side by `FLOAT_MARGIN` if it comes
    from floats, is the objective of those that count, and within 1e-6 of the others. One thread;
    the seed of the backend comes from the generator. Of the limits only the time is kept.

    Parameters
    ----------
    name
        The name the command line knows it by.
    form
        What makes the numbers of the model.
    columns
        How many variables the model has, roughly, or at least where they are too many.
    build
        What makes the backend's model of the numbers.
    run
        What runs the backend: takes the model, the start, the time left in seconds (None for no
        limit) and a seed from 0 to 2**31 - 2.
    uses_floats
        Whether the backend computes in floats.
    modules
        The Python modules that the backend needs.
    """

    name: str
    form: Callable[[NetworkInstance], Any]
    columns: Callable[[NetworkInstance], int]
    build: Callable[[Any], Built]
    run: Callable[[Any, Any, float | None, int], BackendRun]
    uses_floats: bool
    modules: tuple[str, ...]
    problem: ClassVar[str] = "network"
    variants: ClassVar[Sequence[str]] = tuple(str(objective) for objective in Objective)
    proves_optimality: ClassVar[bool] = True
    gives_bound: ClassVar[bool] = True

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is; imports none of them."""
        return missing_module(self.modules)

    def supports(self, instance: NetworkInstance) -> Unsupported | None:
        """Return why the model would be too large, or beyond the backend's arithmetic."""
        refusal = too_large(self.columns(instance))
        if refusal is not None:
            return refusal
        if self.uses_floats and instance.free_gpus > MOST_GPUS_IN_FLOATS:
            return Unsupported(
                f"{instance.free_gpus} GPUs are free; the model is exact in floating-point "
                f"arithmetic up to {MOST_GPUS_IN_FLOATS}"
            )
        return None

    def solve(
        self,
        instance: NetworkInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: NetworkSolution | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[NetworkSolution]:
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
        incumbent = started(instance, warm_start)
        if observer is not None:
            observer("objective", incumbent[1])
        bound: Number = simple_bound(instance)
        ending: dict[str, Any] = {"observer": observer, "proof_gap": instance.objective.proof_gap}
        if countdown.is_over:
            return concluded(incumbent, bound, stopped_by=StoppedBy.TIME, **ending)
        model: Model = self.form(instance)
        if not model.data.can_start():
            return concluded(incumbent, incumbent[1], **ending)
        built = self.build(model)
        if countdown.is_over:
            return concluded(incumbent, bound, stopped_by=StoppedBy.TIME, **ending)
        run = self.run(built, model.start(incumbent[0]), countdown.remaining_s, seed)
        found = None if run.values is None else checked(instance, model, run.values)
        if found is not None and found[1] > incumbent[1]:
            incumbent = found
            if observer is not None:
                observer("objective", incumbent[1])
        proved = self._proved(model.data, run)
        return concluded(
            incumbent,
            bound if proved is None else min(bound, proved),
            stopped_by=run.stopped_by,
            counters=run.counters,
            **ending,
        )

    def _proved(self, data: GangData, run: BackendRun) -> Number | None:
        """Return the upper bound on the objective that the backend's on the cost is."""
        if run.bound is None or not math.isfinite(run.bound):
            return None
        least = Fraction(run.bound)
        if isinstance(run.bound, float):
            least -= max(Fraction(ABSOLUTE_TOLERANCE), abs(least) * Fraction(FLOAT_MARGIN))
        return in_instance_units(data, -least, in_floats=self.uses_floats)


def too_large(columns: int) -> Unsupported | None:
    """Return why a model of so many variables is not built, None if it is."""
    if columns <= MOST_COLUMNS:
        return None
    return Unsupported(
        f"the model has {columns} variables or more; it is built up to {MOST_COLUMNS}"
    )


def in_instance_units(data: GangData, worth: Fraction, *, in_floats: bool) -> Number:
    """Return the bound on the objective that a bound on the worth in the model is."""
    if data.instance.objective in COUNTING_OBJECTIVES:
        return math.floor(worth)
    return float_up(worth * (data.unit_in_floats if in_floats else data.unit))


def started(instance: NetworkInstance, warm_start: NetworkSolution | None) -> Incumbent:
    """Return the warm start, or what is greedy without one, and its value.

    Raises
    ------
    ValueError
        If the warm start is not valid.
    """
    if warm_start is None:
        return greedy_solution(instance)
    report = check(instance, warm_start)
    if report.objective is None:
        raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
    return warm_start, report.objective


def checked(instance: NetworkInstance, model: Model, values: Sequence[float]) -> Incumbent | None:
    """Return the placement of a backend's values as the checker sees it, None if there is none."""
    try:
        solution = model.solution(values)
    except ValueError:  # a backend's rounding may break a row
        return None
    objective = check(instance, solution).objective
    return None if objective is None else (solution, objective)
