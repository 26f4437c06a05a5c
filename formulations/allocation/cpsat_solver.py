"""CP-SAT under one name for all objectives: the knapsack, or the schedule on a grid of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.allocation.instance import Objective
from lyra_opt.core.solver import Solver
from lyra_opt.formulations.allocation.cpsat_model import CPSAT
from lyra_opt.formulations.allocation.mean_jct.cpsat_model import schedule_on_grid

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.allocation.instance import Instance, Solution
    from lyra_opt.core.result import Limits, SolveResult
    from lyra_opt.core.solver import Observer, Unsupported
    from lyra_opt.formulations.exact_model import ExactModelSolver


class CpsatSolver(Solver):
    """OR-Tools CP-SAT; `mean_jct` in slots of time, never below the optimum.

    The one-shot objectives are solved to proved optimality (`cpsat_model`). For `mean_jct` time
    and workers are integers (`mean_jct`), so that its schedule is never below the optimum,
    without a bound.

    Parameters
    ----------
    step_s
        Length of a slot of `mean_jct` in seconds; None for `schedule_on_grid`'s own.
    """

    name = "cpsat"
    problem = "allocation"
    variants = (*CPSAT.variants, Objective.MEAN_JCT)
    exact_variants = CPSAT.variants
    gives_bound = True
    modules, engine, is_parallel = CPSAT.modules, CPSAT.engine, CPSAT.is_parallel
    language, form = CPSAT.language, CPSAT.form

    def __init__(self, step_s: float | None = None) -> None:
        self._schedule = schedule_on_grid(step_s)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the model of the objective does not take the instance, None if it does."""
        return self._model_of(instance).supports(instance)

    def model(self, instance: Instance) -> Any:
        """Return the model of the objective."""
        return self._model_of(instance).model(instance)

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Solution | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Solve the model of the objective; see `lyra_opt.core.solver.Solver.solve`."""
        return self._model_of(instance).solve(
            instance, limits=limits, rng=rng, warm_start=warm_start, observer=observer
        )

    def _model_of(self, instance: Instance) -> ExactModelSolver:
        return self._schedule if instance.objective is Objective.MEAN_JCT else CPSAT
