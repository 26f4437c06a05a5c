"""Limit the memory that is needed to read a file, for every reader of the toolkit.

A small compressed file can unpack to objects of many gigabytes. Readers therefore add up, while
they read, the memory of the text and of the objects that they make, and stop at a limit. The limit
leaves room for the interpreter and its libraries below 2 GB.
"""

from __future__ import annotations

import os
import re
import sys

from lyra_opt.core.errors import InputError, UserError, show_value

MEMORY_VARIABLE = "LYRA_OPT_READING_MIB"
"""Environment variable: how many MiB reading a file may need."""

DEFAULT_MIB = 1400
MIB = 2**20

_FOUR_BYTES = re.compile(rb"[\xf0-\xff]")
_TWO_BYTES = re.compile(rb"[\xc4-\xff]")

# Bytes of Python's objects, as `sys.getsizeof` gives them, and as CPython allocates them.
_STRING, _NUMBER = 64, 32
_SLOT = 18  # of a list, which is there twice while it grows
_EMPTY, _LIST, _OBJECT = 64, 96, 232
_KEY = 168  # the key itself, its entry in the object, and its pair while the object is made


def reading_limit_bytes() -> int:
    """Return how much memory reading a file may need.

    Raises
    ------
    UserError
        If the environment variable is not a number of MiB.
    """
    text = os.environ.get(MEMORY_VARIABLE, "")
    if not text:
        return DEFAULT_MIB * MIB
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 9 and int(text)):
        raise UserError(f"{MEMORY_VARIABLE} is {show_value(text)}: must be a number of MiB above 0")
    return int(text) * MIB


class ReadingMemory:
    """The memory that reading a file needs so far.

    Parameters
    ----------
    source
        The name of the file, for errors.
    used_bytes
        The memory of what was read before.
    """

    def __init__(self, source: str, used_bytes: int = 0) -> None:
        self._source, self._limit, self._used = source, reading_limit_bytes(), 0
        self.add(used_bytes)

    def add(self, count: int) -> None:
        """Add bytes.

        Raises
        ------
        InputError
            If all bytes together are more than the limit.
        """
        self._used += count
        if self._used > self._limit:
            raise InputError(
                self._source,
                f"needs more than {self._limit // MIB:,} MiB of memory to be read. Set the "
                f"environment variable {MEMORY_VARIABLE} to a larger number of MiB to read it",
            )


def require_memory_for_text(source: str, data: bytes) -> None:
    """Raise `InputError` if UTF-8 bytes and the text that they encode need too much memory."""
    width = 1
    if not data.isascii():
        width = 4 if _FOUR_BYTES.search(data) else 2 if _TWO_BYTES.search(data) else 1
    ReadingMemory(source, (1 + width) * len(data))


def require_memory_for_json(source: str, text: str) -> None:
    """Raise `InputError` if the objects of a JSON (or TOML) text need too much memory.

    The estimate counts brackets, commas, colons and quotation marks before anything is made, so it
    takes a small part of the time of parsing. Text within strings is counted as if it were outside.
    """
    opened, lists, colons = text.count("{"), text.count("["), text.count(":")
    empty = text.count("{}")
    values = text.count(",") + lists + opened
    strings = max(0, text.count('"') // 2 - colons)
    numbers = max(0, values - strings - lists - opened)
    ReadingMemory(
        source,
        sys.getsizeof(text)
        + _STRING * strings
        + _NUMBER * numbers
        + _SLOT * values
        + _KEY * colons
        + _LIST * lists
        + _EMPTY * empty
        + _OBJECT * (opened - empty),
    )
