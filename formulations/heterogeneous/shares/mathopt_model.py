"""The linear programmes over shares of time in MathOpt of OR-Tools, solved by GLOP."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.core.stopwatch import remaining_s
from lyra_opt.formulations.backends.backend import CostUnit, Values
from lyra_opt.formulations.backends.mathopt import MODULES, set_unit, solve
from lyra_opt.formulations.exact_model import ReadBack
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.data import CONSTRAINTS, ShareData, gain
from lyra_opt.heterogeneous.exact.shares.programme import ShareProgramme
from lyra_opt.heterogeneous.exact.shares.solver import SharePoint, ShareSolver
from lyra_opt.heterogeneous.instance import Instance, Objective, TimeShares


@dataclass(frozen=True, slots=True)
class Built:
    """A MathOpt model of time shares, with its variables and its rows."""

    model: Any
    variables: list[Any]
    rows: list[Any]


def build(data: ShareData) -> Built:
    """Build the MathOpt model of a share programme: its variables, constraints and objective."""
    from ortools.math_opt.python import mathopt

    model = mathopt.Model(name="shares")
    added: list[Any] = []
    columns = zip(data.set_.tolist(), data.kind.tolist(), strict=True)
    variables = [model.add_variable(lb=0.0, name=f"x_{s}_{k}") for s, k in columns]
    bounds = {} if data.programme.has_level else {"lb": 0.0, "ub": 0.0}
    variables.append(model.add_variable(name="v", **bounds))
    for constraint in CONSTRAINTS:
        rows = constraint(data)
        first = len(added)
        for label, lower, upper in zip(rows.labels, rows.lower, rows.upper, strict=True):
            name = f"{rows.name}_{label}"
            added.append(model.add_linear_constraint(lb=lower, ub=upper, name=name))
        for row, column, value in zip(rows.row, rows.column, rows.value, strict=True):
            added[first + row].set_coefficient(variables[column], value)
    model.objective.is_maximize = True
    for variable, each in zip(variables, gain(data), strict=True):
        model.objective.set_linear_coefficient(variable, each)
    return Built(model, variables, added)


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

        return ReadBack(built.variables, solution)

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
            found = solution.primal_solution.variable_values
            *values, scaled_level = (found[x] for x in built.variables)
            shares, level = data.shares(values), scaled_level * data.level_scale
        if solution is not None and solution.dual_solution is not None:
            duals = solution.dual_solution.dual_values
            prices = data.prices([duals[row] for row in built.rows])
        statistics = result.solve_stats
        return SharePoint(shares, prices, max(0, statistics.simplex_iterations), level)
