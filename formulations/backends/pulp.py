"""CBC (a process of its own) and HiGHS (in this process), for minimisations built in PuLP.

PuLP 3.3 calls a run that its time limit ended optimal, so its statuses are never read: CBC's
come from its log, those of HiGHS from HiGHS itself.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.isolation.memory import family
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import interruption_in_force, is_out_of_time, remaining_s
from lyra_opt.formulations.backends.backend import Backend, BackendRun, added
from lyra_opt.formulations.backends.native import interruptible

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

CBC_OPTIONS = ("preprocess off",)
"""CBC 2.10 has proved false optima of small models of gangs in a network, by its pre-processing."""
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

    variables, time_s = built.in_order, settings.time_s
    set_start(variables, start)
    with tempfile.TemporaryDirectory(prefix="lyra-opt-cbc-") as directory:
        log = Path(directory) / "cbc.log"
        solver = pulp.PULP_CBC_CMD(
            msg=False,
            warmStart=start is not None,
            timeLimit=time_s,
            timeMode="elapsed",
            gapRel=0,
            gapAbs=0,
            # With "threads 1" CBC starts a thread beside its own, and about once in 1,000 runs it
            # waits for 10 s: 3 of 3,048 runs, none of 5,074 without the option.
            threads=settings.threads if settings.threads > 1 else None,
            options=[f"randomCbcSeed {settings.seed}", *CBC_OPTIONS],
            logPath=str(log),
            _skip_v4_deprecation=True,
        )
        solver.tmpDir = directory
        listeners = interruption_in_force().listeners
        listeners.append(partial(_signal_cbc, directory, signal.SIGINT))
        try:
            built.model.solve(solver)
        except KeyboardInterrupt:
            _signal_cbc(directory, signal.SIGKILL)
            raise
        finally:
            listeners.pop()
        text = log.read_text(encoding="utf-8", errors="replace")
    return read_cbc_log(text, [variable.value() for variable in variables])


def _signal_cbc(directory: str, number: signal.Signals) -> None:
    """Send a signal to the CBC whose files are in a folder."""
    for process in list(family(os.getpid()))[1:]:
        with suppress(OSError):
            if directory in Path(f"/proc/{process}/cmdline").read_text(errors="replace"):
                os.kill(process, number)


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
    """Run HiGHS through PuLP's own steps, with a start and with HiGHS' own status and bound.

    PuLP 3.3 passes no start on, and the last of its steps reads the status from a table that
    calls a time limit optimal and lacks some of the others.
    """
    import highspy
    import pulp

    model = built.model
    solver = pulp.HiGHS(
        msg=False,
        timeLimit=settings.time_s,
        gapRel=0.0,
        gapAbs=0.0,
        threads=settings.threads,
        random_seed=settings.seed,
    )
    solver.createAndConfigureSolver(model)
    solver.buildSolverModel(model)
    highs = model.solverModel
    variables = built.in_order
    if start is not None:
        solution = highspy.HighsSolution()
        column_values = [0.0] * len(model.variables())
        for variable, value in zip(variables, start, strict=True):
            column_values[variable.index] = float(value)
        solution.col_value = column_values
        highs.setSolution(solution)
    if settings.watch is not None:
        _watch_highs(highs, [variable.index for variable in variables], settings.watch)
    highs.HandleUserInterrupt = True
    if (left_s := remaining_s()) is not None:  # handing the model over has taken its part
        highs.setOptionValue("time_limit", max(left_s, LEAST_TIME_S))

    def run() -> None:
        with _threads_of_highs(settings.threads):
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
