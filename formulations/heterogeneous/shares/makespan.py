"""A lower bound on the makespan of schedules in rounds, by HiGHS; it finds no schedule.

Gavel's programme for the makespan, with forking HadarE's; see the README beside this file.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from formulations.exact_solver import Countdown, concluded, valued_start
from formulations.heterogeneous.shares.highs_model import LpHighs
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Unsupported
from lyra_opt.heterogeneous.bounds.divisible_makespan import makespan_bound_s
from lyra_opt.heterogeneous.instance import Objective
from lyra_opt.heterogeneous.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from lyra_opt.core.result import Limits
    from lyra_opt.heterogeneous.instance import HeterogeneousInstance, RoundSchedule


class LpMakespan:
    """Bounds ``makespan`` from below; implements `lyra_opt.core.solver.Solver`.

    The answer is the warm start or, without one, none at all: status unknown with a dual bound,
    or infeasible where the bound is beyond the horizon. One programme for each release, at most
    16; the bound of each is recomputed from its multipliers.
    """

    name: ClassVar[str] = "lp-makespan"
    problem: ClassVar[str] = "heterogeneous"
    variants: ClassVar[Sequence[str]] = (str(Objective.MAKESPAN),)
    proves_optimality: ClassVar[bool] = False
    gives_bound: ClassVar[bool] = True

    def __init__(self) -> None:
        self._engine = LpHighs()

    def availability(self) -> Unsupported | None:
        """Return which package is missing, None if none is; imports none of them."""
        return self._engine.availability()

    def supports(self, instance: HeterogeneousInstance) -> Unsupported | None:
        """Return why the instance is not about a makespan, None if it is."""
        if instance.objective is Objective.MAKESPAN:
            return None
        return Unsupported(f"the objective is {instance.objective}, not makespan")

    def solve(
        self,
        instance: HeterogeneousInstance,
        *,
        limits: Limits,
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: RoundSchedule | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[RoundSchedule]:
        """Bound `instance`; see `lyra_opt.core.solver.Solver.solve`.

        Raises
        ------
        ValueError
            If the warm start is no valid solution.
        """
        self._engine.load()
        countdown = Countdown(limits.time_s)
        bound = makespan_bound_s(
            instance, self._engine.point_of, remaining_s=lambda: countdown.remaining_s
        )
        if math.isinf(bound) or bound > instance.horizon_s * (1 + 1e-9):
            return SolveResult(status=Status.INFEASIBLE)
        if observer is not None:
            observer("dual_bound", bound)
        stopped = StoppedBy.TIME if countdown.is_over else None
        start = None if warm_start is None else valued_start(PROBLEM, instance, warm_start)
        if observer is not None and start is not None:
            observer("objective", start[1])
        return concluded(instance, start, bound, stopped_by=stopped, promises_proof=False)
