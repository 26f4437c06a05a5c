"""Read the rows of CSV text, and write cells that a spreadsheet does not run.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return is a formula for a
spreadsheet. Such a text cell is written with an apostrophe in front, as is one that begins with
apostrophes before such a character. Reading removes one apostrophe, so no text changes.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_ROW = 2**20
"""Characters of a row; those of a single field are limited by Python's own reader."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_SAFE_FORMULA = re.compile(r"'+[=+\-@\t\r]")


def csv_rows(source: str, text: str) -> Iterator[list[str]]:
    """Yield the rows of CSV text one after the other, empty lines included.

    Raises
    ------
    InputError
        If the text is not valid CSV, a row has more than `LONGEST_ROW` characters, or semicolons or
        tabs separate the columns of the first row.
    """
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        for line in _LINE.finditer(text):
            size += line.end() - line.start()
            if size > LONGEST_ROW:
                raise InputError(source, f"has a row of more than {LONGEST_ROW:,} characters")
            yield line[0]

    rows = csv.reader(lines(), strict=True)
    try:
        for number, row in enumerate(rows):
            size = 0
            if not number and len(row) == 1:
                require_commas(source, row[0])
            yield row
    except csv.Error as error:
        raise InputError(source, f"is not valid CSV: {error} (line {rows.line_num})") from None


def require_commas(source: str, header: str) -> None:
    """Raise `InputError` if the first row, read as one field, has columns between other signs."""
    for sign, shown in ((";", "';'"), ("\t", "tabs")):
        if sign in header:
            raise InputError(source, f"columns are separated by {shown}: use ','")


def safe_cell(cell: object) -> object:
    """Return a cell as it is written into CSV: text never begins like a formula.

    >>> safe_cell("=1+1"), safe_cell("job-1"), safe_cell(-5)
    ("'=1+1", 'job-1', -5)
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def cell_as_given(cell: object) -> object:
    """Return the text that `safe_cell` was given, from the cell that it returned."""
    return cell[1:] if isinstance(cell, str) and _SAFE_FORMULA.match(cell) else cell
