"""The solver that minimises the terms of the objective stage by stage, with one backend."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.result import BACKEND_RUNS, Limits, StoppedBy
from lyra_opt.core.stopwatch import OutOfTimeError, grace, require_time
from lyra_opt.core.trajectory import Improvements
from lyra_opt.formulations.backends.backend import NoSolutionError
from lyra_opt.formulations.exact_model import ExactModelSolver
from lyra_opt.formulations.exact_solver import result_of
from lyra_opt.formulations.preemption.model_data import PreemptionModel

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.core.result import Number, SolveResult
    from lyra_opt.core.solver import Observer
    from lyra_opt.formulations.exact_solver import Incumbent
    from lyra_opt.preemption.instance import Instance


class StagedSolver(ExactModelSolver):
    """An exact solver that minimises the first terms, keeps their values, and then the next terms.

    Each stage is a run of `ExactModelSolver` that starts from the incumbent. A stage is skipped if
    the incumbent already has the values that the bound allows. The bound is the encoded tuple of
    the proved values, the bound of the current stage, and 0 for later terms. If a stage ends
    without a proof, later stages are not run, unless the backend never gives bounds. The time limit
    holds for all stages together.

    `model` returns a model with all terms as one cost if the encoded objective is at most 2^53;
    otherwise its cost is the first stage.
    """

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,
        rng: np.random.Generator,
        warm_start: Any = None,
        observer: Observer | None = None,
    ) -> SolveResult[Any]:
        """Solve `instance` stage by stage.

        Raises
        ------
        ValueError
            If the warm start is not a valid solution.
        RuntimeError
            If the backend fails before its time limit, returns values that its tolerances cannot
            explain, or finds no solution although one is known.
        """
        self.load()
        if observer is not None:
            observer = Improvements(observer, instance.variant)
        decode = instance.terms.decode
        incumbent: Incumbent[Any] | None = None
        bound: Number = 0
        ending: dict[str, Any] = {"observer": observer, "counters": Counter[str]()}
        try:
            with grace():
                incumbent = self._start_solution(instance, warm_start, rng)
                if observer is not None and incumbent is not None:
                    observer("objective", incumbent[1], incumbent[0])
            require_time()
            model = PreemptionModel.of(instance)
        except OutOfTimeError:
            ending |= {"stopped_by": StoppedBy.TIME, "counters": {BACKEND_RUNS: 0}}
            return result_of(instance, incumbent, bound, **ending)
        for stage in model.stages():
            values = None if incumbent is None else decode(incumbent[1])
            if values is not None and values[: stage.end] == decode(bound)[: stage.end]:
                continue
            solver = self._at(model.at(stage, values or ()), bound)
            start = None if incumbent is None else incumbent[0]
            given = {"limits": limits, "rng": rng, "warm_start": start, "observer": observer}
            try:
                result = solver.solve(instance, **given)
            except NoSolutionError:
                if incumbent is not None:
                    raise
                return result_of(instance, None, math.inf, **ending)
            ending["counters"].update(result.counters)
            if result.solution is not None:
                incumbent = result.solution, result.objective
                values = decode(result.objective)
            if result.dual_bound is not None:
                bound = result.dual_bound
            is_proved = values is not None and values[: stage.end] == decode(bound)[: stage.end]
            if (
                result.stopped_by
                or incumbent is None
                or not (is_proved or not self.backend.gives_bound)
            ):
                ending |= {"stopped_by": result.stopped_by, "message": result.message}
                break
        return result_of(instance, incumbent, bound, **ending)

    def _at(self, model: PreemptionModel, bound: Number) -> ExactModelSolver:
        """Return the solver of one stage, without a start of its own."""
        formulation = replace(
            self.formulation,
            data=lambda *_: model,
            begin=lambda *_: None,
            simple_bound=lambda _: bound,
        )
        return ExactModelSolver(formulation, self.statement, self.backend)
