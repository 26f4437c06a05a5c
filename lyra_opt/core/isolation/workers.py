"""Call solvers in child processes, which are killed if a solver exceeds its limits."""

import os
import pickle
import signal
import time
from dataclasses import replace
from resource import struct_rusage
from typing import Any, Self

from lyra_opt.core.execution import Call, Execution, failed, told_result
from lyra_opt.core.interrupting import PATIENCE_S
from lyra_opt.core.isolation.child import Child, ChildDiedError
from lyra_opt.core.isolation.memory import Family
from lyra_opt.core.isolation.server import Request, Server, Told, Turn
from lyra_opt.core.problem import Problem, ProblemInstance
from lyra_opt.core.result import Number, StoppedBy
from lyra_opt.core.solver import Solver, is_built_in, is_registered
from lyra_opt.core.stopwatch import interruption_in_force
from lyra_opt.core.trajectory import TrajectoryPoint, is_improvement

LEAST_GRACE_S = 1.0
RELATIVE_GRACE = 0.1
"""A solver is killed this long after its time limit: the longer of 1 s and a tenth of the limit."""

SECONDS_BETWEEN_LOOKS = 0.05
"""Seconds between checks of the memory and time of a running solver."""

MOST_LAST_WORDS = 1_000
"""The most messages that are read from a child before it is killed; a pipe never holds more."""


def grace_s(time_s: float) -> float:
    """Return how many seconds after its time limit a solver is killed."""
    return max(LEAST_GRACE_S, RELATIVE_GRACE * time_s)


class IsolatedCall:
    """The state of one solver call in a child process."""

    def __init__(self, problem: Problem, instance: ProblemInstance, call: Call) -> None:
        self._problem, self._instance, self._call = problem, instance, call
        self.execution: Execution | None = None
        self.stopped_by: StoppedBy | None = None
        self.next_look_s = 0.0  # as `time.monotonic` counts
        self._turn = Turn("nobody")
        self._since_s = 0.0
        self._spent_s = 0.0
        self._cpu_before_s: float | None = None
        self._allowed_mib = 0.0  # memory at the start of the solver, and of packages loaded since
        self._family = Family()
        self._peak_mib = 0.0
        self._points: list[TrajectoryPoint] = []
        self._known: dict[str, Number] = {}
        self._solution: bytes | None = None
        self._of_solution: Number | None = None
        self._interrupted_s: float | None = None
        self._is_passed_on = False

    @property
    def _elapsed_s(self) -> float:
        """The seconds that the solver has run, without loading and setup."""
        since_s = time.monotonic() - self._since_s if self._turn.of == "solver" else 0.0
        return self._spent_s + since_s

    def take(self, message: Any) -> None:
        """Process a message from the child."""
        if isinstance(message, Turn):
            self._spent_s, self._since_s = self._elapsed_s, time.monotonic()
            if self._cpu_before_s is None:
                self._cpu_before_s, self._allowed_mib = message.cpu_time_s, message.memory_mib
            elif self._turn.of == "loading":
                self._allowed_mib += message.memory_mib - self._turn.memory_mib
            self._turn = message
        elif isinstance(message, Told):
            self._take_told(message)
        elif isinstance(message, Execution):
            peak_mib = max(self._peak_mib, message.peak_memory_mib or 0.0)
            self.execution = replace(message, peak_memory_mib=peak_mib)

    def _take_told(self, told: Told) -> None:
        kind, value = told.point.kind, told.point.value
        variant = self._instance.variant
        if is_improvement(variant, kind, value, self._known.get(kind)):
            self._known[kind] = value
            self._points.append(told.point)
        if told.solution is not None and is_improvement(variant, kind, value, self._of_solution):
            self._solution, self._of_solution = told.solution, value
        if self._call.observer is not None:
            self._call.observer(kind, value)

    def look(self, process: int) -> None:
        """Check the time and memory limits of the running solver, at most every 0.05 s."""
        limits, now_s = self._call.limits, time.monotonic()
        if now_s < self.next_look_s:
            return
        self.next_look_s = now_s + SECONDS_BETWEEN_LOOKS
        if interruption_in_force().is_asked:
            self._interrupt(process, now_s)
        if self._turn.of != "solver" or self.execution is not None:
            return
        used_mib = self._family.memory_mib(process)
        self._peak_mib = max(self._peak_mib, used_mib)
        if limits.memory_mib is not None and used_mib - self._allowed_mib > limits.memory_mib:
            self.stopped_by = StoppedBy.MEMORY
        if limits.time_s is not None and self._elapsed_s > limits.time_s + grace_s(limits.time_s):
            self.stopped_by = StoppedBy.TIME

    def _interrupt(self, process: int, now_s: float) -> None:
        """Pass Ctrl-C on to the child; stop the run if the child does not react in time."""
        if self._interrupted_s is None:
            self._interrupted_s = now_s
        if not self._is_passed_on and self._cpu_before_s is not None:  # the solver has started
            self._is_passed_on = True
            os.kill(process, signal.SIGINT)
        if now_s > self._interrupted_s + 2 * PATIENCE_S:
            self.stopped_by = StoppedBy.INTERRUPT

    def kill_left_behind(self) -> None:
        """Kill the processes that a child started before it ended by itself."""
        self._family.kill()

    def as_error(self, message: str, stack: str = "") -> Execution:
        """Return the outcome of a failed solver call, with an error message and a Python stack."""
        return Execution(
            error=message,
            traceback=stack or None,
            wall_time_s=self._elapsed_s or None,
            peak_memory_mib=self._peak_mib or None,
        )

    def ended_from_outside(self, usage: struct_rusage | None, stack: str) -> Execution:
        """Return the outcome of a killed solver: its best reported solution, or its warm start."""
        best = None
        if self._solution is not None and self._of_solution is not None:
            try:
                best = pickle.loads(self._solution), self._of_solution  # noqa: S301 - our child's
            except Exception as error:
                return self.as_error(f"its solution cannot be read: {failed(error).error}")
        cpu_time_s = None
        if usage is not None and self._cpu_before_s is not None:
            cpu_time_s = usage.ru_utime + usage.ru_stime - self._cpu_before_s
        try:
            result = told_result(
                self._problem,
                self._instance,
                self._call,
                best,
                self._known.get("dual_bound"),
                self.stopped_by,
                "did not stop after Ctrl-C and was killed"
                if self.stopped_by is StoppedBy.INTERRUPT
                else f"exceeded its {self.stopped_by} limit and was killed",
            )
        except ValueError as error:  # a reported value is not a number
            return self.as_error(str(error), stack)
        return Execution(
            result=result,
            traceback=stack or None,
            points=tuple(self._points) if self._call.records else None,
            wall_time_s=self._elapsed_s,
            peak_memory_mib=self._peak_mib,
            cpu_time_s=cpu_time_s,
        )


