"""The linear programmes over shares of time in MathOpt of OR-Tools, solved by GLOP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.core.stopwatch import remaining_s
from lyra_opt.formulations.backends.backend import CostUnit
from lyra_opt.formulations.backends.mathopt import MODULES, set_unit, solve
from lyra_opt.formulations.exact_model import ReadBack
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.data import ShareData
from lyra_opt.heterogeneous.exact.shares.solver import SharePoint, ShareSolver
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from lyra_opt.formulations.backends.backend import Values
    from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme
    from lyra_opt.heterogeneous.instance import Instance, TimeShares


@dataclass(slots=True)
class Built:
    """A MathOpt model of time shares, with its variables and the rows that give dual values."""

    model: Any
    x: list[Any]
    level: Any
    time: list[Any]
    gpus: list[Any]
    needs: list[Any]


def build(data: ShareData) -> Built:
    """Build the MathOpt model of a linear programme over time shares.

    It adds the variables, the constraints in the order of `CONSTRAINTS`, and the objective.
    """
    from ortools.math_opt.python import mathopt

    built = add_variables(mathopt.Model(name="shares"), data)
    for add_constraint in CONSTRAINTS:
        add_constraint(built, data)
    add_objective(built, data)
    return built


# Variables


def add_variables(model: Any, data: ShareData) -> Built:
    """Add ``x_sk >= 0``, the share of set s on type k, and the free level ``v`` as the last."""
    columns = zip(data.set_.tolist(), data.kind.tolist(), strict=True)
    x = [model.add_variable(lb=0.0, name=f"x_{s}_{k}") for s, k in columns]
    bounds = {} if data.programme.has_level else {"lb": 0.0, "ub": 0.0}
    return Built(model, x, model.add_variable(name="v", **bounds), [], [], [])


# Constraints


def share_of_time(built: Built, data: ShareData) -> None:
    """Limit job j's time on group i of types: ``m_i >= sum_{s with j} sum_{k in K_i} x_sk``."""
    limits = data.programme.limit.tolist()
    built.time = [
        built.model.add_linear_constraint(ub=m, name=f"share_of_time_{j}_{i}")
        for j in range(data.jobs)
        for i, m in enumerate(limits)
    ]
    rows = (data.job * data.groups + data.group).tolist()
    for row, column, part in zip(rows, data.column.tolist(), data.part.tolist(), strict=True):
        built.time[row].set_coefficient(built.x[column], part)


def gpus_of_type(built: Built, data: ShareData) -> None:
    """Use no more GPUs of type k than exist: ``C_k >= sum_s n_s x_sk``."""
    built.gpus = [
        built.model.add_linear_constraint(ub=1.0, name=f"gpus_of_type_{k}")
        for k in range(data.types)
    ]
    for k, use, x in zip(data.kind.tolist(), data.use.tolist(), built.x, strict=True):
        built.gpus[k].set_coefficient(x, use)


def needed_rate(built: Built, data: ShareData) -> None:
    """Give job j its needed rate: ``q_j v + d_j <= sum_{s with j} sum_k a_jsk x_sk``."""
    built.needs = [
        built.model.add_linear_constraint(lb=need, name=f"needed_rate_{j}")
        for j, need in zip(data.needy.tolist(), data.need.tolist(), strict=True)
    ]
    row_of_job = dict(zip(data.needy.tolist(), built.needs, strict=True))
    entries = zip(data.job.tolist(), data.column.tolist(), data.value.tolist(), strict=True)
    for j, column, value in entries:
        if j in row_of_job:
            row_of_job[j].set_coefficient(built.x[column], value)
    for row, level in zip(built.needs, data.level.tolist(), strict=True):
        row.set_coefficient(built.level, -level)


CONSTRAINTS = (share_of_time, gpus_of_type, needed_rate)


# Objective


