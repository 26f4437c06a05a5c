"""The server in a child process, which calls solvers and sends their results."""

from __future__ import annotations

import pickle
import resource
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from lyra_opt.core.execution import execute, failed
from lyra_opt.core.interrupting import heeding_signals
from lyra_opt.core.isolation.child import send
from lyra_opt.core.isolation.memory import (
    largest_child_mib,
    peak_memory_mib,
    reset_peak_memory,
    resident_mib,
)
from lyra_opt.core.solver import find_solver
from lyra_opt.core.stopwatch import Stopwatch, on_loading
from lyra_opt.core.trajectory import TrajectoryPoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from lyra_opt.core.execution import Call, Execution
    from lyra_opt.core.problem import Problem, ProblemInstance
    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Solver

SHARE_OF_TELLING = 0.05
"""The share of its run time that a solver may spend on sending solutions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request from the parent to a child process for one solver call.

    If `instance` is None, the child uses the instance of the last request. If `solver` is None, the
    child uses its only solver.

    Each answer carries the number of its request, because threads of backends may still send after
    a call has ended.
    """

    number: int
    solver: str | None
    instance: ProblemInstance | None
    call: Call


@dataclass(frozen=True, slots=True)
class Turn:
    """A message from the child that states whether the solver, loading or other code runs.

    The clock of a time limit runs only while the solver runs.

    Parameters
    ----------
    of
        ``solver``; ``loading`` for packages and compiled kernels, once per process; or ``nobody``.
    cpu_time_s, memory_mib
        CPU time and memory of the child so far.
    """

    of: Literal["solver", "loading", "nobody"]
    cpu_time_s: float = 0.0
    memory_mib: float = 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """A message from the child with a new incumbent or dual bound, and any pickled solution."""

    point: TrajectoryPoint
    solution: bytes | None


@dataclass
class Server:
    """The server in a child process, which calls solvers and sends their results.

    Parameters
    ----------
    problem, solver
        As for `_Worker`.
    request
        The first request, inherited through the fork.
    """

    problem: Problem
    solver: Solver | None
    request: Request
    instance: Any = None
    lock: Lock = field(default_factory=Lock)

    def serve(self, connection: Connection[Any, Any]) -> None:
        """Answer requests until the connection is closed."""
        self.connection = connection
        while True:
            execution = self._execution()
            try:
                self.send(execution, self.request.number)
            except (BrokenPipeError, ConnectionError):
                return
            except Exception as error:  # the result cannot be pickled
                unsent = replace(
                    execution,
                    result=None,
                    error=f"its answer cannot be sent: {error}",
                    traceback=failed(error).traceback,
                )
                self.send(unsent, self.request.number)
            try:
                self.request = connection.recv()
            except (EOFError, ConnectionError):
                return

    def send(self, message: object, number: int) -> None:
        """Send the parent process a message about a request; any thread may call this method."""
        with self.lock:
            send(self.connection, (number, message))

    def _execution(self) -> Execution:
        request = self.request
        if request.instance is not None:
            self.instance = request.instance
        reset_peak_memory()
        cpu_before_s, child_before_mib = _cpu_time_s(), largest_child_mib()
        try:
            name = request.solver
            solver = self.solver if name is None else find_solver(self.problem.name, name)
            assert solver is not None
            observer = _Teller(self)
            call = replace(request.call, observer=observer)
            with on_loading(self._loading), heeding_signals(signal.SIGINT):
                execution = execute(
                    self.problem, self.instance, solver, call, timed=self._timed(cpu_before_s)
                )
        except BaseException as error:  # compiled code may raise its own exception types
            execution = failed(error)
        child_mib = largest_child_mib()
        peak_mib = max(peak_memory_mib(), child_mib if child_mib > child_before_mib else 0.0)
        return replace(execution, peak_memory_mib=peak_mib, cpu_time_s=_cpu_time_s() - cpu_before_s)

    @contextmanager
    def _timed(self, cpu_time_s: float) -> Iterator[None]:
        self.send(Turn("solver", cpu_time_s, resident_mib()), self.request.number)
        try:
            yield
        finally:
            self.send(Turn("nobody"), self.request.number)

    def _loading(self, is_loading: bool) -> None:
        """Tell the parent whether packages are being loaded."""
        turn = Turn("loading" if is_loading else "solver", 0.0, resident_mib())
        self.send(turn, self.request.number)


class _Teller:
    """An observer that sends improvements to the parent, with solutions if time allows.

    Threads of a solver may call it after their call has ended and another has begun.
    """

    def __init__(self, server: Server) -> None:
        self._server, self._number = server, server.request.number
        self._stopwatch = Stopwatch()
        self._telling_s = 0.0

    def __call__(self, kind: Any, value: Number, solution: Any = None) -> None:
        before_s, elapsed_s = time.monotonic(), self._stopwatch.elapsed_s
        pickled = None
        if solution is not None and self._telling_s <= SHARE_OF_TELLING * elapsed_s:
            try:
                pickled = pickle.dumps(solution, pickle.HIGHEST_PROTOCOL)
            except Exception:  # the solution is lost only if the run must be killed
                pickled = None
        told = Told(TrajectoryPoint(elapsed_s, kind, value), pickled)
        self._server.send(told, self._number)
        self._telling_s += time.monotonic() - before_s


def _cpu_time_s() -> float:
    """Return the CPU seconds of this process and of the processes it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
