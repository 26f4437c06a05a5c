"""Time what a solver does, apart from what a process does once.

Importing OR-Tools or numba takes about a second, whatever is solved then. It is spent once a
process, so counting it as the time of the solver that happens to run first would say nothing
about that solver.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_loading_s = 0.0


@contextmanager
def loading() -> Iterator[None]:
    """Mark what happens meanwhile (imports, compiling) as spent once a process."""
    global _loading_s
    started = time.perf_counter()
    try:
        yield
    finally:
        _loading_s += time.perf_counter() - started


class Stopwatch:
    """Wall-clock seconds since construction, less those spent on `loading`."""

    def __init__(self) -> None:
        self._loading_before_s = _loading_s
        self._started_s = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._started_s - (_loading_s - self._loading_before_s)
