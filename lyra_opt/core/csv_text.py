"""Read the rows of CSV text, and write cells that a spreadsheet does not execute as formulas.

A spreadsheet executes a cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage
return. Such a text cell is written with an apostrophe in front; so is a cell in which apostrophes
come before such a character. Reading removes one apostrophe, so no text changes.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from lyra_opt.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pandas as pd

LONGEST_ROW = 2**20
"""Most characters in a row; Python's own reader limits the length of a single field."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_SAFE_FORMULA = re.compile(r"'+[=+\-@\t\r]")


def csv_rows(source: str, text: str, separator: str = ",") -> Iterator[list[str]]:
    """Yield the rows of CSV text one by one, including empty lines.

    With another `separator` than a comma, quotation marks have no meaning.

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

    rows = csv.reader(
        lines(),
        strict=True,
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if separator == "," else csv.QUOTE_NONE,
    )
    try:
        for number, row in enumerate(rows):
            size = 0
            if not number and len(row) == 1 and separator == ",":
                require_commas(source, row[0])
            yield row
    except csv.Error as error:
        raise InputError(source, f"is not valid CSV: {error} (line {rows.line_num})") from None


def require_commas(source: str, header: str) -> None:
    """Raise `InputError` if semicolons or tabs separate the columns of a header row."""
    for sign, shown in ((";", "';'"), ("\t", "tabs")):
        if sign in header:
            raise InputError(source, f"columns are separated by {shown}: use ','")


def safe_cell(cell: object) -> object:
    """Return a cell for CSV, with an apostrophe before text that begins like a formula.

    >>> safe_cell("=1+1"), safe_cell("job-1"), safe_cell(-5)
    ("'=1+1", 'job-1', -5)
    """
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def cell_as_given(cell: object) -> object:
    """Return the original text of a cell that `safe_cell` returned."""
    return cell[1:] if isinstance(cell, str) and _SAFE_FORMULA.match(cell) else cell


def frame_text(table: pd.DataFrame) -> str:
    """Return a data frame as CSV text without its index; numbers are not rounded.

    Text that begins like a formula is written as `safe_cell` returns it. Missing values are empty
    fields.
    """
    safe = _with_texts(table, safe_cell)
    text: str = safe.to_csv(index=False, lineterminator="\n")
    if "\r" in text:  # pandas leaves a lone carriage return unquoted
        text = safe.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text


def read_frame(path: str | Path, dtype: Mapping[str, type]) -> pd.DataFrame:
    """Return the data frame in a CSV file of `frame_text`; text such as ``NA`` stays text.

    Parameters
    ----------
    path
        The file, which may be compressed.
    dtype
        Types of columns whose text may look like a number.
    """
    import pandas as pd

    table = pd.read_csv(path, dtype=dict(dtype), keep_default_na=False, na_values=[""])
    return _with_texts(table, cell_as_given)


def _with_texts(table: pd.DataFrame, change: Callable[[object], object]) -> pd.DataFrame:
    """Return a data frame with `change` applied to every text cell and every column name."""
    import pandas as pd

    changed = table.rename(columns=change)
    for place, kind in enumerate(changed.dtypes):
        if kind.kind == "O":
            cells = [change(cell) for cell in changed.iloc[:, place]]
            of_text = kind if isinstance(kind, pd.StringDtype) else object
            changed.isetitem(place, pd.Series(cells, index=changed.index, dtype=of_text))
    return changed
