"""A lower bound on the makespan of schedules in rounds, by HiGHS; it finds no schedule.

Gavel's programme for the makespan, with forking HadarE's; see the README beside this file.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Solver, keeps_time
from lyra_opt.core.stopwatch import OutOfTimeError, grace, is_out_of_time
from lyra_opt.formulations.exact_solver import concluded, valued_start
from lyra_opt.formulations.heterogeneous.shares.highs_model import LpHighs
from lyra_opt.heterogeneous.bounds.divisible_makespan import makespan_bound_s
from lyra_opt.heterogeneous.instance import Objective
from lyra_opt.heterogeneous.problem import PROBLEM

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.core.result import Limits
    from lyra_opt.core.solver import Observer
    from lyra_opt.heterogeneous.instance import Instance, RoundSchedule


class LpMakespan(Solver):
    """Linear programmes that bound ``makespan`` from below, by HiGHS.

    The answer is the warm start or, without one, none at all: status unknown with a dual bound,
    or infeasible where the bound is beyond the horizon. One programme for each release, at most
    16; the bound of each is recomputed from its multipliers.
    """

    name = "lp-makespan"
    problem = "heterogeneous"
    variants = (Objective.MAKESPAN,)
    gives_bound = True
    modules, engine = LpHighs.modules, LpHighs.engine

    def __init__(self) -> None:
        self._engine = LpHighs()

    @keeps_time
    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: RoundSchedule | None = None,
        observer: Observer | None = None,
    ) -> SolveResult[RoundSchedule]:
        """Bound `instance`; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        ValueError
            If the warm start is no valid solution.
        """
        self._engine.load()
        try:
            with grace():
                bound = makespan_bound_s(instance, self._engine.point_of)
        except OutOfTimeError:
            bound = 0.0
        if math.isinf(bound) or bound > instance.horizon_s * (1 + 1e-9):
            return SolveResult(status=Status.INFEASIBLE)
        if observer is not None:
            observer("dual_bound", bound)
        stopped = StoppedBy.TIME if is_out_of_time() else None
        start = None if warm_start is None else valued_start(PROBLEM, instance, warm_start)
        if observer is not None and start is not None:
            observer("objective", start[1])
        return concluded(instance, start, bound, stopped_by=stopped, promises_proof=False)
