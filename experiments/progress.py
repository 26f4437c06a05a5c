"""Show on stderr how far something is: a bar with the time left, or a line now and then.

A run that takes long tells `within_run` how far it is, in whatever process; whoever runs it listens
and shows the share as a part of a run.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS_BETWEEN_LINES = 15.0
SECONDS_BETWEEN_LOOKS = 0.5

HOUR_S = 3600
DAY_S = 86_400
LONGEST_IN_HOURS_S = 2 * DAY_S


_listeners: list[Callable[[float], None]] = []


def within_run(share: float) -> None:
    """Tell whoever runs the present run how far it is, from 0 to 1."""
    if _listeners:
        _listeners[-1](share)


@contextmanager
def listening(listener: Callable[[float], None]) -> Iterator[None]:
    """Tell `listener` what `within_run` is told meanwhile in this process."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.pop()


@contextmanager
def progress(
    description: str,
    total: int,
    things: str = "runs",
    *,
    begun: Callable[[], float] = lambda: 0.0,
) -> Iterator[Callable[[], None]]:
    """Show how many of so many things are done; the yielded function counts one more.

    Parameters
    ----------
    begun
        Returns how much is done of those that have begun, such as 1.5 where one is complete but
        for its last step and another half done. It is asked again and again.
    """
    done = 0
    ended = threading.Event()

    def in_words(shown: float) -> str:
        return f"{done if shown == done else round(shown, 1)} of {total} {things}"

    with _shown(description, total, in_words) as show:

        def advance() -> None:
            nonlocal done
            done += 1
            show(done)

        def look() -> None:
            while not ended.wait(SECONDS_BETWEEN_LOOKS):
                show(min(total, done + begun()))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        try:
            yield advance
        finally:
            ended.set()
            looking.join()


@contextmanager
def simulated_time(description: str, jobs: int) -> Iterator[Callable[[float, int, int], None]]:
    """Show how far a simulation is.

    The yielded function is told the simulated seconds so far, and how many jobs are submitted and
    complete: what a simulation costs goes by these, while how long an overloaded cluster will take
    in the end nobody knows.

    Parameters
    ----------
    description
        What is simulated.
    jobs
        How many there are.
    """
    words = f"0 of {jobs:,} jobs complete"

    def in_words(done: float) -> str:  # noqa: ARG001
        return words

    with _shown(description, 2 * jobs, in_words) as show:

        def tell(time_s: float, submitted: int, complete: int) -> None:
            nonlocal words
            words = f"{moment_in_words(time_s)}, {complete:,} of {jobs:,} jobs complete"
            show(submitted + complete)

        yield tell


def moment_in_words(time_s: float) -> str:
    """Return a moment of a simulation.

    >>> moment_in_words(5400), moment_in_words(864_000)
    ('hour 1.5', 'day 10.0')
    """
    unit, seconds = ("hour", HOUR_S) if time_s < LONGEST_IN_HOURS_S else ("day", DAY_S)
    return f"{unit} {time_s / seconds:.1f}"


@contextmanager
def _shown(
    description: str, total: float, in_words: Callable[[float], str]
) -> Iterator[Callable[[float], None]]:
    """Show progress towards a total; the yielded function is told how much is done."""
    if sys.stderr.isatty():
        with _bar(description, total, in_words) as show:
            yield show
    else:
        yield _lines(description, total, in_words)


@contextmanager
def _bar(
    description: str, total: float, in_words: Callable[[float], str]
) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[words]},"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, words=in_words(0.0))
        yield lambda done: bar.update(
            task, completed=done, total=max(done, total), words=in_words(done)
        )


def _lines(
    description: str, total: float, in_words: Callable[[float], str]
) -> Callable[[float], None]:
    """Return a function that writes a line every few seconds, for logs."""
    started = last_line = time.monotonic()

    def show(done: float) -> None:
        nonlocal last_line
        now = time.monotonic()
        if now - last_line >= SECONDS_BETWEEN_LINES and done > 0:
            last_line = now
            left_s = (now - started) / done * max(0.0, total - done)
            print(f"{description}: {in_words(done)}, about {left_s:.0f} s left", file=sys.stderr)

    return show
