"""CBC (a process of its own) and HiGHS (in this process), for minimisations built in PuLP.

PuLP 3.3 calls a run that its time limit ended optimal, so its statuses are never read: CBC's
come from its log, those of HiGHS from HiGHS itself.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from formulations.exact_solver import BackendRun
from lyra_opt.core.result import StoppedBy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formulations.exact_solver import BuiltModel, StartValues

CBC_LOWER_BOUND_ROUNDING = 0.0005  # its log gives three decimals


def run_cbc(built: BuiltModel, start: StartValues, time_s: float | None, seed: int) -> BackendRun:
    """Run the CBC that PuLP brings; bound and status are read from its log.

    CBC 2.10 now and then crashes (segmentation fault, nothing in its log) where a limit of a
    few milliseconds ends within its pre-processing. A crash after the limit is therefore a run
    that its limit ended and that found nothing; one before the limit is an error.

    Raises
    ------
    pulp.PulpSolverError
        If CBC crashes within its limit, or without one.
    RuntimeError
        If its log ends in anything but an optimal solution or the time limit.
    """
    import pulp

    for variable, value in zip(built.hinted, start.values, strict=True):
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
        begun_s = time.perf_counter()
        try:
            built.model.solve(solver)
        except pulp.PulpSolverError:
            if time_s is None or time.perf_counter() - begun_s < time_s:
                raise
            return BackendRun(values=None, stopped_by=StoppedBy.TIME)
        text = log.read_text(encoding="utf-8", errors="replace")
    return read_cbc_log(
        text, [variable.value() for variable in built.decisions], is_limited=time_s is not None
    )


def read_cbc_log(text: str, values: Sequence[float], *, is_limited: bool = False) -> BackendRun:
    """Return what CBC's log says of a minimisation that has a solution.

    "Objective value" is the optimum where the result is "Optimal solution found" without "(within
    gap tolerance)"; else "Lower bound" counts, rounded to three decimals as it is.

    Parameters
    ----------
    text
        The log.
    values
        Of the decisions, as PuLP read them.
    is_limited
        Whether the run had a time limit: one that ends within pre-processing leaves no result.

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
    if result is None and is_limited:
        return BackendRun(values=None, stopped_by=StoppedBy.TIME, counters=counters)
    raise RuntimeError(f"CBC ended with {result or 'no result in its log'}")


def _last(pattern: str, text: str) -> str | None:
    found: list[str] = re.findall(pattern, text, flags=re.MULTILINE)
    return found[-1].strip() if found else None


def run_highs(built: BuiltModel, start: StartValues, time_s: float | None, seed: int) -> BackendRun:
    """Run HiGHS through PuLP's own steps, with a start and with HiGHS' own status and bound.

    PuLP 3.3 passes no start on, and the last of its steps reads the status from a table that
    calls a time limit optimal and lacks some of the others.
    """
    import highspy
    import pulp

    model = built.model
    solver = pulp.HiGHS(
        msg=False, timeLimit=time_s, gapRel=0.0, gapAbs=0.0, threads=1, random_seed=seed
    )
    solver.createAndConfigureSolver(model)
    solver.buildSolverModel(model)
    highs = model.solverModel
    solution = highspy.HighsSolution()
    column_values = [0.0] * len(model.variables())
    for variable, value in zip(built.hinted, start.values, strict=True):
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
        values=None if found is None else [found[variable.index] for variable in built.decisions],
        bound=info.mip_dual_bound,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"nodes": max(0, info.mip_node_count)},
    )
