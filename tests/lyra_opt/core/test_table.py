"""One table in every format: raw numbers for programs, a paper's digits for people."""

import csv
import io
import json
import math
import shutil

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.core.numbers import count, percent, signed, three_digits
from lyra_opt.core.table import FORMATS, LATEX_SIGNS, Column, Table, as_text, run_times
from tests.latex import compile_latex, rows_of_latex

TABLE = Table(
    [
        Column(key="solver", values=["lyra_greedy", "a|b & 50%", "=1+1"]),
        Column(key="jct_mean_s", values=[141318.25, math.nan, np.float64(0.25)], show=three_digits),
        Column(
            key="excess_percent",
            values=[1.26, math.inf, -0.0004],
            show=signed(percent),
            heading="Excess",
            unit="%",
        ),
        run_times("wall_time_s", [0.0021, 0.25, None]),
        Column(key="jobs", values=[np.int64(12345), 7, 7.5], show=count),
    ],
    title="Three solvers",
)


def test_programs_get_raw_numbers_and_machine_names():
    """Protects scripts from rounding, from headings, and from words in place of numbers."""
    records = json.loads(TABLE.text("json"))
    assert list(records[0]) == ["solver", "jct_mean_s", "excess_percent", "wall_time_s", "jobs"]
    assert records[0]["jct_mean_s"] == 141318.25
    assert records[1] == dict(zip(records[0], ["a|b & 50%", None, None, 0.25, 7], strict=True))
    rows = list(csv.reader(io.StringIO(TABLE.text("csv"))))
    assert rows[0] == list(records[0])
    assert rows[2:] == [
        ["a|b & 50%", "", "inf", "0.25", "7"],
        ["'=1+1", "0.25", "-0.0004", "", "7.5"],
    ]
    assert list(TABLE.frame().columns) == rows[0]


def test_people_get_the_digits_and_units_of_a_paper():
    """Protects tables in pages and papers from raw digits and from columns without a unit."""
    assert TABLE.text("markdown").splitlines() == [
        "Three solvers",
        "",
        "| solver | JCT mean (s) | Excess (%) | wall time (ms) | jobs |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| lyra_greedy | 141,318 | +1.3 | 2.10 | 12,345 |",
        r"| a\|b & 50% | – | +∞ | 250 | 7 |",
        "| =1+1 | 0.250 | −0.0 | – | 7.50 |",
    ]
    assert rows_of_latex(TABLE.text("latex")) == [
        [
            ["solver", "JCT mean (s)", r"Excess (\%)", "wall time (ms)", "jobs"],
            [r"lyra\_greedy", "141,318", "+1.3", "2.10", "12,345"],
            [r"a$|$b \& 50\%", "--", r"+$\infty$", "250", "7"],
            ["=1+1", "0.250", "$-$0.0", "--", "7.50"],
        ]
    ]
    with pytest.raises(UserError, match="did you mean latex"):
        TABLE.text("latec")


@given(st.lists(st.tuples(st.text(), st.floats()), min_size=1, max_size=3), st.text())
@example([("0/" + 20 * "\x1f", 0.0)], "")  # a word that is longer than a line when escaped
def test_every_text_is_written_so_that_each_format_can_be_read(rows, title):
    """Protects LaTeX, CSV and Markdown from the signs that names in instances can have."""
    words, numbers = zip(*rows, strict=True)
    table = Table(
        [
            Column(key="name", values=words),
            Column(key="value", values=numbers, show=three_digits),
            Column(key="remark", values=words, show=as_text),
        ],
        title,
    )
    assert {len(found) for found in rows_of_latex(table.text("latex"))} == {len(rows) + 1}
    assert len(list(csv.reader(io.StringIO(table.text("csv"), newline="")))) == len(rows) + 1
    assert len(json.loads(table.text("json"))) == len(rows)
    assert len(table.text("markdown").splitlines()) == len(rows) + 2 + 2 * bool(table.title)
    assert set(FORMATS) == {"table", "json", "csv", "markdown", "latex"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path):
    """Protects a paper from a table that stops its compilation, whatever signs a name has."""
    names = [*LATEX_SIGNS, *map(chr, range(0x20, 0x180)), "--", "?`", "中文", "*", "[1]"]
    hard = Table(
        [
            Column(key="name", values=names),
            Column(key="value", values=[2e-7] * len(names), show=three_digits),
        ],
        "signs\n% \\end{tabular}",
    )
    pages = [hard.columns[0].values[at : at + 40] for at in range(0, len(names), 40)]
    split = [Table([Column(key="name", values=page)]).text("latex") for page in pages]
    compile_latex("\n\n".join([TABLE.text("latex"), *split]), tmp_path)
    rows_of_latex(hard.text("latex"))
