"""Show on stderr how far a simulation is: a bar with the time left, or a line now and then."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from experiments.progress import SECONDS_BETWEEN_LINES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, TaskID

HOUR_S = 3600
DAY_S = 86_400
LONGEST_IN_HOURS_S = 2 * DAY_S


@contextmanager
def simulated_time(description: str, expected_s: float) -> Iterator[Callable[[float], None]]:
    """Show how far simulated time is; the yielded function is told the simulated seconds so far.

    Parameters
    ----------
    description
        What is simulated.
    expected_s
        How long it will be about; a run may take longer.
    """
    if sys.stderr.isatty():
        with _bar() as bar:
            yield _of_bar(bar, bar.add_task(description, total=expected_s, shown=""))
    else:
        yield _lines(description, expected_s)


def moment_in_words(time_s: float, expected_s: float) -> str:
    """Return how far a run is.

    >>> moment_in_words(5400, 7200), moment_in_words(86_400, 432_000)
    ('hour 1.5 of about 2.0', 'day 1.0 of about 5.0')
    """
    unit, seconds = ("hour", HOUR_S) if expected_s < LONGEST_IN_HOURS_S else ("day", DAY_S)
    return f"{unit} {time_s / seconds:.1f} of about {max(time_s, expected_s) / seconds:.1f}"


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[shown]},"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
    )


def _of_bar(bar: Progress, task: TaskID) -> Callable[[float], None]:
    expected_s = bar.tasks[task].total or 0.0

    def show(time_s: float) -> None:
        bar.update(
            task,
            completed=time_s,
            total=max(time_s, expected_s),
            shown=moment_in_words(time_s, expected_s),
        )

    return show


def _lines(description: str, expected_s: float) -> Callable[[float], None]:
    """Return a function that writes a line every few seconds, for logs."""
    started = last_line = time.monotonic()

    def show(time_s: float) -> None:
        nonlocal last_line
        now = time.monotonic()
        if now - last_line >= SECONDS_BETWEEN_LINES and time_s > 0:
            last_line = now
            left_s = (now - started) / time_s * max(0.0, expected_s - time_s)
            print(
                f"{description}: {moment_in_words(time_s, expected_s)}, about {left_s:.0f} s left",
                file=sys.stderr,
            )

    return show
