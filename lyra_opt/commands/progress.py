"""Show progress on stderr: a bar with the remaining time, or a line from time to time.

A long run reports its progress through `lyra_opt.core.run_progress`, in whatever process it runs;
the caller of the run listens and adds it as the share of one run.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import is_notebook, is_quiet
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.core.run_progress import words_of_run
from lyra_opt.core.terms import ONE_NUMBER
from lyra_opt.core.trajectory import Improvements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lyra_opt.core.problem import Variant
    from lyra_opt.core.result import Number
    from lyra_opt.core.solver import Observer
    from lyra_opt.core.terms import Terms

SECONDS_BETWEEN_LINES = 15.0
SECONDS_BETWEEN_LOOKS = 0.5
WIDTH_OF_BAR = 60
"""The number of characters of a bar with its numbers, without its description."""

WIDTH_OF_SPINNER = 3

LEAST_SHARE_DONE = 0.01
"""With a smaller share done, the time left is unknown."""

LONGEST_IN_HOURS_S = 2 * DAY_S


@contextmanager
def progress(
    description: str, total: int, things: str = "runs", *, begun: Callable[[], float] = lambda: 0.0
) -> Iterator[Callable[[], None]]:
    """Show how many of `total` items are done; yield a function that counts one more item.

    Parameters
    ----------
    begun
        A function that returns the progress of unfinished things, such as 1.5 for one that is
        nearly complete and one that is half done. It is called repeatedly.
    """
    if is_quiet():
        yield lambda: None
        return
    done = 0

    def in_words(shown: float) -> str:
        return f"{done if shown == done else round(shown, 1)} of {total} {things}"

    with _shown(description, total, in_words) as show:

        def advance() -> None:
            nonlocal done
            done += 1
            show(done)

        def look(ended: threading.Event) -> None:
            while not ended.wait(SECONDS_BETWEEN_LOOKS):
                show(min(total, done + begun()))

        with _looking(look):
            yield advance


@contextmanager
def solving(
    words: str, variant: Variant, limit_s: float | None, runs_behind: int, terms: Terms = ONE_NUMBER
) -> Iterator[Observer | None]:
    """Show on a terminal the progress of a longer run: incumbent, bound and remaining time.

    Parameters
    ----------
    words
        A description of the run.
    variant
        The variant of its instance.
    limit_s
        The time limit of this run and of each later run.
    runs_behind
        The number of later runs.
    terms
        The terms of the objective.

    Yields
    ------
    Observer or None
        An observer for improvements; None if nothing is shown.
    """
    if is_quiet() or not sys.stderr.isatty():
        yield None
        return
    known: dict[str, Number] = {}
    begun_s = time.monotonic()

    def line() -> str:
        elapsed_s = time.monotonic() - begun_s
        said = [f"{words}: {elapsed_s:.0f} s"]
        if limit_s is not None:
            left_s = max(0.0, limit_s - elapsed_s) + runs_behind * limit_s
            said.append(f"at most {left_s:.0f} s left")
        values = {"incumbent": known.get("objective"), "bound": known.get("dual_bound")}
        said += [
            f"{name} {terms.in_words(value)}" for name, value in values.items() if value is not None
        ]
        return ", ".join(said)

    def look(ended: threading.Event) -> None:
        if ended.wait(SECONDS_BETWEEN_LOOKS):
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True)

        def shown() -> Text:
            return Text(line()[: console.width - WIDTH_OF_SPINNER])

        with console.status(shown()) as status:
            while not ended.wait(SECONDS_BETWEEN_LOOKS):
                status.update(shown())

    with _looking(look):
        yield Improvements(lambda kind, value, _solution=None: known.update({kind: value}), variant)


@contextmanager
def lines_until_done(line: Callable[[], str]) -> Iterator[None]:
    """Print `line()` and the elapsed time every 15 s, for logs of work whose total is unknown."""
    begun_s = time.monotonic()

    def look(ended: threading.Event) -> None:
        while not ended.wait(SECONDS_BETWEEN_LINES):
            print(f"{line()}, {time.monotonic() - begun_s:.0f} s gone", file=sys.stderr)

    with _looking(look):
        yield


@contextmanager
def _looking(look: Callable[[threading.Event], None]) -> Iterator[None]:
    """Call `look` in a thread with an event that is set at the end of the ``with`` block."""
    ended = threading.Event()
    thread = threading.Thread(target=look, args=[ended], daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def moment_in_words(time_s: float) -> str:
    """Return a simulated time in seconds as text, such as "hour 1.5" or "day 10.0".

    >>> moment_in_words(5400), moment_in_words(864_000)
    ('hour 1.5', 'day 10.0')
    """
    unit, seconds = ("hour", HOUR_S) if time_s < LONGEST_IN_HOURS_S else ("day", DAY_S)
    return f"{unit} {time_s / seconds:.1f}"


@contextmanager
def _shown(
    description: str, total: float, in_words: Callable[[float], str]
) -> Iterator[Callable[[float], None]]:
    """Show progress towards `total`; yield a function that takes the amount completed."""
    if is_notebook():
        yield _notebook_bar(description, total, in_words)
    elif sys.stderr.isatty():
        with _bar(description, total, in_words) as show:
            yield show
    else:
        yield _lines(description, total, in_words)


@dataclass
class _NotebookBar:
    """A progress bar that a notebook shows, or its words if the notebook cannot show HTML."""

    total: float
    done: float
    words: str

    def __repr__(self) -> str:
        return self.words

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.done:g}" max="{max(self.total, self.done):g}"></progress>'
        return f"{bar} {escape(self.words)}"


def _notebook_bar(
    description: str, total: float, in_words: Callable[[float], str]
) -> Callable[[float], None]:
    """Display a progress bar below the cell of a notebook; return a function that updates it."""
    from IPython.display import display

    started = time.monotonic()
    bar = _NotebookBar(total, 0, f"{description}: {in_words(0)}")
    handle = display(bar, display_id=True)

    def show(done: float) -> None:
        words = _with_time_left(in_words(done), time.monotonic() - started, done, total)
        bar.done, bar.words = done, f"{description}: {words}"
        handle.update(bar)

    return show


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
        BarColumn(bar_width=20),
        TextColumn("{task.fields[words]},"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left{task.fields[now]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        room = bar.console.width - WIDTH_OF_BAR - len(description)
        task = bar.add_task(description, total=total, words=in_words(0.0), now="")

        def show(done: float) -> None:
            now = f"; {words}"[: max(0, room)] if (words := words_of_run()) else ""
            ahead = max(done, total)
            bar.update(task, completed=done, total=ahead, words=in_words(done), now=now)

        yield show


def _lines(
    description: str, total: float, in_words: Callable[[float], str]
) -> Callable[[float], None]:
    """Return a function that prints a progress line at most every 15 s, for logs."""
    started = last_line = time.monotonic()

    def show(done: float) -> None:
        nonlocal last_line
        now = time.monotonic()
        if now - last_line >= SECONDS_BETWEEN_LINES and done > 0:
            last_line = now
            words = _with_time_left(in_words(done), now - started, done, total)
            print(f"{description}: {words}", file=sys.stderr)

    return show


def _with_time_left(words: str, elapsed_s: float, done: float, total: float) -> str:
    """Return the words on a run with the time that is left and the words that the run reported."""
    is_known = LEAST_SHARE_DONE * total <= done < total
    left = f", about {elapsed_s * (total / done - 1):.0f} s left" if is_known else ""
    return words + left + (f"; {told}" if (told := words_of_run()) else "")
