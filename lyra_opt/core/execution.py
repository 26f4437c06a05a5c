"""Call a solver, whatever comes of it: what it returns, how it fails, what it takes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Protocol

from lyra_opt.core.errors import failure_of, show_value
from lyra_opt.core.instance_guard import InstanceGuard, PrivateCopy
from lyra_opt.core.interrupting import PATIENCE_S, CtrlC
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import is_built_in
from lyra_opt.core.stopwatch import (
    OutOfTimeError,
    Stopwatch,
    interruption_in_force,
    is_out_of_time,
)
from lyra_opt.core.trajectory import Recorder

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lyra_opt.core.problem import Problem, ProblemInstance
    from lyra_opt.core.result import Limits, Number
    from lyra_opt.core.solver import Observer, Solver
    from lyra_opt.core.stopwatch import Interruption
    from lyra_opt.core.trajectory import TrajectoryPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What came of a call: one of `skipped`, `result` and `error`.

    Parameters
    ----------
    skipped
        Why the solver does not take the instance, or cannot run here.
    result
        What it returned, not checked.
    error
        How it failed, in a line.
    traceback
        Where, or where it was when it was ended.
    wall_time_s
        Of the solver alone, None if it was not run.
    points
        Incumbents and bounds over time, where they were asked for.
    changed
        Which parts of its instance the solver has changed, as paths of fields.
    peak_memory_mib
        Of the processes that ran it, where that was watched.
    cpu_time_s
        Of the processes that ran it, those that the solver started and waited for included, where
        that was watched.
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
    """Where and how a solver is called; `execute` does it here and now."""

    def __call__(
        self,
        problem: Problem,
        instance: ProblemInstance,
        solver: Solver,
        call: Call,
    ) -> Execution:
        """Return what comes of it; raise nothing for what the solver does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What a solver is called with beside its instance; as `solve_and_check` has it."""

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

    A change of the instance is undone: solvers of the toolkit work on the instance itself, which is
    frozen, and all others on a copy of their own. `timed` is entered while it is the solver's turn,
    not while that copy is made and compared.
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
    except (Exception, SystemExit) as error:  # a solver may be anybody's
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
    except BaseException as error:  # compiled code may raise things of a kind of their own
        is_repeated = isinstance(interruption, CtrlC) and interruption.is_repeated
        if isinstance(error, KeyboardInterrupt) and (is_repeated or not interruption.is_asked):
            raise
        limit_s = call.limits.time_s
        is_over = is_out_of_time() or (limit_s is not None and stopwatch.elapsed_s >= limit_s)
        # Of a shorter limit that the solver has put in force itself, the exception is a fault.
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
    """Cut off a solver that is interrupted: one of the toolkit's, which ends itself, later."""
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
    """Return the result of a run that returns none: the best that it told of, or its start.

    Parameters
    ----------
    best
        A solution that the solver told its observer of, with its objective.
    bound
        The best dual bound that it told of.
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
    """Return an error in a line, with the traceback for whoever mends the solver."""
    return Execution(
        error=failure_of(error),
        traceback="".join(format_exception(error)),
        wall_time_s=elapsed_s,
    )
