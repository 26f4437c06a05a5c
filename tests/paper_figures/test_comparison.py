"""The verdict follows its rule, and nothing else."""

from __future__ import annotations

import math

import pytest

from lyra_opt.paper_figures.comparison import Comparison, Entry, Verdict, gain, verdict_of_gains


@pytest.mark.parametrize(
    ("paper", "ours", "verdict"),
    [
        (1.5, 1.64, Verdict.REPRODUCED),
        (1.5, 1.66, Verdict.SAME_DIRECTION),
        (1.5, 1.36, Verdict.REPRODUCED),
        (1.5, 1.02, Verdict.SAME_DIRECTION),
        (1.5, 1.005, Verdict.DIFFERS),
        (1.05, 0.97, Verdict.DIFFERS),  # within 10 %, but the other way
        (0.8, 0.85, Verdict.REPRODUCED),
        (0.8, 0.5, Verdict.SAME_DIRECTION),
        (1.0, 1.009, Verdict.REPRODUCED),
        (1.0, 1.02, Verdict.DIFFERS),
        (1.5, math.inf, Verdict.SAME_DIRECTION),
        (math.inf, math.inf, Verdict.REPRODUCED),
        (math.inf, 1.0, Verdict.DIFFERS),
    ],
)
def test_verdict_of_gains(paper: float, ours: float, verdict: Verdict) -> None:
    """Direction first, then 10 %."""
    assert verdict_of_gains(paper, ours) is verdict


def test_gain_of_less_and_of_more() -> None:
    """Queuing times gain by falling, usage by rising; 0 against 0 is no change."""
    assert gain(300, 200) == 1.5
    assert gain(0.5, 0.75, more_is_better=True) == 1.5
    assert gain(0, 0) == 1
    assert gain(5, 0) == math.inf
    assert gain(0, 5) == 0


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (3300.0, Verdict.REPRODUCED),
        (2800.0, Verdict.REPRODUCED),
        (3400.0, Verdict.DIFFERS),
        (None, Verdict.NOT_RUN),
    ],
)
def test_values_without_a_reference(ours: float | None, verdict: Verdict) -> None:
    """Within 10 % of the paper's, or not."""
    assert Entry.simulated("Baseline", "queue", "3072", ours).verdict is verdict


def test_compared_entry_shows_both_gains() -> None:
    """The value is far from the paper's, and the gain is the same."""
    entry = Entry.compared("Lyra", "q", "2010", 1.0, paper_reference="3072", our_reference=1.5)
    assert entry.verdict is Verdict.REPRODUCED
    page = Comparison(name="n", title="T", entries=[entry]).as_markdown()
    assert "| Lyra | q | 2010 | 1 | 0.000 | 1.53 | 1.5 | reproduced |" in page


def test_not_run_is_shown_and_counted() -> None:
    """A scheme that is not there is no zero."""
    entry = Entry.compared("x", "q", "5", None, paper_reference="6", our_reference=2.0)
    page = Comparison(name="n", title="T", entries=[entry], is_wide=True).as_markdown()
    assert entry.verdict is Verdict.NOT_RUN
    assert "1 entry: 1 not run." in page
    assert "| x | 5 / – |" in page


def test_spread_is_shown() -> None:
    """The least and the greatest over seeds."""
    entry = Entry.simulated("Baseline", "queue", "3072", 3000.4, spread=(2000.0, 4000.0))
    assert entry.our_value_in_words() == "3000 (2000 to 4000)"


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
