"""The clock of solvers: what they take, and what a time limit leaves them.

Importing OR-Tools or numba takes about a second, whatever is solved then. It is spent once a
process, so counting it as the time of the solver that happens to run first would say nothing
about that solver.

A time limit is in force for all that is called within ``with time_limit(...)``, however deep: a
loop that may take long asks `require_time` every few milliseconds, and whoever can make something
of what there is by then catches `OutOfTimeError`. So rules, bounds and builders of models, which
solvers and simulated clusters share, need no clock among their arguments.

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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

ItemT = TypeVar("ItemT")

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


class _Limit(NamedTuple):
    """When the limit in force ends, and what an interruption leaves: nothing but a grace."""

    deadline_s: float
    graced_until_s: float
    interruption: Interruption

    @property
    def end_s(self) -> float:
        if self.interruption.is_asked:
            return min(self.deadline_s, self.graced_until_s)
        return self.deadline_s


_NO_LIMIT = _Limit(math.inf, -math.inf, Interruption())
_in_force: ContextVar[_Limit] = ContextVar("limit_in_force", default=_NO_LIMIT)


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
    """Puts a limit in force; a class, because generators take three times as long."""

    __slots__ = "_limit", "_token"

    def __init__(self, limit: _Limit) -> None:
        self._limit = limit

    def __enter__(self) -> None:
        self._token = _in_force.set(self._limit)

    def __exit__(self, *_: object) -> None:
        _in_force.reset(self._token)


def time_limit(time_s: float | None) -> AbstractContextManager[None]:
    """Hold what happens meanwhile to a limit of wall-clock seconds, None for none of its own.

    Of limits within one another the one that ends first counts. As in `Stopwatch`, what a process
    loads once does not count. A limit holds in one thread.
    """
    around = _in_force.get()
    if time_s is None or time_s >= LONGEST_TIME_LIMIT_S:
        return _Within(around)
    return _Within(around._replace(deadline_s=min(_now_s() + time_s, around.deadline_s)))


def grace() -> AbstractContextManager[None]:
    """Leave what happens meanwhile at least `GRACE_S`, whatever the limit in force."""
    around, until_s = _in_force.get(), _now_s() + GRACE_S
    return _Within(_Limit(max(until_s, around.deadline_s), until_s, around.interruption))


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
