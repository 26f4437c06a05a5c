"""Messages of commands on stderr, at the chosen level of detail.

A full or closed stderr does not end a command; text that cannot be written is dropped.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from shutil import get_terminal_size
from traceback import print_exception
from typing import Any, TextIO

from lyra_opt.core.errors import one_line
from lyra_opt.core.folding import fold


class Loudness(IntEnum):
    """The level of detail of messages on stderr."""

    QUIET = 0
    """Errors only."""
    USUAL = 1
    """Errors, remarks and progress."""
    VERBOSE = 2
    """Also the log of each step, from the loggers below ``lyra_opt``."""
    DEBUG = 3
    """Also tracebacks."""


_LEVELS = {
    Loudness.QUIET: logging.ERROR,
    Loudness.USUAL: logging.WARNING,
    Loudness.VERBOSE: logging.INFO,
    Loudness.DEBUG: logging.DEBUG,
}
_loudness = [Loudness.USUAL]

INDENT = "  "
"""The indent of continuation lines in a terminal that is too narrow for a message."""


class _OnStderr(logging.Handler):
    """A log handler that writes to the current stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record as one line."""
        _write(self.format(record))


@contextmanager
def as_loud_as(loudness: Loudness) -> Iterator[None]:
    """Set the level of detail of messages on stderr within a ``with`` block."""
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
    """Return the current level of detail of messages on stderr."""
    return _loudness[-1]


def is_quiet() -> bool:
    """Return whether only errors are printed."""
    return loudness() is Loudness.QUIET


def say(text: str) -> None:
    """Print a remark, unless only errors are printed; a notebook shows it as ordinary text.

    Notebooks show text on stderr in red, like an error.
    """
    if is_quiet():
        return
    if is_notebook():
        print(one_line(text))
    else:
        _write(text)


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which shows HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def complain(text: str) -> None:
    """Print an error, at every level of detail."""
    _write(text)


def write_traceback(of: str, traceback: str | None) -> None:
    """Print a stored traceback below the heading `of`, if the command runs with ``--debug``."""
    if traceback is not None and loudness() is Loudness.DEBUG:
        print(f"{of}\n{traceback}", file=sys.stderr)


def show_traceback(error: BaseException, of: str = "") -> None:
    """Print the tracebacks of an error and its causes, if the command runs with ``--debug``."""
    if loudness() is Loudness.DEBUG:
        each: BaseException | None = error
        while each is not None:  # `raise ... from None` hides the causes, which are shown here
            each.__suppress_context__ = False
            each = each.__context__
        print(of, end="\n" * bool(of), file=sys.stderr)
        print_exception(error)


def _write(text: str) -> None:
    if sys.stderr is None:  # closed by the parent process; `print` would write to stdout
        return
    line = f"lyra-opt: {one_line(text)}"
    if sys.stderr.isatty():
        width = get_terminal_size().columns - len(INDENT)
        line = f"\n{INDENT}".join(fold(line, width, keeps_words=True))
    print(line, file=sys.stderr)


STANDARD_DESCRIPTORS = (0, 1, 2)


class _Forgiving:
    """A text stream that drops text that it cannot write."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        with suppress(ValueError):  # it is closed
            return self._stream.isatty()
        return False

    def write(self, text: str) -> int:
        """Write text, or drop it if that fails."""
        try:
            self._stream.write(text)
        except (OSError, ValueError):
            self._give_up()
        return len(text)

    def flush(self) -> None:
        """Write the buffered text, or drop it if that fails."""
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._give_up()

    def _give_up(self) -> None:
        """Redirect the stream to the null device, so that flushing at exit does not fail."""
        with suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), self._stream.fileno())
            self._stream.flush()


@contextmanager
def forgiving_stderr() -> Iterator[None]:
    """Discard text that cannot be written to stderr, within a ``with`` block.

    Closed standard descriptors are opened on the null device. Otherwise the next file to be opened,
    such as a store, would get the number of stderr, and native code would write into the file.
    """
    for descriptor in STANDARD_DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
    given = sys.stderr
    sys.stderr = _Forgiving(given or open(os.devnull, "w"))  # noqa: PTH123, SIM115
    try:
        yield
    finally:
        sys.stderr = given
