"""The solver class that minimises the terms of the objective stage by stage, with one backend."""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from lyra_opt.core.result import BACKEND_RUNS, Limits, Number, SolveResult, StoppedBy
from lyra_opt.core.solver import Observer
from lyra_opt.core.stopwatch import OutOfTimeError, grace, require_time
from lyra_opt.core.trajectory import Improvements
from lyra_opt.formulations.backends.backend import NoSolutionError
from lyra_opt.formulations.exact_model import ExactModelSolver, ReadBack
from lyra_opt.formulations.exact_solver import result_of
from lyra_opt.formulations.preemption.model_data import LARGEST_EXPORTED, PreemptionModel
from lyra_opt.preemption.instance import Instance


class StagedSolver(ExactModelSolver):
    """An exact solver that minimises the first terms, keeps their values, and minimises the next.

    Each stage is a run of `ExactModelSolver` that starts from the incumbent. A stage is skipped if
    the incumbent already has the values of the bound. The bound encodes the proved values of
    earlier stages, the bound of the current stage, and 0 for later terms. If a stage ends without a
    proof, later stages are not run, unless the backend never gives bounds. The time limit holds for
    all stages together.

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
            If the backend fails before its time limit.
        """
        self.load()
        if observer is not None:
            observer = Improvements(observer, instance.variant)
        decode = instance.terms.decode
        incumbent: Any = None
        bound: Any = 0
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

        def is_reached(stage: range) -> bool:
            known = None if incumbent is None else decode(incumbent[1])[: stage.stop]
            return known == decode(bound)[: stage.stop]

        for stage in model.stages():
            if is_reached(stage):
                continue
            start, values = (
                (None, ()) if incumbent is None else (incumbent[0], decode(incumbent[1]))
            )
            solver = self._at(model.at(stage, values), bound)
            given: Any = {"limits": limits, "rng": rng, "warm_start": start, "observer": observer}
            try:
                result = solver.solve(instance, **given)
            except NoSolutionError:
                if incumbent is None:
                    return result_of(instance, None, math.inf, **ending)
                ending["message"] = "the backend finds no solution, but one is known"
                break
            ending["counters"].update(result.counters)
            if result.solution is not None:
                incumbent = result.solution, result.objective
            bound = bound if result.dual_bound is None else result.dual_bound
            if result.stopped_by is not None:
                ending |= {"stopped_by": result.stopped_by, "message": result.message}
                break
            if incumbent is None:
                ending["message"] = "the backend ended without a valid solution and without a proof"
                break
            if self.backend.gives_bound and not is_reached(stage):
                break
        return result_of(instance, incumbent, bound, **ending)

    def read_back(self, instance: Instance) -> ReadBack:
        """Return the way from values of the variables of `model` to a solution of an instance."""
        is_whole = instance.terms.largest <= LARGEST_EXPORTED
        return super().read_back(instance)._replace(has_objective=is_whole)

    def _at(self, model: PreemptionModel, bound: Number) -> ExactModelSolver:
        """Return the solver of one stage; it starts only from the given incumbent."""
        formulation = replace(
            self.formulation,
            data=lambda *_: model,
            begin=lambda *_: None,
            simple_bound=lambda _: bound,
        )
        return ExactModelSolver(formulation, self.statement, self.backend)
