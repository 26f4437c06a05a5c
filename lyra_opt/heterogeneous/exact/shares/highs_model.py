"""Solve share programmes with HiGHS, building the model directly from arrays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.stopwatch import remaining_s
from lyra_opt.heterogeneous.exact.shares.data import ShareData
from lyra_opt.heterogeneous.exact.shares.sifting import (
    is_for_sifting,
    is_sum_for_sifting,
    limited,
    sifted,
    sifted_sum,
)
from lyra_opt.heterogeneous.exact.shares.solver import SharePoint, ShareSolver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme

TOLERANCE = 1e-9


def build(data: ShareData) -> Any:
    """Return the HiGHS model of a share programme: its variables, constraints and objective.

    The constraints are added in the order of `CONSTRAINTS`.
    """
    import highspy

    model = highspy.Highs()
    model.silent()
    add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data)
    add_objective(model, data)
    return model


def add_variables(model: Any, data: ShareData) -> None:
    """Add variables ``x_sk >= 0``, the time share of set s on type k, and last the level ``v``."""
    import highspy

    columns, infinity = len(data.set_), highspy.kHighsInf
    model.addVars(columns, np.zeros(columns), np.full(columns, infinity))
    level = infinity if data.programme.has_level else 0.0
    model.addVars(1, np.array([-level]), np.array([level]))


def share_of_time(model: Any, data: ShareData) -> None:
    """Limit job j's time on group i of types: ``m_i >= sum_{s with j} sum_{k in K_i} x_sk``."""
    rows = data.job * data.groups + data.group
    lower = np.full(data.jobs * data.groups, -np.inf)
    upper = np.tile(data.programme.limit, data.jobs)
    _add_rows(model, lower, upper, rows, data.column, data.part)


def gpus_of_type(model: Any, data: ShareData) -> None:
    """Use no more GPUs of type k than exist: ``C_k >= sum_s n_s x_sk``."""
    lower, upper = np.full(data.types, -np.inf), np.ones(data.types)
    _add_rows(model, lower, upper, data.kind, np.arange(len(data.set_)), data.use)


def needed_rate(model: Any, data: ShareData) -> None:
    """Give job j its needed rate: ``q_j v + d_j <= sum_{s with j} sum_k a_jsk x_sk``."""
    row_of_job = np.full(data.jobs, -1)
    row_of_job[data.needy] = np.arange(len(data.needy))
    asked = np.flatnonzero(row_of_job[data.job] >= 0)
    level = np.full(len(data.needy), len(data.set_))
    rows = np.concatenate([row_of_job[data.job[asked]], np.arange(len(data.needy))])
    columns = np.concatenate([data.column[asked], level])
    values = np.concatenate([data.value[asked], -data.level])
    _add_rows(model, data.need, np.full(len(data.needy), np.inf), rows, columns, values)


CONSTRAINTS = (share_of_time, gpus_of_type, needed_rate)


def add_objective(model: Any, data: ShareData) -> None:
    """Maximise the total ``sum_sk g_sk x_sk``, or the level ``v`` if the programme has one."""
    import highspy

    columns = len(data.set_)
    costs = np.append(data.gain, 1.0 if data.programme.has_level else 0.0)
    model.changeColsCost(columns + 1, np.arange(columns + 1, dtype=np.int32), costs)
    model.changeObjectiveSense(highspy.ObjSense.kMaximize)


def _add_rows(
    model: Any,
    lower: np.ndarray[Any, Any],
    upper: np.ndarray[Any, Any],
    rows: np.ndarray[Any, Any],
    columns: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
) -> None:
    """Add rows whose nonzeros are given as triplets in any order."""
    order = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[order], np.arange(len(lower)))
    model.addRows(
        len(lower),
        lower.astype(np.float64),
        upper.astype(np.float64),
        len(rows),
        starts.astype(np.int32),
        columns[order].astype(np.int32),
        values[order].astype(np.float64),
    )


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
    modules, engine = LpHighs.modules, LpHighs.engine

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
        multipliers = np.array(solution.row_dual)
        first = data.jobs * data.groups
        prices = data.prices(
            multipliers[first + data.types :],
            multipliers[first : first + data.types],
            multipliers[:first],
        )
    iterations = max(0, info.ipm_iteration_count) + max(0, info.simplex_iteration_count)
    return SharePoint(shares, prices, iterations, level)
