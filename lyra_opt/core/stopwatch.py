"""The clock of solvers: elapsed time, limits in force, and interruptions.

Importing OR-Tools or numba takes about a second, once per process. This time is excluded, because
it would be counted for the solver that happens to run first.

Limits are in force for all code inside ``with limited_to(limits)``, however deep. Every
`lyra_opt.core.solver.Solver` puts its limits in force. Solvers, rules, bounds and model builders
therefore read them from one place, and a simulated cluster can call the same functions without any
limit. A loop that may take long calls `require_time` every few milliseconds; a caller that has a
partial result catches `OutOfTimeError`. A search calls `limit_reached` before each node.

Ctrl-C uses the same mechanism: inside ``with heeding(interruption)``, a requested interruption ends
the time limit at once.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from threading import local
from typing import NamedTuple, TypeVar

from lyra_opt.core.result import Limits, StoppedBy

ItemT = TypeVar("ItemT")

BYTES_PER_MIB = 2**20
LONGEST_TIME_LIMIT_S = 1e9  # some backends accept no more; 30 years are the same as no limit
GRACE_S = 0.1
"""Seconds that a heuristic may exceed its time limit by, to return at least a first solution."""

_loading_s = 0.0
_of_thread = local()
_listeners: list[Callable[[bool], None]] = []


class OutOfTimeError(Exception):
    """An error that ends a computation when its time limit is over or its run is interrupted."""


class Interruption:
    """A request to end the current runs, such as Ctrl-C.

    `ask` calls the `listeners`, which stop machine code that cannot check a clock.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self.listeners: list[Callable[[], object]] = []

    def ask(self) -> None:
        """Request the end of the runs."""
        self.is_asked = True
        for listener in self.listeners:
            listener()


class _InForce(NamedTuple):
    """The limits that apply to running code, with their deadline and interruption."""

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
    """Exclude the time of the block (imports, compiling) from the run times of solvers.

    Nested blocks count once.
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
    """Call `listener` with True when loading begins in a ``with`` block, and False when it ends."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def _now_s() -> float:
    return time.perf_counter() - _loading_s


class Stopwatch:
    """A clock that counts seconds since its construction, without the time for loading packages."""

    def __init__(self) -> None:
        self._started_s = _now_s()

    @property
    def elapsed_s(self) -> float:
        """The seconds since the stopwatch was created, without loading time."""
        return _now_s() - self._started_s


class _Within:
    """A context manager for limits; a class, because a generator would be three times as slow."""

    __slots__ = "_in_force", "_token"

    def __init__(self, in_force: _InForce) -> None:
        self._in_force = in_force

    def __enter__(self) -> None:
        self._token = _in_force.set(self._in_force)

    def __exit__(self, *_: object) -> None:
        _in_force.reset(self._token)


def limited_to(limits: Limits) -> AbstractContextManager[None]:
    """Apply limits to all code in a ``with`` block.

    The time counts from the start of the block; of nested time limits, the one that ends first
    counts. The limits on nodes, memory and threads are those of the innermost block, because each
    search counts its own. As in `Stopwatch`, loading does not count. Limits hold for one thread.
    """
    around, time_s = _in_force.get(), limits.time_s
    deadline_s = around.deadline_s
    if time_s is not None and time_s < LONGEST_TIME_LIMIT_S:
        deadline_s = min(_now_s() + time_s, deadline_s)
    return _Within(around._replace(limits=limits, deadline_s=deadline_s))


def limits_in_force() -> Limits:
    """Return the limits of the innermost `limited_to` block, as they were given.

    `remaining_s` returns the time left.
    """
    return _in_force.get().limits


def limit_reached(*, nodes: int, memory_bytes: int) -> StoppedBy | None:
    """Return the limit that a search has reached; None if it may continue.

    Parameters
    ----------
    nodes
        The number of nodes that the search has created.
    memory_bytes
        The memory of its open nodes.
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
    """Guarantee `GRACE_S` seconds to the code in a ``with`` block, even after the time limit."""
    around, until_s = _in_force.get(), _now_s() + GRACE_S
    deadline_s = max(until_s, around.deadline_s)
    return _Within(around._replace(deadline_s=deadline_s, graced_until_s=until_s))


def heeding(interruption: Interruption) -> AbstractContextManager[None]:
    """Let an interruption end the time limit of a ``with`` block, but not its grace period."""
    return _Within(_in_force.get()._replace(interruption=interruption))


def interruption_in_force() -> Interruption:
    """Return the interruption in force; by default, one that is never requested."""
    return _in_force.get().interruption


def remaining_s() -> float | None:
    """Return the seconds until the time limit in force, at least 0; None without a limit."""
    end_s = _in_force.get().end_s
    return None if end_s == math.inf else max(0.0, end_s - _now_s())


def is_out_of_time() -> bool:
    """Return whether a time limit is in force and is over."""
    end_s = _in_force.get().end_s
    return end_s != math.inf and _now_s() >= end_s


def require_time() -> None:
    """Raise `OutOfTimeError` if the time limit in force is over.

    A call takes 0.25 microseconds, so it can be made every few milliseconds.
    """
    if is_out_of_time():
        raise OutOfTimeError


def within_time(items: Iterable[ItemT], every: int = 1) -> Iterator[ItemT]:
    """Yield the items, and check the time limit before every `every`-th item."""
    for place, item in enumerate(items):
        if place % every == 0:
            require_time()
        yield item