class Workers:
    """A set of child processes that call solvers, used as a context manager.

    It is a `lyra_opt.core.execution.Executor`.

    One child serves all solvers of the toolkit, so that packages are loaded only once. Each other
    solver has its own child, created at its first call. A child is killed if its solver exceeds the
    time limit by more than `grace_s`, or exceeds the memory limit; the result is the best solution
    that the solver reported. If a solver ends its process, the result is an error. In both cases
    the next call gets a new child. Calls must not be made from several threads at once.
    """

    def __init__(self) -> None:
        self._workers: dict[tuple[str, int], _Worker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill all children; the next call creates new ones."""
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()

    def child_of(self, problem: Problem, solver: Solver) -> int | None:
        """Return the id of the process that will run a solver; None if it is not yet created."""
        return self._worker(problem, solver).process

    def __call__(
        self, problem: Problem, instance: ProblemInstance, solver: Solver, call: Call
    ) -> Execution:
        """Call a solver in a child process, which is killed if this process raises an exception."""
        return self._worker(problem, solver).execution(instance, solver, call)

    def _worker(self, problem: Problem, solver: Solver) -> "_Worker":
        is_shared = is_built_in(solver) and is_registered(solver)
        key = (problem.name, 0 if is_shared else id(solver))
        return self._workers.setdefault(key, _Worker(problem, None if is_shared else solver))


class _Worker:
    """The current child process for one solver, or for all toolkit solvers of a problem.

    A child that has ended is replaced at the next call.

    Parameters
    ----------
    solver
        The only solver of the child; None for all solvers that are found by name.
    """

    def __init__(self, problem: Problem, solver: Solver | None) -> None:
        self._problem, self._solver = problem, solver
        self._child: Child | None = None
        self._instance: ProblemInstance | None = None
        self._calls = 0

    @property
    def process(self) -> int | None:
        return None if self._child is None else self._child.process

    def end(self) -> struct_rusage | None:
        child, self._child, self._instance = self._child, None, None
        return None if child is None else child.end()

    def execution(self, instance: ProblemInstance, solver: Solver, call: Call) -> Execution:
        known = IsolatedCall(self._problem, instance, call)
        try:
            child = self._child_with_request(instance, solver, call)
            try:
                while known.execution is None and known.stopped_by is None:
                    self._hear(child, known, known.next_look_s)
                    known.look(child.process)
                # If this process was suspended, the solver may have ended: read its last messages.
                for _ in range(MOST_LAST_WORDS):
                    if known.execution is not None or not self._hear(child, known, until_s=0.0):
                        break
            except ChildDiedError as died:
                stack = self._stack()
                known.kill_left_behind()
                self.end()
                return known.as_error(str(died), stack)
            except Exception as error:  # the message cannot be unpickled
                self.end()
                return known.as_error(f"its answer cannot be read: {failed(error).error}")
        except BaseException:  # Ctrl-C above all
            self.end()
            raise
        if known.execution is not None:
            return known.execution
        stack = self._stack()
        return known.ended_from_outside(self.end(), stack)

    def _hear(self, child: Child, known: IsolatedCall, until_s: float) -> bool:
        """Process the next message of the child; return False if none comes before `until_s`."""
        received = child.receive(until_s)
        if received is None:
            return False
        number, message = received
        if number == self._calls:
            known.take(message)
        return True

    def _stack(self) -> str:
        return "" if self._child is None else self._child.stack()

    def _child_with_request(self, instance: ProblemInstance, solver: Solver, call: Call) -> Child:
        """Send a request to the child, or fork a new child that inherits the request."""
        self._calls += 1
        request = Request(
            number=self._calls,
            solver=solver.name if self._solver is None else None,
            instance=None if instance is self._instance else instance,
            call=replace(call, observer=None),
        )
        if self._child is not None:
            try:
                self._child.connection.send(request)
            except Exception:  # the child is gone, or the request cannot be pickled
                self.end()
                request = replace(request, instance=instance)
        if self._child is None:
            server = Server(self._problem, self._solver, request)
            self._child = Child(server.serve)
        self._instance = instance
        return self._child
