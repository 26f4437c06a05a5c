"""The CBC and HiGHS backends for models built in PuLP, for minimisation.

CBC runs in its own process and HiGHS in this process. PuLP 3.3 reports a run that reached its time
limit as optimal, so its statuses are never read. CBC's status comes from its log, and that of HiGHS
from HiGHS itself.
"""

import math
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lyra_opt.core.result import Number, StoppedBy
from lyra_opt.core.stopwatch import (
    interruption_in_force,
    is_out_of_time,
    limits_in_force,
    remaining_s,
    require_time,
)
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.formulations.backends.backend import (
    Backend,
    BackendRun,
    Built,
    CostUnit,
    KindsT,
    NoSolutionError,
    Settings,
    Values,
    Watch,
    add_bounded,
    interruptible,
)
from lyra_opt.formulations.backends.linear import add_columns, add_rows, presolve_within
from lyra_opt.formulations.backends.rows import Row, Term

CBC_OPTIONS = (
    *("-preprocess", "off", "-ratio", "0", "-allow", "0"),
    *("-timeMode", "elapsed", "-printingOptions", "all"),
)
"""Options of CBC; pre-processing is off because it proved false optima of small network models."""
CBC_FILES = ("mps", "mst", "sol", "log")
"""Suffixes of the files for the model, the start, the solution and CBC's log."""
CBC_PATIENCE_S = 0.6
"""Seconds that CBC may run beyond its limit; then it is killed and its answer is lost.

With a limit of 0.3 s, its first linear programme has taken 7.7 s on a reclaim model of 5,000
servers.
"""
LEAST_TIME_S = 1e-3
"""The shortest time limit, in seconds, that is passed on: some solvers take 0 for no limit."""
CBC_LOWER_BOUND_ROUNDING = 0.0005  # CBC's log gives bounds with three decimals


def new_model() -> Any:
    """Return an empty model."""
    import pulp

    return pulp.LpProblem("model", pulp.LpMinimize)


def add_variable(model: Any, name: str, most: Number, is_integer: bool = True) -> Any:
    """Add a variable from 0 to `most`."""
    return model.add_variable(name, 0, most, cat="Integer" if is_integer else "Continuous")


def integers(model: Any, largest: KindsT) -> KindsT:
    """Add an integer variable from 0 to n for each value n in `largest`, a tuple of mappings."""
    return add_bounded(largest, partial(add_variable, model))


def total(variables: Iterable[Any]) -> Any:
    """Return the sum of variables."""
    import pulp

    return pulp.lpSum(variables)


def weighted(terms: Iterable[Term]) -> Any:
    """Return the sum of coefficients times variables."""
    return total(coefficient * variable for coefficient, variable in terms)


def add_row(model: Any, row: Row) -> None:
    """Add a row."""
    held = weighted(row.terms)
    model += held == row.limit if row.is_equation else held <= row.limit, row.name


def minimize(model: Any, cost: Iterable[Term]) -> None:
    """Set the cost that the model minimises."""
    model += weighted(cost)


def set_unit(model: Any, unit: CostUnit) -> None:
    """Replace the model's minimised cost by the instance's objective and its sense."""
    import pulp

    if unit.scale < 0:
        model.sense = pulp.LpMaximize
    model.setObjective(float(unit.scale) * model.objective + float(unit.offset))


