"""Call a solver, whatever comes of it: what it returns, how it fails, what it takes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Protocol

from lyra_opt.core.errors import failure_of, show_value
from lyra_opt.core.instance_guard import InstanceGuard, PrivateCopy
from lyra_opt.core.result import SolveResult
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import is_own
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.core.trajectory import Recorder

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.problem import Problem
    from lyra_opt.core.result import Limits
    from lyra_opt.core.solver import Observer, Solver
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
    given = InstanceGuard(instance) if is_own(solver) else PrivateCopy(problem, instance)
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
    rng = generator(problem=problem.name, instance=given.name, solver=solver.name, seed=call.seed)
    stopwatch = Stopwatch()
    recorder = Recorder(given.variant, stopwatch, call.observer) if call.records else None
    try:
        result = solver.solve(
            given,
            limits=call.limits,
            rng=rng,
            warm_start=call.warm_start,
            observer=recorder or call.observer,
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # compiled code may raise things of a kind of their own
        return failed(error, stopwatch.elapsed_s)
    elapsed_s = stopwatch.elapsed_s
    if not isinstance(result, SolveResult):
        message = f"the solver returned {show_value(result)}, which is no SolveResult"
        return Execution(error=message, wall_time_s=elapsed_s)
    points = None if recorder is None else recorder.points
    return Execution(result=result, wall_time_s=elapsed_s, points=points)


def failed(error: BaseException, elapsed_s: float | None = None) -> Execution:
    """Return an error in a line, with the traceback for whoever mends the solver."""
    return Execution(
        error=failure_of(error),
        traceback="".join(format_exception(error)),
        wall_time_s=elapsed_s,
    )
