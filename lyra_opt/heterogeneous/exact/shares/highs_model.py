"""Solve share programmes with HiGHS, building the model directly from arrays."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from lyra_opt.core.stopwatch import remaining_s
from lyra_opt.heterogeneous.exact.shares.data import CONSTRAINTS, ShareData, gain
from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme
from lyra_opt.heterogeneous.exact.shares.sifting import (
    is_for_sifting,
    is_sum_for_sifting,
    limited,
    sifted,
    sifted_sum,
)
from lyra_opt.heterogeneous.exact.shares.solver import SharePoint, ShareSolver

TOLERANCE = 1e-9


def build(data: ShareData) -> Any:
    """Return the HiGHS model of a share programme: its variables, constraints and objective."""
    import highspy

    model, infinity = highspy.Highs(), highspy.kHighsInf
    model.silent()
    columns = len(data.set_)
    model.addVars(columns, np.zeros(columns), np.full(columns, infinity))
    level = infinity if data.programme.has_level else 0.0
    model.addVars(1, np.array([-level]), np.array([level]))
    for constraint in CONSTRAINTS:
        rows = constraint(data)
        order = np.argsort(rows.row, kind="stable")
        starts = np.searchsorted(rows.row[order], np.arange(len(rows.lower)))
        model.addRows(
            len(rows.lower),
            rows.lower.astype(np.float64),
            rows.upper.astype(np.float64),
            len(rows.row),
            starts.astype(np.int32),
            rows.column[order].astype(np.int32),
            rows.value[order].astype(np.float64),
        )
    model.changeColsCost(columns + 1, np.arange(columns + 1, dtype=np.int32), gain(data))
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)
    return model


class LpHighs(ShareSolver):
    """Solve all share objectives with HiGHS's interior point method and crossover, on one thread.

    The dual simplex takes four times as long on 2,048 jobs. An interior point method written for
    these programmes took 1.3 to 1.5 times the CPU time in whole replays of Gavel's rounds with 40
    jobs at once. It took the same time with 400 jobs, and less only from about 500 distinct jobs.

    Exact up to the proof gap; the bound is recomputed from the row multipliers. The shares are a
    vertex of the optimal face, except that identical jobs get equal shares.
    """

    name = "lp-highs"
    modules, engine = ("highspy",), "highs"

    def merged_point_of(self, programme: ShareProgramme) -> SharePoint:
        """Solve a programme with the interior point method."""
        return _point_of(programme, INTERIOR_POINT)


class LpSifting(ShareSolver):
    """Solve all share objectives with HiGHS's primal simplex method, large instances by sifting.

    Programmes without pairs need not be solved as a whole
    (`lyra_opt.heterogeneous.exact.shares.sifting`). If the level is limited by one job that can get
    no more, nothing remains to be solved. Other programmes with a level are solved through small
    programmes over the jobs whose types are uncertain. Sums are solved through one programme over
    the jobs that may get a share. All use the primal simplex method without presolve, which can
    start from the point where no GPU is used. It takes a third of the time of ``lp-highs`` if there
    are few jobs, few kinds of jobs or many pairs.

    Exact up to the proof gap; the bound is recomputed from the row multipliers. If optimal shares
    are not unique, they may differ from those of ``lp-highs``, which recorded rounds rely on.
    """

    name = "lp-sifting"
    modules, engine = (*LpHighs.modules, "scipy.optimize"), LpHighs.engine

    def merged_point_of(self, programme: ShareProgramme) -> SharePoint:
        """Solve a share programme by sifting if its form allows that, else in one piece."""
        point, engine = None, partial(_point_of, options=SIMPLEX)
        if is_for_sifting(programme):
            point = limited(programme)
            if point is None and programme.sets.jobs >= SIFTED_FROM:
                point = sifted(programme, engine)
        elif is_sum_for_sifting(programme):
            point = sifted_sum(programme, engine)
        if point is not None:
            return point
        return engine(programme)


INTERIOR_POINT: Mapping[str, str | int] = {"solver": "ipm"}
SIMPLEX: Mapping[str, str | int] = {
    "solver": "simplex",
    "presolve": "off",  # presolve takes longer than it saves
    "simplex_strategy": 4,  # primal simplex: every basis is feasible
}
SIFTED_FROM = 160
"""Least number of distinct jobs for which sifting is used."""


def _point_of(programme: ShareProgramme, options: Mapping[str, str | int]) -> SharePoint:
    """Solve a programme with HiGHS and the given options.

    Shares or prices are None if HiGHS has no valid solution or no valid multipliers.
    """
    import highspy

    data = ShareData.of(programme)
    model = build(data)
    for name, value in options.items():
        model.setOptionValue(name, value)
    model.setOptionValue("threads", 1)
    model.setOptionValue("primal_feasibility_tolerance", TOLERANCE)
    model.setOptionValue("dual_feasibility_tolerance", TOLERANCE)
    time_s = remaining_s()
    if time_s is not None:
        model.setOptionValue("time_limit", time_s)
    model.run()
    if model.getModelStatus() == highspy.HighsModelStatus.kUnknown:
        # Without an interior, crossover may end slightly off the optimum; simplex then finishes.
        model.setOptionValue("solver", "simplex")
        model.run()
    info, solution = model.getInfo(), model.getSolution()
    shares = prices = None
    level = 0.0
    if solution.value_valid:
        *values, scaled_level = solution.col_value
        shares, level = data.shares(values), scaled_level * data.level_scale
    if solution.dual_valid:
        prices = data.prices(solution.row_dual)
    iterations = max(0, info.ipm_iteration_count) + max(0, info.simplex_iteration_count)
    return SharePoint(shares, prices, iterations, level)
