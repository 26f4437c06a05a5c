"""The child's side: messages, and the server that calls solvers and sends their results."""

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
"""Of its time that a solver may spend on sending its incumbents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A solver call that a child is to make; it has what is None from an earlier one.

    Each message that answers it comes after its number: threads of backends may speak after the
    end of a call.
    """

    number: int
    solver: str | None
    instance: ProblemInstance | None
    call: Call


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose turn it is: the clock of a limit runs while it is the solver's.

    Parameters
    ----------
    of
        ``solver``, ``loading``: packages and compiled kernels, as happens once a process, or
        ``nobody``.
    cpu_time_s, memory_mib
        Of the child so far.
    """

    of: Literal["solver", "loading", "nobody"]
    cpu_time_s: float = 0.0
    memory_mib: float = 0.0


@dataclass(frozen=True, slots=True)
class Told:
    """An incumbent or a bound for the observer, and the solution as a pickle."""

    point: TrajectoryPoint
    solution: bytes | None


@dataclass
class Server:
    """The child's side.

    Parameters
    ----------
    problem, solver
        As `_Worker` has them.
    request
        The first, inherited.
    """

    problem: Problem
    solver: Solver | None
    request: Request
    instance: Any = None
    lock: Lock = field(default_factory=Lock)

    def serve(self, connection: Connection[Any, Any]) -> None:
        """Answer requests until nobody asks."""
        self.connection = connection
        while True:
            execution = self._execution()
            try:
                self.send(execution, self.request.number)
            except (BrokenPipeError, ConnectionError):
                return
            except Exception as error:  # what cannot be sent
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
        """Send a message that answers the request of a number, from whatever thread."""
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
        except BaseException as error:  # compiled code may raise things of a kind of their own
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
        """Say whether packages are being loaded."""
        turn = Turn("loading" if is_loading else "solver", 0.0, resident_mib())
        self.send(turn, self.request.number)


class _Teller:
    """Sends what an observer is told; not every solution where that takes long.

    Threads of a solver may tell it something when the call is long over, and another goes on.
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
            except Exception:  # then it is lost only if the run must be ended
                pickled = None
        told = Told(TrajectoryPoint(elapsed_s, kind, value), pickled)
        self._server.send(told, self._number)
        self._telling_s += time.monotonic() - before_s


def _cpu_time_s() -> float:
    """Return the processor seconds of this process, and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
