"""What is known, outside of it, of a child that calls a solver."""

from __future__ import annotations

import os
import pickle
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.execution import Execution, failed, told_result
from lyra_opt.core.interrupting import PATIENCE_S
from lyra_opt.core.isolation.memory import Family
from lyra_opt.core.isolation.messages import Told, Turn
from lyra_opt.core.result import StoppedBy
from lyra_opt.core.stopwatch import interruption_in_force
from lyra_opt.core.trajectory import is_improvement

if TYPE_CHECKING:
    from resource import struct_rusage

    from lyra_opt.core.execution import Call
    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.problem import Problem
    from lyra_opt.core.result import Number
    from lyra_opt.core.trajectory import TrajectoryPoint

LEAST_GRACE_S = 1.0
RELATIVE_GRACE = 0.1
"""How long after its time limit a solver is ended from outside: the longer of both."""

SECONDS_BETWEEN_LOOKS = 0.05
"""At the memory of a solver that runs."""


def grace_s(time_s: float) -> float:
    """Return how long a solver may go on after its limit before it is ended."""
    return max(LEAST_GRACE_S, RELATIVE_GRACE * time_s)


class Run:
    """What is known of a call while a child does it."""

    def __init__(self, problem: Problem, instance: ProblemInstance, call: Call) -> None:
        self._problem, self._instance, self._call = problem, instance, call
        self.execution: Execution | None = None
        self.is_over: StoppedBy | None = None
        self.next_look_s = 0.0  # as `time.monotonic` counts
        self._turn = Turn("nobody")
        self._since_s = 0.0
        self._spent_s = 0.0
        self._cpu_before_s: float | None = None
        self._allowed_mib = 0.0  # what it began with, and packages and compiled kernels since
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
        """Of the solver alone."""
        since_s = time.monotonic() - self._since_s if self._turn.of == "solver" else 0.0
        return self._spent_s + since_s

    def take(self, message: Any) -> None:
        """Take what the child sent."""
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
        """See whether a limit is passed, if it is time to."""
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
            self.is_over = StoppedBy.MEMORY
        if limits.time_s is not None and self._elapsed_s > limits.time_s + grace_s(limits.time_s):
            self.is_over = StoppedBy.TIME

    def _interrupt(self, process: int, now_s: float) -> None:
        """Pass Ctrl-C on to the child; later, see whether it heeded that."""
        if self._interrupted_s is None:
            self._interrupted_s = now_s
        if not self._is_passed_on and self._cpu_before_s is not None:  # the child hears signals
            self._is_passed_on = True
            os.kill(process, signal.SIGINT)
        if now_s > self._interrupted_s + 2 * PATIENCE_S:
            self.is_over = StoppedBy.INTERRUPT

    def kill_left_behind(self) -> None:
        """Kill what a child that has ended by itself had started."""
        self._family.kill()

    def as_error(self, message: str, stack: str = "") -> Execution:
        """Return that the solver failed; the stack says where."""
        return Execution(
            error=message,
            traceback=stack or None,
            wall_time_s=self._elapsed_s or None,
            peak_memory_mib=self._peak_mib or None,
        )

    def ended_from_outside(self, usage: struct_rusage | None, stack: str) -> Execution:
        """Return the best that is known of a run whose child was ended: told, or its start."""
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
                self.is_over,
                "did not end after Ctrl-C and was ended from outside"
                if self.is_over is StoppedBy.INTERRUPT
                else f"went on beyond its limit of {self.is_over} and was ended from outside",
            )
        except ValueError as error:  # what it told is no number
            return self.as_error(str(error), stack)
        return Execution(
            result=result,
            traceback=stack or None,
            points=tuple(self._points) if self._call.records else None,
            wall_time_s=self._elapsed_s,
            peak_memory_mib=self._peak_mib,
            cpu_time_s=cpu_time_s,
        )
