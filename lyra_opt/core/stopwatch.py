"""The clock of solvers: what they take, and what a time limit leaves them.

Importing OR-Tools or numba takes about a second, whatever is solved then. It is spent once a
process, so counting it as the time of the solver that happens to run first would say nothing
about that solver.

Limits are in force for all code that is called within ``with limited_to(limits)``, however deep.
Every `lyra_opt.core.solver.Solver` puts its own in force, so solvers, rules, bounds and builders of
models read them from one place, and simulated clusters can call the same functions without any.
A loop that may take long asks `require_time` every few milliseconds, and the caller that can return
something by then catches `OutOfTimeError`. A search asks `limit_reached` before each node.

Ctrl-C uses the same mechanism: within ``with heeding(interruption)``, an interruption that is asked
for ends the time limit in force at once.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from contextvars import ContextVar
from threading import local
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lyra_opt.core.result import Limits, StoppedBy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

ItemT = TypeVar("ItemT")

BYTES_PER_MIB = 2**20
LONGEST_TIME_LIMIT_S = 1e9  # some backends cannot represent more, and 30 years is no limit
GRACE_S = 0.1
"""What a first solution may take beyond a time limit, which is of little use without one."""

_loading_s = 0.0
_of_thread = local()
_listeners: list[Callable[[bool], None]] = []


class OutOfTimeError(Exception):
    """The time limit in force is used up, or the run is interrupted."""


class Interruption:
    """A request to end the runs that heed it, as Ctrl-C makes it.

    `ask` calls the `listeners`, which end machine code that cannot look at a clock.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self.listeners: list[Callable[[], object]] = []

    def ask(self) -> None:
        """Ask the runs to end."""
        self.is_asked = True
        for listener in self.listeners:
            listener()


class _InForce(NamedTuple):
    """Limits, when their time ends, and what an interruption leaves: nothing but a grace."""

    limits: Limits
    deadline_s: float
    graced_until_s: float
    interruption: Interruption

    @property
    def end_s(self) -> float:
        if self.interruption.is_asked:
            return min(self.deadline_s, self.graced_until_s)
        return self.deadline_s


_NO_LIMIT = _InForce(Limits(), math.inf, -math.inf, Interruption())
_in_force: ContextVar[_InForce] = ContextVar("limits_in_force", default=_NO_LIMIT)


@contextmanager
def loading() -> Iterator[None]:
    """Mark what happens meanwhile (imports, compiling) as spent once a process.

    What is marked within what is marked counts once.
    """
    global _loading_s
    if getattr(_of_thread, "is_loading", False):
        yield
        return
    started = time.perf_counter()
    _of_thread.is_loading = True
    _tell(is_loading=True)
    try:
        yield
    finally:
        _of_thread.is_loading = False
        _loading_s += time.perf_counter() - started
        _tell(is_loading=False)


def _tell(*, is_loading: bool) -> None:
    for listener in _listeners:
        listener(is_loading)


@contextmanager
def on_loading(listener: Callable[[bool], None]) -> Iterator[None]:
    """Call `listener` meanwhile when loading begins, with True, and when it ends, with False."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _now_s() -> float:
    return time.perf_counter() - _loading_s


class Stopwatch:
    """Wall-clock seconds since construction, less those spent on `loading`."""

    def __init__(self) -> None:
        self._started_s = _now_s()

    @property
    def elapsed_s(self) -> float:
        """Seconds so far."""
        return _now_s() - self._started_s


class _Within:
    """Puts limits in force; a class, because generators take three times as long."""

    __slots__ = "_in_force", "_token"

    def __init__(self, in_force: _InForce) -> None:
        self._in_force = in_force

    def __enter__(self) -> None:
        self._token = _in_force.set(self._in_force)

    def __exit__(self, *_: object) -> None:
        _in_force.reset(self._token)


def limited_to(limits: Limits) -> AbstractContextManager[None]:
    """Put limits in force for the code within.

    The time counts from here, and of time limits within one another the one that ends first
    counts. Nodes, memory and threads are those of the innermost limits: each search counts its own.
    As in `Stopwatch`, what a process loads once takes no time. Limits hold in one thread.
    """
    around, time_s = _in_force.get(), limits.time_s
    deadline_s = around.deadline_s
    if time_s is not None and time_s < LONGEST_TIME_LIMIT_S:
        deadline_s = min(_now_s() + time_s, deadline_s)
    return _Within(around._replace(limits=limits, deadline_s=deadline_s))


def limits_in_force() -> Limits:
    """Return the innermost limits, as they were given; `remaining_s` is the time left."""
    return _in_force.get().limits


def limit_reached(*, nodes: int, memory_bytes: int) -> StoppedBy | None:
    """Return which of the limits in force a search has reached, None if it may go on.

    Parameters
    ----------
    nodes
        The nodes that the search has made.
    memory_bytes
        The memory that its open nodes take.
    """
    limits = _in_force.get().limits
    if is_out_of_time():
        return StoppedBy.TIME
    if limits.nodes is not None and nodes >= limits.nodes:
        return StoppedBy.NODES
    if limits.memory_mib is not None and memory_bytes > limits.memory_mib * BYTES_PER_MIB:
        return StoppedBy.MEMORY
    return None


def grace() -> AbstractContextManager[None]:
    """Leave what happens meanwhile at least `GRACE_S`, whatever the limit in force."""
    around, until_s = _in_force.get(), _now_s() + GRACE_S
    deadline_s = max(until_s, around.deadline_s)
    return _Within(around._replace(deadline_s=deadline_s, graced_until_s=until_s))


def heeding(interruption: Interruption) -> AbstractContextManager[None]:
    """Let an interruption end the limit in force; a grace is all that it leaves."""
    return _Within(_in_force.get()._replace(interruption=interruption))


def interruption_in_force() -> Interruption:
    """Return the interruption that the present run heeds; without one, one that never comes."""
    return _in_force.get().interruption


def remaining_s() -> float | None:
    """Return the seconds that the limit in force leaves, at least 0; None without a limit."""
    end_s = _in_force.get().end_s
    return None if end_s == math.inf else max(0.0, end_s - _now_s())


def is_out_of_time() -> bool:
    """Return whether there is a limit in force and it is used up."""
    end_s = _in_force.get().end_s
    return end_s != math.inf and _now_s() >= end_s


def require_time() -> None:
    """Raise `OutOfTimeError` if the limit in force is used up.

    Takes a quarter of a microsecond: ask every few milliseconds.
    """
    if is_out_of_time():
        raise OutOfTimeError


def within_time(items: Iterable[ItemT], every: int = 1) -> Iterator[ItemT]:
    """Yield the items, and ask for time before each, or before each of so many."""
    for place, item in enumerate(items):
        if place % every == 0:
            require_time()
        yield item
