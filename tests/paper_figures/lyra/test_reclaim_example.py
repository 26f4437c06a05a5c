"""The paper's worked example of reclaiming comes out to the last entry."""

from __future__ import annotations

from collections import Counter

import pytest

from paper_figures.comparison import Comparison, Entry, Verdict
from paper_figures.lyra import figure_5, table_1


def test_table_1() -> None:
    """All 18 entries."""
    comparison = table_1.compare()
    assert Counter(entry.verdict for entry in comparison.entries) == {Verdict.REPRODUCED: 18}


def test_figure_5() -> None:
    """The greedy's 1, 1, 2, 3, 3 preemptions, which are optimal."""
    comparison = figure_5.compare()
    assert [entry.ours for entry in comparison.entries] == 2 * [1, 1, 2, 3, 3]
    assert {entry.verdict for entry in comparison.entries} == {Verdict.REPRODUCED}


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        ("0.5", 0.5, Verdict.REPRODUCED),
        ("0.33", 1 / 3, Verdict.REPRODUCED),
        ("0.33", 0.34, Verdict.DIFFERS),
        ("1", 1.4, Verdict.REPRODUCED),
        ("1", 2.0, Verdict.DIFFERS),
    ],
)
def test_verdict_to_the_printed_digits(paper: str, ours: float, verdict: Verdict) -> None:
    """An entry is reproduced when it rounds to what the paper prints."""
    assert Entry.exact("row", "column", paper, ours).verdict is verdict


def test_page_shows_both_numbers_and_the_ratio() -> None:
    """A page is a table with a verdict for each entry."""
    entries = [Entry.exact("a", "b", "2", 3.0), Entry.exact("c", "d", "0", 0.0)]
    page = Comparison(name="n", title="T", entries=entries, notes=["mind this"]).as_markdown()
    assert "| a | b | 2 | 3 | 1.500 | differs |" in page
    assert "| c | d | 0 | 0 |  | reproduced |" in page
    assert "2 entries: 1 differs, 1 reproduced." in page
    assert page.endswith("- mind this\n")