def run_cbc(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run the CBC that PuLP includes; its bound and status are read from its log after the run.

    PuLP's own call is not used: it passes on the time that was left before it wrote the model, and
    then waits for CBC without a limit.

    If a limit of a few milliseconds ends a run during pre-processing, CBC 2.10 writes no result
    into its log and sometimes crashes with a segmentation fault.

    Raises
    ------
    NoSolutionError
        If the log states that the model is infeasible.
    pulp.PulpSolverError
        If CBC crashes.
    RuntimeError
        If the log ends without an optimal solution, the time limit or Ctrl-C.
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
        # With the option "-threads 1", CBC starts a second thread and sometimes waits 10 s for it.
        # CBC waited in 3 of 3,048 runs with "-threads 1", and in none of 5,074 runs without it.
        if limits_in_force().threads > 1:
            command += ["-threads", str(limits_in_force().threads)]
        latest_s = None if time_s is None else time_s + CBC_PATIENCE_S
        exit_code = _exit_code_of([*command, "-solve", "-solution", str(found)], log, latest_s)
        if exit_code == -signal.SIGSEGV and not is_out_of_time():
            # CBC 2.10 crashes when it writes no solution because it tightened bounds until none was
            # left. The log of the crashed run is lost, so the run is repeated without writing.
            exit_code = _exit_code_of([*command, "-solve"], log, latest_s)
        if exit_code is None:
            return BackendRun(stopped_by=StoppedBy.TIME)
        text = log.read_text(encoding="utf-8", errors="replace")
        if not exit_code and _is_infeasible(text):
            raise NoSolutionError("CBC proved that the model is infeasible")
        if exit_code or not found.exists():
            raise pulp.PulpSolverError(f"CBC stopped with exit code {exit_code}")
        _, values, *_ = solver.readsol_MPS(str(found), built.model, *names)
    return read_cbc_log(text, [values[variable.name] for variable in variables])


def _exit_code_of(command: Sequence[str], log: Path, latest_s: float | None) -> int | None:
    """Run CBC and return its exit code; None if it is killed after `latest_s` seconds."""
    listeners = interruption_in_force().listeners
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ) as process,
    ):
        listeners.append(partial(process.send_signal, signal.SIGINT))
        try:
            return process.wait(latest_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            listeners.pop()
            process.kill()


def _is_infeasible(text: str) -> bool:
    """Return whether CBC's log states that the model is infeasible.

    There is no result line if the relaxation is infeasible, or has no solution within its bounds.
    """
    if (result := _last(r"^Result - (.*)$", text)) is not None:
        return result == "Problem proven infeasible"
    return _last(r"^(Problem is infeasible)", text) is not None


def set_start(variables: Sequence[Any], start: Values | None) -> None:
    """Set the start values of PuLP variables, if a start solution is given."""
    if start is not None:
        for variable, value in zip(variables, start, strict=True):
            variable.setInitialValue(value)


def read_cbc_log(text: str, values: Values) -> BackendRun:
    """Return the result of a CBC run, with status and dual bound read from CBC's log.

    The optimum is "Objective value" if the result line is exactly "Optimal solution found", without
    "(within gap tolerance)". Otherwise the bound is "Lower bound", less its rounding error, because
    CBC prints three decimals.

    Parameters
    ----------
    text
        The log.
    values
        The values of the variables, as PuLP read them.

    Raises
    ------
    RuntimeError
        If the log ends without an optimal solution or the time limit.
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
    raise RuntimeError(f"CBC stopped with {result or 'no result in its log'}")


def _last(pattern: str, text: str) -> str | None:
    found: list[str] = re.findall(pattern, text, flags=re.MULTILINE)
    return found[-1].strip() if found else None


def run_highs(built: Built, start: Values | None, settings: Settings) -> BackendRun:
    """Run HiGHS on a PuLP model with a warm start, and read status and bound from HiGHS itself.

    PuLP 3.3 adds columns and rows one by one, in time quadratic in their number, and passes on no
    start. Its table of HiGHS' statuses calls a time limit optimal and is incomplete.
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
    if (left_s := remaining_s()) is not None:  # passing the model to HiGHS has taken time
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
        none = status == highspy.HighsModelStatus.kInfeasible
        failed = NoSolutionError if none else RuntimeError
        raise failed(f"HiGHS stopped with {highs.modelStatusToString(status)}")
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    found = highs.getSolution().col_value if has_solution else None
    return BackendRun(
        values=None if found is None else [found[variable.index] for variable in variables],
        bound=info.mip_dual_bound,
        stopped_by=StoppedBy.TIME if limited else None,
        counters={"nodes": max(0, info.mip_node_count)},
    )


def _highs_model(model: Any) -> Any:
    """Return a HiGHS copy of a PuLP model.

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
    """Report HiGHS' solutions when it finds them, and its bounds whenever it logs them."""

    def found(event: Any) -> None:
        values = event.data_out.mip_solution
        watch.found([values[column] for column in columns])
        watch.bounded(event.data_out.mip_dual_bound)

    highs.cbMipImprovingSolution.subscribe(found)
    highs.cbMipLogging.subscribe(lambda event: watch.bounded(event.data_out.mip_dual_bound))


@contextmanager
def _threads_of_highs(threads: int) -> Iterator[None]:
    """Let HiGHS use `threads` threads for one run.

    The first HiGHS run in a process fixes the number of threads for later runs, which fail with any
    other number until HiGHS' scheduler is reset. All other HiGHS runs of the toolkit use one
    thread.
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
    add_variable=add_variable,
    add_row=add_row,
    minimize=minimize,
    run=run_cbc,
    in_floats=True,
    modules=("pulp",),
    is_parallel=True,
    language="pulp",
    set_unit=set_unit,
)
HIGHS = replace(CBC, name="pulp-highs", run=run_highs, modules=("pulp", "highspy"))
