"""Messages of commands on stderr: as few or as many as the user wants.

A stderr that is full or closed ends nothing: what cannot be written is dropped.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import contextmanager, suppress
from enum import IntEnum
from shutil import get_terminal_size
from traceback import print_exception
from typing import TYPE_CHECKING, Any, TextIO

from lyra_opt.commands.folding import fold
from lyra_opt.core.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator


class Loudness(IntEnum):
    """How much is said."""

    QUIET = 0
    """Errors alone."""
    USUAL = 1
    """Remarks and progress too."""
    VERBOSE = 2
    """What is being done too: what the loggers below ``lyra_opt`` are told."""
    DEBUG = 3
    """Tracebacks too."""


_LEVELS = {
    Loudness.QUIET: logging.ERROR,
    Loudness.USUAL: logging.WARNING,
    Loudness.VERBOSE: logging.INFO,
    Loudness.DEBUG: logging.DEBUG,
}
_loudness = [Loudness.USUAL]

INDENT = "  "
"""Of further lines, where a terminal is too narrow for one."""


class _OnStderr(logging.Handler):
    """Writes to what stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        _write(self.format(record))


@contextmanager
def as_loud_as(loudness: Loudness) -> Iterator[None]:
    """Say so much meanwhile."""
    logger, handler = logging.getLogger("lyra_opt"), _OnStderr()
    level = logger.level
    _loudness.append(loudness)
    logger.setLevel(_LEVELS[loudness])
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        _loudness.pop()


def loudness() -> Loudness:
    """Return how much is said."""
    return _loudness[-1]


def is_quiet() -> bool:
    """Return whether nothing but errors is to be said."""
    return loudness() is Loudness.QUIET


def say(text: str) -> None:
    """Make a remark, which is not made if little is asked for."""
    if not is_quiet():
        _write(text)


def complain(text: str) -> None:
    """Say what is wrong, however little is asked for."""
    _write(text)


def write_traceback(of: str, traceback: str | None) -> None:
    """Write where something failed, as it was kept, if that is asked for."""
    if traceback is not None and loudness() is Loudness.DEBUG:
        print(f"{of}\n{traceback}", file=sys.stderr)


def show_traceback(error: BaseException, of: str = "") -> None:
    """Write where an error was raised, and those that it came of, if that is asked for."""
    if loudness() is Loudness.DEBUG:
        each: BaseException | None = error
        while each is not None:  # most are raised "from None", for the one line that people get
            each.__suppress_context__ = False
            each = each.__context__
        print(of, end="\n" * bool(of), file=sys.stderr)
        print_exception(error)


def _write(text: str) -> None:
    if sys.stderr is None:  # closed by whoever started this process; print would take stdout
        return
    line = f"lyra-opt: {one_line(text)}"
    if sys.stderr.isatty():
        width = get_terminal_size().columns - len(INDENT)
        line = f"\n{INDENT}".join(fold(line, width, keeps_words=True))
    print(line, file=sys.stderr)


STANDARD_DESCRIPTORS = (0, 1, 2)


class _Forgiving:
    """A text stream that drops what cannot be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Return whether a person reads along."""
        with suppress(ValueError):  # it is closed
            return self._stream.isatty()
        return False

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            self._stream.write(text)
        except (OSError, ValueError):
            self._give_up()
        return len(text)

    def flush(self) -> None:
        """Write what waits in the buffer, or drop it."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._give_up()

    def _give_up(self) -> None:
        """Let the buffer go nowhere, so that it does not fail again when the process ends."""
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), self._stream.fileno())
            self._stream.flush()


@contextmanager
def forgiving_stderr() -> Iterator[None]:
    """Drop meanwhile what cannot be written to stderr.

    Standard descriptors that are closed are opened to nowhere. Otherwise the next file that is
    opened, such as a store, would take the place of stderr, and native code would write into it.
    """
    for descriptor in STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest descriptor that is free
    given = sys.stderr
    sys.stderr = _Forgiving(given or open(os.devnull, "w"))  # noqa: PTH123, SIM115
    try:
        yield
    finally:
        sys.stderr = given
