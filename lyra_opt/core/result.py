"""The result of a solver: what is proved, why the run stopped, the solution, and the dual bound."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from lyra_opt.core.errors import FieldError, one_line
from lyra_opt.core.foreign import as_python

SolutionT = TypeVar("SolutionT")
Number = int | float

BACKEND_RUNS = "backend_runs"
"""The counter that is 0 if the time limit ended a run before its backend started."""
RELATIVE_TOLERANCE = 1e-9  # floats with a smaller relative difference count as equal


class Status(StrEnum):
    """The outcome of a solver run, such as a proved optimum or a feasible solution."""

    OPTIMAL = "optimal"
    """A solution is known and proved to be optimal."""
    FEASIBLE = "feasible"
    """A solution is known, without a proof that it is optimal."""
    INFEASIBLE = "infeasible"
    """It is proved that no solution exists."""
    UNKNOWN = "unknown"
    """Neither a solution nor a proof of infeasibility is known."""
    UNSUPPORTED = "unsupported"
    """The solver does not support the instance; the message gives the reason."""
    ERROR = "error"
    """The solver failed, or the checker refuted its claim; the message gives the reason."""


class StoppedBy(StrEnum):
    """The limit or the interruption that ended a run early."""

    TIME = "time"
    NODES = "nodes"
    MEMORY = "memory"
    INTERRUPT = "interrupt"
    """Ctrl-C, SIGTERM or SIGHUP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The resources that a run may use; None means no limit.

    Parameters
    ----------
    time_s
        Wall-clock seconds.
    nodes
        Nodes of a search tree.
    memory_mib
        Memory of the search, in MiB.
    threads
        The largest number of threads; a solver without parallel code uses one, and its answer says
        so. With several threads, solutions and times of backends differ from run to run, but proofs
        remain valid.

    Raises
    ------
    FieldError
        If `threads` is not a positive integer.
    """

    time_s: float | None = None
    nodes: int | None = None
    memory_mib: float | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.threads, int) or self.threads < 1:
            raise FieldError("threads", self.threads, "must be an integer of at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveResult(Generic[SolutionT]):
    """The result that a solver reports for one run, before it is checked.

    Numbers of NumPy are accepted and stored as Python numbers.

    Parameters
    ----------
    status
        The solver's claim about the instance. It has no default, so that no solver claims success
        by omission.
    stopped_by
        The limit that ended the run; None if the run ended by itself.
    solution
        The best solution found; None if none was found.
    objective
        The objective that the solver claims for the solution; the checker recomputes it.
    dual_bound
        A lower bound on the optimum when minimising, an upper bound when maximising; None if no
        bound is known. It is kept even without a solution.
    counters
        Effort by name, such as nodes, cuts and iterations.
    message
        A remark for the user, on one line; None without a remark.

    Raises
    ------
    ValueError
        If status, solution, objective and bound contradict one another, or a value has the wrong
        type or is not finite.
    """

    status: Status
    stopped_by: StoppedBy | None = None
    solution: SolutionT | None = None
    objective: Number | None = None
    dual_bound: Number | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    message: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", _member(Status, "status", self.status))
        if self.stopped_by is not None:
            object.__setattr__(
                self, "stopped_by", _member(StoppedBy, "stopped_by", self.stopped_by)
            )
        if self.message is not None:
            if not isinstance(self.message, str):
                raise ValueError(f"message must be a string, not {self.message!r}")
            object.__setattr__(self, "message", one_line(self.message))
        for name in ("objective", "dual_bound"):
            value = as_python(getattr(self, name))
            if value is not None and not is_finite_number(value):
                raise ValueError(f"{name} must be an int or a finite float, not {value!r}")
            object.__setattr__(self, name, value)
        counters = {name: as_python(count) for name, count in self.counters.items()}
        for name, count in counters.items():
            if not isinstance(name, str) or not is_finite_number(count):
                raise ValueError(f"counter {name!r} must be a finite number, not {count!r}")
        object.__setattr__(self, "counters", counters)
        has_solution = self.solution is not None
        if has_solution != (self.status in (Status.OPTIMAL, Status.FEASIBLE)):
            rule = "must not have" if has_solution else "needs"
            raise ValueError(f"a result with status {self.status} {rule} a solution")
        if has_solution != (self.objective is not None):
            raise ValueError("solution and objective must be given together")
        if self.status is Status.OPTIMAL and self.dual_bound is None:
            raise ValueError("a result with status optimal needs a dual bound that proves it")


def _member(kind: type[StrEnum], name: str, value: object) -> StrEnum:
    """Return the enumeration member for a member or its string; raise ValueError if invalid."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in list(kind):
        return kind(value)
    raise ValueError(f"{name} must be one of {', '.join(kind)}, not {value!r}")


def is_finite_number(value: object) -> bool:
    """Return whether a value is a finite int or float, but not a boolean."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def same_value(first: Number, second: Number, *, tolerance: float = RELATIVE_TOLERANCE) -> bool:
    """Return whether two values are equal: integers exactly, floats within a relative tolerance."""
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return abs(first - second) <= tolerance * max(abs(first), abs(second))
