"""Show on stderr how far a study is: a bar with the time left, or a line now and then."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS_BETWEEN_LINES = 15.0


@contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[], None]]:
    """Show the progress of `total` runs; the yielded function counts one more as done."""
    if sys.stderr.isatty():
        with _bar(description, total) as advance:
            yield advance
    else:
        yield _lines(description, total)


@contextmanager
def _bar(description: str, total: int) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs,"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)


def _lines(description: str, total: int) -> Callable[[], None]:
    """Return a counter that writes a line every few seconds, for logs."""
    started = last_line = time.monotonic()
    done = 0

    def advance() -> None:
        nonlocal done, last_line
        done += 1
        now = time.monotonic()
        if now - last_line >= SECONDS_BETWEEN_LINES:
            last_line = now
            left_s = (now - started) / done * (total - done)
            print(
                f"{description}: {done} of {total} runs, about {left_s:.0f} s left", file=sys.stderr
            )

    return advance
