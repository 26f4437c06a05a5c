"""Call one solver and record the outcome: a result, an error or a skip, with time and memory."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from traceback import format_exception
from typing import Any, Protocol

from lyra_opt.core.errors import failure_of, show_value
from lyra_opt.core.instance_guard import InstanceGuard, PrivateCopy
from lyra_opt.core.interrupting import PATIENCE_S, CtrlC
from lyra_opt.core.problem import Problem, ProblemInstance
from lyra_opt.core.result import Limits, Number, SolveResult, Status, StoppedBy
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import Observer, Solver, is_built_in
from lyra_opt.core.stopwatch import (
    Interruption,
    OutOfTimeError,
    Stopwatch,
    interruption_in_force,
    is_out_of_time,
)
from lyra_opt.core.trajectory import Recorder, TrajectoryPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The outcome of one call of a solver: exactly one of `skipped`, `result` and `error` is set.

    Parameters
    ----------
    skipped
        The reason why the solver does not support the instance, or is not available.
    result
        The result that the solver returned, not checked.
    error
        The error, in one line.
    traceback
        The traceback of the error, or the stack of a solver that was killed.
    wall_time_s
        The time of the solver alone, in seconds; None if the solver was not called.
    points
        Incumbents and bounds over time, if they were recorded.
    changed
        The parts of the instance that the solver changed, as paths of fields.
    peak_memory_mib
        The peak memory of the processes of the run, in MiB, if it was measured.
    cpu_time_s
        The CPU time of the processes of the run, in seconds, if it was measured. It includes the
        processes that the solver started and waited for.
    """

    skipped: str | None = None
    result: SolveResult[Any] | None = None
    error: str | None = None
    traceback: str | None = None
    wall_time_s: float | None = None
    points: tuple[TrajectoryPoint, ...] | None = None
    changed: tuple[str, ...] = ()
    peak_memory_mib: float | None = None
    cpu_time_s: float | None = None


class Executor(Protocol):
    """The interface for calling a solver, either in this process or in a child process."""

    def __call__(
        self, problem: Problem, instance: ProblemInstance, solver: Solver, call: "Call"
    ) -> Execution:
        """Return the outcome of the call; errors of the solver are returned, not raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a solver call other than the instance, such as limits and random seed."""

    limits: Limits
    seed: int = 0
    warm_start: Any = None
    observer: Observer | None = None
    records: bool = False


def execute(
    problem: Problem,
    instance: ProblemInstance,
    solver: Solver,
    call: Call,
    *,
    timed: AbstractContextManager[object] | None = None,
) -> Execution:
    """Call a solver in this process.

    A solver of the toolkit works on the instance itself; any other solver works on a copy. Changes
    to the instance are detected and undone. `timed` is entered only while the solver itself runs,
    not while the copy is made and compared.
    """
    given = InstanceGuard(instance) if is_built_in(solver) else PrivateCopy(problem, instance)
    try:
        with timed or nullcontext():
            execution = _executed(problem, given.instance, solver, call)
    finally:
        changed = given.restore()
    return replace(execution, changed=tuple(changed)) if changed else execution


def _executed(problem: Problem, given: Any, solver: Solver, call: Call) -> Execution:
    try:
        skip = solver.availability() or solver.supports(given)
    except (Exception, SystemExit) as error:  # a solver of the user may raise anything
        return failed(error)
    if skip is not None:
        return Execution(skipped=skip.reason)
    interruption = interruption_in_force()
    rng = generator(problem=problem.name, instance=given.name, solver=solver.name, seed=call.seed)
    stopwatch = Stopwatch()
    recorder = Recorder(given.variant, stopwatch, call.observer) if call.records else None
    try:
        with _cutting_off(interruption, solver):
            result = solver.solve(
                given,
                limits=call.limits,
                rng=rng,
                warm_start=call.warm_start,
                observer=recorder or call.observer,
            )
    except BaseException as error:  # compiled code may raise its own exception types
        is_repeated = isinstance(interruption, CtrlC) and interruption.is_repeated
        if isinstance(error, KeyboardInterrupt) and (is_repeated or not interruption.is_asked):
            raise
        limit_s = call.limits.time_s
        is_over = is_out_of_time() or (limit_s is not None and stopwatch.elapsed_s >= limit_s)
        # If time is left, the exception comes from a limit that the solver has set itself. The
        # solver has then failed.
        if not interruption.is_asked and not (is_over and isinstance(error, OutOfTimeError)):
            return failed(error, stopwatch.elapsed_s)
        best, bound = (None, None) if recorder is None else (recorder.best, recorder.bound)
        result = told_result(problem, given, call, best, bound, StoppedBy.TIME)
    elapsed_s = stopwatch.elapsed_s
    if not isinstance(result, SolveResult):
        message = f"the solver must return a SolveResult, not {show_value(result)}"
        return Execution(error=message, wall_time_s=elapsed_s)
    if interruption.is_asked:
        result = replace(result, stopped_by=StoppedBy.INTERRUPT)
    points = None if recorder is None else recorder.points
    return Execution(result=result, wall_time_s=elapsed_s, points=points)


def _cutting_off(interruption: Interruption, solver: Solver) -> AbstractContextManager[None]:
    """Interrupt a solver on Ctrl-C; a solver of the toolkit first gets time to stop by itself."""
    if not isinstance(interruption, CtrlC):
        return nullcontext()
    return interruption.cutting_off(PATIENCE_S if is_built_in(solver) else 0.0)


def told_result(
    problem: Problem,
    instance: ProblemInstance,
    call: Call,
    best: tuple[Any, Number] | None,
    bound: Number | None,
    stopped_by: StoppedBy | None,
    message: str | None = None,
) -> SolveResult[Any]:
    """Return an unfinished run's best reported solution, or a better warm start, as its result.

    Parameters
    ----------
    best
        The best solution that the solver reported to its observer, with its objective.
    bound
        The best dual bound that the solver reported.
    """
    if call.warm_start is not None:
        objective = problem.check(instance, call.warm_start).objective
        if objective is not None and (
            best is None or not instance.variant.is_better(best[1], objective)
        ):
            best = call.warm_start, objective
    return SolveResult(
        status=Status.UNKNOWN if best is None else Status.FEASIBLE,
        stopped_by=stopped_by,
        solution=None if best is None else best[0],
        objective=None if best is None else best[1],
        dual_bound=bound,
        message=message,
    )


def failed(error: BaseException, elapsed_s: float | None = None) -> Execution:
    """Return the outcome of a call that raised an error, with its traceback."""
    return Execution(
        error=failure_of(error), traceback="".join(format_exception(error)), wall_time_s=elapsed_s
    )
