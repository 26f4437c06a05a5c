"""CBC (a process of its own) and HiGHS (in this process), for minimisations built in PuLP.

PuLP 3.3 calls a run that its time limit ended optimal, so its statuses are never read: CBC's
come from its log, those of HiGHS from HiGHS itself.
"""

from __future__ import annotations

import math
import re
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import (
    interruption_in_force,
    is_out_of_time,
    limits_in_force,
    remaining_s,
    require_time,
)
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.formulations.backends.backend import Backend, BackendRun, added, interruptible
from lyra_opt.formulations.backends.linear import add_columns, add_rows, presolve_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lyra_opt.core.result import Number
    from lyra_opt.formulations.backends.backend import (
        Built,
        CostUnit,
        KindsT,
        Settings,
        Values,
        Watch,
    )

CBC_OPTIONS = (
    *("-preprocess", "off", "-ratio", "0", "-allow", "0"),
    *("-timeMode", "elapsed", "-printingOptions", "all"),
)
"""CBC 2.10 has proved false optima of small models of gangs in a network, by its pre-processing."""
CBC_FILES = ("mps", "mst", "sol", "log")
"""The model, the start, the solution and what CBC prints, in one folder."""
CBC_PATIENCE_S = 0.6
"""How long after its limit CBC may still run; then it is killed, and its answer is lost.

With a limit of 0.3 s its first linear programme has taken 7.7 s, on a reclaim model of 5,000
servers.
"""
LEAST_TIME_S = 1e-3
"""A limit of 0 would mean another thing to some solvers."""
CBC_LOWER_BOUND_ROUNDING = 0.0005  # its log gives three decimals


def new_model() -> Any:
    """Return an empty model."""
    import pulp

    return pulp.LpProblem("model", pulp.LpMinimize)


def integers(model: Any, largest: KindsT) -> KindsT:
    """Add integer variables from 0 to what `largest`, a named tuple of mappings, says."""
    return added(largest, lambda name, most: model.add_variable(name, 0, most, cat="Integer"))


def total(variables: Iterable[Any]) -> Any:
    """Return their sum."""
    import pulp

    return pulp.lpSum(variables)


def weighted(terms: Iterable[tuple[Number, Any]]) -> Any:
    """Return the sum of coefficients times variables."""
    return total(coefficient * variable for coefficient, variable in terms)


def set_unit(model: Any, unit: CostUnit) -> None:
    """Put the instance's objective in the place of the cost."""
    import pulp

    if unit.scale < 0:
        model.sense = pulp.LpMaximize
    model.setObjective(float(unit.scale) * model.objective + float(unit.offset))


def run_cbc(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run the CBC that PuLP brings; bound and status are read from its log, once it is done.

    PuLP's own call passes on the limit that was left before it wrote the model, and then waits for
    ever.

    Where a limit of a few milliseconds ends within its pre-processing, CBC 2.10 writes no result
    into its log, and now and then crashes (segmentation fault).

    Raises
    ------
    pulp.PulpSolverError
        If CBC crashes.
    RuntimeError
        If its log ends in anything but an optimal solution, the time limit or Ctrl-C.
    """
    import pulp

    variables, solver = built.in_order, pulp.PULP_CBC_CMD(msg=False, _skip_v4_deprecation=True)
    set_start(variables, start)
    with TemporaryFolder() as directory:
        mps, begin, found, log = (directory / f"model.{kind}" for kind in CBC_FILES)
        *names, _ = built.model.writeMPS(str(mps), rename=1)
        command = [solver.path, str(mps)]
        if start is not None:
            solver.writesol(str(begin), built.model, *names)
            command += ["-mips", str(begin)]
        require_time()
        if (time_s := remaining_s()) is not None:
            command += ["-sec", str(time_s)]
        command += ["-randomCbcSeed", str(settings.seed), *CBC_OPTIONS]
        # With "-threads 1" CBC starts a thread beside its own, and about once in 1,000 runs it
        # waits for 10 s: 3 of 3,048 runs, none of 5,074 without the option.
        if limits_in_force().threads > 1:
            command += ["-threads", str(limits_in_force().threads)]
        command += ["-solve", "-solution", str(found)]
        latest_s = None if time_s is None else time_s + CBC_PATIENCE_S
        listeners = interruption_in_force().listeners
        with (
            log.open("wb") as output,
            subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            ) as process,
        ):
            listeners.append(partial(process.send_signal, signal.SIGINT))
            try:
                exit_code = process.wait(latest_s)
            except subprocess.TimeoutExpired:
                return BackendRun(stopped_by=StoppedBy.TIME)
            finally:
                listeners.pop()
                process.kill()
        if exit_code or not found.exists():
            raise pulp.PulpSolverError(f"CBC ended with exit code {exit_code}")
        _, values, *_ = solver.readsol_MPS(str(found), built.model, *names)
        text = log.read_text(encoding="utf-8", errors="replace")
    return read_cbc_log(text, [values[variable.name] for variable in variables])


def set_start(variables: Sequence[Any], start: Values | None) -> None:
    """Say from which values a run may begin."""
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            variable.setInitialValue(value)


def read_cbc_log(text: str, values: Values) -> BackendRun:
    """Return what CBC's log says of a minimisation that has a solution.

    "Objective value" is the optimum where the result is "Optimal solution found" without "(within
    gap tolerance)"; else "Lower bound" counts, rounded to three decimals as it is.

    Parameters
    ----------
    text
        The log.
    values
        Of the variables, as PuLP read them.

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
    if result == "Stopped on time limit" or "user ctrl-c" in (result or ""):
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


