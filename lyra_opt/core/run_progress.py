"""How far the present run of this process is: it tells, and the caller of the run listens.

A loop that takes long calls `within_run`, however deep it is; nothing happens if nobody listens.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_listeners: list[Callable[[float], None]] = []
_words: list[str] = [""]
"""Of the present run of this process."""


def within_run(share: float, words: str = "") -> None:
    """Tell the caller of the present run how far it is, from 0 to 1.

    Words are shown too where the run is not that of a worker.
    """
    if _listeners:
        _listeners[-1](share)
        _words[0] = words


def words_of_run() -> str:
    """Return the words that the present run told last; empty between runs."""
    return _words[0]


@contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Tell `listener` what `within_run` is told meanwhile in this process."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.pop()
        _words[0] = ""


@contextmanager
def part_of_run(part: int, parts: int) -> Iterator[None]:
    """Take what `within_run` is told meanwhile for one of several equal parts of the run.

    Parameters
    ----------
    part
        Which one, from 0 on.
    parts
        How many there are.
    """
    if not _listeners:
        yield
        return
    outer = _listeners[-1]
    with listening(lambda share: outer((part + share) / parts)):
        yield
    outer((part + 1) / parts)
