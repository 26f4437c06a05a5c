"""What a solver says about an instance: what is known, why it stopped, solution and bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from lyra_opt.core.errors import FieldError, one_line
from lyra_opt.core.foreign import as_python

if TYPE_CHECKING:
    from collections.abc import Mapping

SolutionT = TypeVar("SolutionT")
Number = int | float

BACKEND_RUNS = "backend_runs"
"""The counter, then 0, of a model whose time was over before its backend could run."""
RELATIVE_TOLERANCE = 1e-9  # within which two floats count as one value


class Status(StrEnum):
    """What is known about the instance."""

    OPTIMAL = "optimal"
    """A solution is known and proved to be best."""
    FEASIBLE = "feasible"
    """A solution is known."""
    INFEASIBLE = "infeasible"
    """It is proved that there is no solution."""
    UNKNOWN = "unknown"
    """Neither a solution nor a proof that there is none."""
    UNSUPPORTED = "unsupported"
    """The solver does not take this instance; the message says why."""
    ERROR = "error"
    """The solver failed, or claimed what the checker refutes; the message says how."""


class StoppedBy(StrEnum):
    """Which limit, or who, ended a run before the solver was done."""

    TIME = "time"
    NODES = "nodes"
    MEMORY = "memory"
    INTERRUPT = "interrupt"
    """Ctrl-C, SIGTERM or SIGHUP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may use; None is no limit.

    Parameters
    ----------
    time_s
        Wall-clock seconds.
    nodes
        Nodes of a search tree.
    memory_mib
        Memory of the search, in MiB.
    threads
        At most so many threads. Whoever has one alone uses one, and the answer says so. With more
        than one, what backends find and how long they take differs from run to run; what is proved
        does not.

    Raises
    ------
    FieldError
        If there is no thread.
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
    """A solver's own account of one run, not yet checked.

    Numbers of NumPy are taken, and kept as Python's own.

    Parameters
    ----------
    status
        What the solver claims to know. No default: nothing claims success by omission.
    stopped_by
        The limit that ended the run, None if it ran to its end.
    solution
        The best solution found, None if none was found.
    objective
        The solver's claim of the solution's value; the checker recomputes it.
    dual_bound
        Lower bound on the optimum when minimising, upper when maximising; None if none is known.
        It is kept even where no solution was found.
    counters
        Effort spent, by name (nodes, cuts, iterations).
    message
        What a user should know of the run beside all this, on one line; None if nothing.

    Raises
    ------
    ValueError
        If status, solution, objective and bound contradict one another, a number is no integer or
        finite float, or the status, a limit or the message is none.
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
    """Return a member by itself or by its text."""
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and value in list(kind):
        return kind(value)
    raise ValueError(f"{name} must be one of {', '.join(kind)}, not {value!r}")


def is_finite_number(value: object) -> bool:
    """Return whether a value can be compared and written as JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def same_value(first: Number, second: Number, *, tolerance: float = RELATIVE_TOLERANCE) -> bool:
    """Whether two values are equal: integers exactly, floats within a relative tolerance."""
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return abs(first - second) <= tolerance * max(abs(first), abs(second))
