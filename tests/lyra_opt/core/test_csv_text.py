"""CSV that a spreadsheet does not run, and rows that are read one by one."""

import csv
import io

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lyra_opt.core.csv_text import cell_as_given, csv_rows, frame_text, read_frame, safe_cell
from lyra_opt.core.errors import InputError

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''-1")


@given(st.text())
@example("'")
@example("''=")
def test_text_is_safe_and_comes_back_unchanged(text):
    """Whatever it begins with; a text that does not look like a formula is written as it is."""
    cell = safe_cell(text)
    assert isinstance(cell, str)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert cell_as_given(cell) == text
    assert cell == text or text.lstrip("'")[0] in "=+-@\t\r"


@pytest.mark.parametrize("kind", ["object", "str", "category"])
def test_frames_are_safe_and_come_back_unchanged(write, kind):
    """Names of columns too; numbers below 0 and missing values are no texts."""
    texts = [*FORMULAS, "NA", "None", "job-1", None]
    numbers = [-1.5, float("nan"), *range(-5, 5)]
    table = pd.DataFrame({"=id": pd.Series(texts, dtype=kind), "number": numbers})
    text = frame_text(table)
    header, first, *_ = csv.reader(io.StringIO(text, newline=""))
    assert header == ["'=id", "number"]
    assert first == ["'=1+1", "-1.5"]
    path = write(text.encode(), "table.csv")
    found = read_frame(path, {"'=id": str})
    assert list(found.columns) == ["=id", "number"]
    assert [None if pd.isna(each) else each for each in found["=id"]] == texts
    assert found.number.equals(table.number)


@given(st.lists(st.lists(st.text(max_size=4), min_size=2, max_size=3), min_size=1, max_size=5))
def test_rows_are_those_of_the_whole_text(rows):
    """Line breaks within fields, and all kinds of line ends, are as the standard library reads."""
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(rows)
    text = stream.getvalue()
    expected = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert list(csv_rows("x.csv", text)) == expected


def test_rows_are_refused_with_their_line():
    """As the file counts lines."""
    with pytest.raises(InputError, match=r"x\.csv: is not valid CSV: .* \(line 2\)"):
        list(csv_rows("x.csv", 'a,b\n"1"2,3\n'))
