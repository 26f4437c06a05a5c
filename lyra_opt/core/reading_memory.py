"""A limit on the memory that is needed to read a file, used by every reader of the toolkit.

A small compressed file can unpack to objects of many gigabytes. Readers therefore add up the memory
of the text and of the objects while they read, and stop at a limit. With the default limit the
whole process stays below 2 GB.
"""

import os
import re
import sys

from lyra_opt.core.errors import InputError, UserError, show_value

MEMORY_VARIABLE = "LYRA_OPT_READING_MIB"
"""The environment variable for the memory that reading a file may need, in MiB."""

DEFAULT_MIB = 1400
MIB = 2**20

_FOUR_BYTES = re.compile(rb"[\xf0-\xff]")
_TWO_BYTES = re.compile(rb"[\xc4-\xff]")

# Sizes of Python objects in bytes, from `sys.getsizeof` and the allocator of CPython.
_STRING, _NUMBER = 64, 32
_SLOT = 18  # per list entry; a growing list exists twice for a moment
_EMPTY, _LIST, _OBJECT = 64, 96, 232
_KEY = 168  # the key, its entry in the dictionary, and the pair from which the entry is made


def reading_limit_bytes() -> int:
    """Return the number of bytes of memory that reading a file may need.

    Raises
    ------
    UserError
        If the environment variable is not a positive whole number.
    """
    text = os.environ.get(MEMORY_VARIABLE, "")
    if not text:
        return DEFAULT_MIB * MIB
    if not (text.isascii() and text.isdigit() and 0 < len(text) <= 9 and int(text)):
        raise UserError(f"{MEMORY_VARIABLE} is {show_value(text)}: must be a number of MiB above 0")
    return int(text) * MIB


class ReadingMemory:
    """A counter of the memory needed to read one file.

    Parameters
    ----------
    source
        The name of the file, for errors.
    used_bytes
        The memory needed before.
    """

    def __init__(self, source: str, used_bytes: int = 0) -> None:
        self._source, self._limit, self._used = source, reading_limit_bytes(), 0
        self.add(used_bytes)

    def add(self, count: int) -> None:
        """Add bytes to the counter.

        Raises
        ------
        InputError
            If the total exceeds the limit.
        """
        self._used += count
        if self._used > self._limit:
            raise InputError(
                self._source,
                f"needs more than {self._limit // MIB:,} MiB of memory to be read. Set the "
                f"environment variable {MEMORY_VARIABLE} to a larger number of MiB to read it",
            )


def require_memory_for_text(source: str, data: bytes) -> None:
    """Raise `InputError` if UTF-8 bytes and the decoded text need too much memory together."""
    width = 1
    if not data.isascii():
        width = 4 if _FOUR_BYTES.search(data) else 2 if _TWO_BYTES.search(data) else 1
    ReadingMemory(source, (1 + width) * len(data))


def require_memory_for_json(source: str, text: str) -> None:
    """Raise `InputError` if the objects of a JSON (or TOML) text need too much memory.

    The estimate counts brackets, commas, colons and quotation marks before parsing, which takes a
    small part of the parsing time. Characters inside strings are counted as well.
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
