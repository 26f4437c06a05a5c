"""Reclaiming in PuLP, solved by CBC (a process of its own) or by HiGHS (in this process).

Twin of ``cpsat_model.py`` and ``mathopt_model.py``: the same constraints by the same names in
the same order. Symbols: see the README beside this file.

PuLP 3.3 calls a run that its time limit ended optimal, so its statuses are never read: CBC's
come from its log, those of HiGHS from HiGHS itself.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formulations.exact_solver import BackendRun
from formulations.reclaim.model_data import Built, Variables, plain, strengthened
from formulations.reclaim.model_solver import ReclaimModelSolver, float_limits
from lyra_opt.result import StoppedBy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.reclaim.model_data import ReclaimModel, Start

CBC_LOWER_BOUND_ROUNDING = 0.0005  # its log gives three decimals


def build(data: ReclaimModel) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    import pulp

    model = pulp.LpProblem("reclaim", pulp.LpMinimize)
    variables = add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data, variables)
    add_objective(model, data, variables)
    return Built(model, variables)


# Variables


def add_variables(model: Any, data: ReclaimModel) -> Variables:
    """``x_s in {0, 1}`` for each server s; ``y_j in {0, 1}`` for each job j."""
    return Variables(
        x=[model.add_variable(f"x_{s}", cat="Binary") for s in range(len(data.positions))],
        y=[model.add_variable(f"y_{j}", cat="Binary") for j in range(len(data.jobs))],
    )


# Constraints


def reclaim_count(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``N_R = sum_s x_s``."""
    import pulp

    model += pulp.lpSum(variables.x) == data.reclaim_servers, "reclaim_count"


def preempting_servers(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``y_j >= x_s`` for each job j and each server s whose choice alone preempts j."""
    for j, s in data.preempting:
        model += variables.y[j] >= variables.x[s], f"preempting_servers_{j}_{s}"


def loss_thresholds(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``b_j + (n_j - b_j) y_j >= sum_s n_js x_s`` for each job j with a threshold."""
    import pulp

    for j in data.thresholds:
        job = data.jobs[j]
        losses = pulp.lpSum(count * variables.x[s] for s, count in job.losses)
        largest_excess = job.all_losses - job.slack
        model += (
            job.slack + largest_excess * variables.y[j] >= losses,
            f"loss_thresholds_{j}",
        )


def server_dominance(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """``x_s >= x_t`` for each pair (s, t) in which s dominates t."""
    for s, t in data.dominance:
        model += variables.x[s] >= variables.x[t], f"server_dominance_{s}_{t}"


CONSTRAINTS = (reclaim_count, preempting_servers, loss_thresholds, server_dominance)


# Objective


def add_objective(model: Any, data: ReclaimModel, variables: Variables) -> None:
    """Minimise ``sum_s c_s x_s + sum_j w_j y_j``."""
    import pulp

    model += pulp.lpSum(
        cost * x for cost, x in zip(data.server_cost, variables.x, strict=True)
    ) + pulp.lpSum(job.weight * y for job, y in zip(data.jobs, variables.y, strict=True))


# Backends


def run_cbc(built: Built, start: Start, time_s: float | None, seed: int) -> BackendRun:
    """Run the CBC that PuLP brings; bound and status are read from its log."""
    import pulp

    variables = built.variables
    for variable, value in zip((*variables.x, *variables.y), (*start.x, *start.y), strict=True):
        variable.setInitialValue(value)
    with tempfile.TemporaryDirectory(prefix="lyra-opt-cbc-") as directory:
        log = Path(directory) / "cbc.log"
        solver = pulp.PULP_CBC_CMD(
            msg=False,
            warmStart=True,
            timeLimit=time_s,
            timeMode="elapsed",
            gapRel=0,
            gapAbs=0,
            threads=1,
            options=[f"randomCbcSeed {seed}"],
            logPath=str(log),
            _skip_v4_deprecation=True,
        )
        solver.tmpDir = directory
        built.model.solve(solver)
        text = log.read_text(encoding="utf-8", errors="replace")
    return read_cbc_log(text, [variable.value() for variable in variables.x])


def read_cbc_log(text: str, values: Sequence[float]) -> BackendRun:
    """Return what CBC's log says of a minimisation that has a solution.

    "Objective value" is the optimum where the result is "Optimal solution found" without "(within
    gap tolerance)"; else "Lower bound" counts, rounded to three decimals as it is.

    Raises
    ------
    RuntimeError
        If the log ends in anything but an optimal solution or the time limit.
    """
    result = _last(r"^Result - (.*)$", text)
    counters = {}
    if (nodes := _last(r"^Enumerated nodes:\s+(\d+)", text)) is not None:
        counters["nodes"] = int(nodes)
    if result == "Optimal solution found":
        optimum = _last(r"^Objective value:\s+(\S+)", text)
        return BackendRun(
            values=values, bound=None if optimum is None else float(optimum), counters=counters
        )
    if result == "Stopped on time limit":
        bound = _last(r"^Lower bound:\s+(\S+)", text)
        return BackendRun(
            values=None if "No feasible solution found" in text else values,
            bound=None if bound is None else float(bound) - CBC_LOWER_BOUND_ROUNDING,
            stopped_by=StoppedBy.TIME,
            counters=counters,
        )
    raise RuntimeError(f"CBC ended with {result or 'no result in its log'}")


def _last(pattern: str, text: str) -> str | None:
    found: list[str] = re.findall(pattern, text, flags=re.MULTILINE)
    return found[-1].strip() if found else None


def run_highs(built: Built, start: Start, time_s: float | None, seed: int) -> BackendRun:
    """Run HiGHS through PuLP's own steps, with a start and with HiGHS' own status and bound.

    PuLP 3.3 passes no start on, and the last of its steps reads the status from a table that
    calls a time limit optimal and lacks some of the others.
    """
    import highspy
    import pulp

    model, variables = built.model, built.variables
    solver = pulp.HiGHS(
        msg=False, timeLimit=time_s, gapRel=0.0, gapAbs=0.0, threads=1, random_seed=seed
    )
    solver.createAndConfigureSolver(model)
    solver.buildSolverModel(model)
    highs = model.solverModel
    solution = highspy.HighsSolution()
    column_values = [0.0] * len(model.variables())
    for variable, value in zip((*variables.x, *variables.y), (*start.x, *start.y), strict=True):
        column_values[variable.index] = float(value)
    solution.col_value = column_values
    highs.setSolution(solution)
    highs.run()

    status, info = highs.getModelStatus(), highs.getInfo()
    limited = status == highspy.HighsModelStatus.kTimeLimit
    if not limited and status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS ended with {highs.modelStatusToString(status)}")
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    found = highs.getSolution().col_value if has_solution else None
    return BackendRun(
        values=None if found is None else [found[x.index] for x in variables.x],
        bound=info.mip_dual_bound,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"nodes": max(0, info.mip_node_count)},
    )


PULP_CBC = ReclaimModelSolver(
    name="pulp-cbc",
    form=plain,
    build=build,
    run=run_cbc,
    limits_of_arithmetic=float_limits,
    modules=("pulp",),
)
PULP_CBC_STRENGTHENED = replace(PULP_CBC, name="pulp-cbc-strengthened", form=strengthened)
PULP_HIGHS = replace(PULP_CBC, name="pulp-highs", run=run_highs, modules=("pulp", "highspy"))
PULP_HIGHS_STRENGTHENED = replace(PULP_HIGHS, name="pulp-highs-strengthened", form=strengthened)