def add_objective(built: Built, data: ShareData) -> None:
    """Maximise the total ``sum_sk g_sk x_sk``, or the level ``v`` if the programme has one."""
    objective = built.model.objective
    objective.is_maximize = True
    if data.programme.has_level:
        objective.set_linear_coefficient(built.level, 1.0)
        return
    for gain, x in zip(data.gain.tolist(), built.x, strict=True):
        objective.set_linear_coefficient(x, gain)


# Backend


def _whole(instance: Instance) -> ShareData:
    """Return the coefficients of the linear programme of an instance."""
    arrays = ShareArrays.of(instance)
    programme = (
        arrays.max_min_share()
        if instance.objective is Objective.MAX_MIN_SHARE
        else arrays.total(instance.objective)
    )
    # A job whose deadline has passed would need an infinite rate, which a row cannot hold.
    out_of_reach = 1.0 + 2.0 * programme.sets.most_of_job(programme.value).max(axis=1)
    return ShareData.of(replace(programme, need=np.minimum(programme.need, out_of_reach)))


class LpGlop(ShareSolver):
    """All share objectives by GLOP, the simplex method of OR-Tools.

    Exact up to the proof gap. The bound is recomputed from the dual values of the rows.
    """

    name, engine = "lp-glop", "glop"
    modules = MODULES
    language, form = "mathopt", ""

    def model(self, instance: Instance) -> Any:
        """Return the linear programme of an instance with its objective and variables per job.

        Raises
        ------
        UserError
            If the objective is not a single linear programme.
        """
        if instance.objective is Objective.FINISH_TIME_FAIRNESS:
            raise UserError(
                f"{instance.objective} is convex, not linear: it is solved by several linear "
                "programmes and has no single model"
            )
        if instance.objective is Objective.MAKESPAN_SHARE:
            raise UserError(
                f"{instance.objective} is not linear, so it has no linear model: solvers maximise "
                "1 / makespan instead"
            )
        self.load()
        data = _whole(instance)
        model = build(data).model
        set_unit(model, CostUnit(Fraction(data.gain_scale)))
        model.objective.is_maximize = True
        return model

    def read_back(self, instance: Instance) -> ReadBack:
        """Return the way from values of the variables of `model` to time shares of an instance.

        Values that break a rule within the tolerances of a solver are repaired.
        """
        self.load()
        data = _whole(instance)
        built = build(data)

        def solution(values: Values) -> TimeShares:
            shares = data.shares(np.asarray(values[:-1]))
            repaired = data.programme.repaired(shares, float(values[-1]) * data.level_scale)
            return ShareArrays.of(instance).solution(repaired)

        return ReadBack([*built.x, built.level], solution)

    def merged_point_of(self, programme: ShareProgramme) -> SharePoint:
        """Return GLOP's solution of a linear programme, whose shares or dual prices may be None."""
        from ortools.glop import parameters_pb2

        data = ShareData.of(programme)
        built = build(data)
        tolerances = parameters_pb2.GlopParameters(
            primal_feasibility_tolerance=1e-9, dual_feasibility_tolerance=1e-9
        )
        result = solve(built.model, "GLOP", remaining_s(), {"glop": tolerances})
        # A point returned at a limit may be infeasible; its shares are later cut to feasible ones.
        # Dual values give a valid bound even if they are not optimal.
        solution = result.solutions[0] if result.solutions else None
        shares = prices = None
        level = 0.0
        if solution is not None and solution.primal_solution is not None:
            values = solution.primal_solution.variable_values
            shares = data.shares([values[x] for x in built.x])
            level = values[built.level] * data.level_scale
        if solution is not None and solution.dual_solution is not None:
            duals = solution.dual_solution.dual_values
            prices = data.prices(
                *([duals[row] for row in rows] for rows in (built.needs, built.gpus, built.time))
            )
        statistics = result.solve_stats
        return SharePoint(shares, prices, max(0, statistics.simplex_iterations), level)
