"""A stderr that may be full or closed: messages are dropped, and the work goes on."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

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
