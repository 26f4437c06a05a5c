"""The paper's worked examples of allocation."""

from __future__ import annotations

from collections import Counter

from paper_figures.comparison import Verdict
from paper_figures.lyra import figure_6


def test_figure_6() -> None:
    """Weight and value of all five items."""
    comparison = figure_6.compare()
    assert Counter(entry.verdict for entry in comparison.entries) == {Verdict.REPRODUCED: 10}