def run_highs(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run HiGHS on PuLP's model, with a start and with HiGHS' own status and bound.

    PuLP 3.3 would add each column and row by itself, in a time that grows with the square of their
    number, and passes no start on. The status is not read by PuLP, whose table calls a time limit
    optimal and lacks some of the others.
    """
    import highspy

    highs = _highs_model(built.model)
    for option, value in (
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.0),
        ("threads", limits_in_force().threads),
        ("random_seed", settings.seed),
    ):
        highs.setOptionValue(option, value)
    variables = built.in_order
    if start is not None:
        solution = highspy.HighsSolution()
        column_values = [0.0] * len(built.model.variables())
        for variable, value in zip(variables, start, strict=True):
            column_values[variable.index] = float(value)
        solution.col_value = column_values
        highs.setSolution(solution)
    if settings.watch is not None:
        _watch_highs(highs, [variable.index for variable in variables], settings.watch)
    highs.HandleUserInterrupt = True
    highs.setOptionValue("presolve", presolve_within(remaining_s(), len(variables)))
    if (left_s := remaining_s()) is not None:  # handing the model over has taken its part
        highs.setOptionValue("time_limit", max(left_s, LEAST_TIME_S))

    def run() -> None:
        with _threads_of_highs(limits_in_force().threads):
            highs.run()

    interruptible(run, highs.cancelSolve)

    status, info = highs.getModelStatus(), highs.getInfo()
    limited = status == highspy.HighsModelStatus.kTimeLimit or (
        status == highspy.HighsModelStatus.kInterrupt and is_out_of_time()
    )
    if not limited and status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS ended with {highs.modelStatusToString(status)}")
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    found = highs.getSolution().col_value if has_solution else None
    return BackendRun(
        values=None if found is None else [found[variable.index] for variable in variables],
        bound=info.mip_dual_bound,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"nodes": max(0, info.mip_node_count)},
    )


def _highs_model(model: Any) -> Any:
    """Return PuLP's model in HiGHS.

    Raises
    ------
    OutOfTimeError
        If the time limit in force is used up.
    """
    import highspy

    highs, variables = highspy.Highs(), model.variables()
    highs.silent()
    for index, variable in enumerate(variables):
        variable.index = index
    add_columns(
        highs,
        [model.objective.get(variable, 0.0) for variable in variables],
        [variable.lowBound for variable in variables],
        [variable.upBound for variable in variables],
    )
    size = len(variables)
    kinds = highspy.HighsVarType
    kind_of = {"Integer": kinds.kInteger.value, "Continuous": kinds.kContinuous.value}
    integrality = np.array([kind_of[variable.cat] for variable in variables], np.uint8)
    highs.changeColsIntegrality(size, np.arange(size, dtype=np.int32), integrality)
    rows = list(model.constraints())
    add_rows(
        highs,
        (((coefficient, x.index) for x, coefficient in row.items() if coefficient) for row in rows),
        [-math.inf if row.getLb() is None else row.getLb() for row in rows],
        [math.inf if row.getUb() is None else row.getUb() for row in rows],
    )
    return highs


def _watch_highs(highs: Any, columns: Sequence[int], watch: Watch) -> None:
    """Tell of solutions when HiGHS finds them, and of bounds then and when it would log them."""

    def found(event: Any) -> None:
        values = event.data_out.mip_solution
        watch.found([values[column] for column in columns])
        watch.bounded(event.data_out.mip_dual_bound)

    highs.cbMipImprovingSolution.subscribe(found)
    highs.cbMipLogging.subscribe(lambda event: watch.bounded(event.data_out.mip_dual_bound))


@contextmanager
def _threads_of_highs(threads: int) -> Iterator[None]:
    """Let HiGHS have so many threads for a run.

    The first run of a process sets their number for all that come, which fail with another one,
    until its scheduler is reset. All of the toolkit's but these have one thread.
    """
    import highspy

    if threads == 1:
        yield
        return
    highspy.Highs.resetGlobalScheduler(True)
    try:
        yield
    finally:
        highspy.Highs.resetGlobalScheduler(True)


CBC = Backend(
    name="pulp-cbc",
    new_model=new_model,
    run=run_cbc,
    in_floats=True,
    modules=("pulp",),
    is_parallel=True,
    language="pulp",
    set_unit=set_unit,
)
HIGHS = replace(CBC, name="pulp-highs", run=run_highs, modules=("pulp", "highspy"))
