"""Progress reporting within a process, from a long run to its caller.

A long loop calls `within_run`, however deep in the code it is. Without a listener this does
nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[float], None]] = []
_words: list[str] = [""]
"""The last words that the current run reported."""


def within_run(share: float, words: str = "") -> None:
    """Report the progress of the current run to its caller, as a share from 0 to 1.

    The words are shown too, unless the run belongs to a worker process.
    """
    if _listeners:
        _listeners[-1](share)
        _words[0] = words


def words_of_run() -> str:
    """Return the latest status text that the current run reported; empty between runs."""
    return _words[0]


@contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Call `listener` with each progress share, from 0 to 1, reported in a ``with`` block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.pop()
        _words[0] = ""


@contextmanager
def part_of_run(part: int, parts: int) -> Iterator[None]:
    """Scale the progress reported in a ``with`` block to one of several equal parts of a run.

    Parameters
    ----------
    part
        The index of the part, from 0 on.
    parts
        The number of parts.
    """
    if not _listeners:
        yield
        return
    outer = _listeners[-1]
    with listening(lambda share: outer((part + share) / parts)):
        yield
    outer((part + 1) / parts)
