"""The page on gaps says what the differences say."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import pytest

from paper_figures.lyra.gaps import CHANGES, LOADS, MEASURES, Difference, GapReport
from paper_figures.simulations import ReclaimDecisions

if TYPE_CHECKING:
    from collections.abc import Sequence


def difference(*pairs: tuple[float, float]) -> Difference:
    """Return a difference in mean JCT."""
    return Difference(
        load="published load", change="exact reclaiming", measure="mean JCT", unit="s", pairs=pairs
    )


def test_interval_of_the_geometric_mean() -> None:
    """Student's t with two degrees of freedom: 4.3027 standard errors of the logarithms."""
    found = difference((100, 80), (200, 180), (50, 45))
    logarithms = [math.log(0.8), math.log(0.9), math.log(0.9)]
    mean, error = statistics.fmean(logarithms), statistics.stdev(logarithms) / 3**0.5
    assert found.percent == pytest.approx(100 * math.expm1(mean))
    assert found.interval_percent == pytest.approx(
        [100 * math.expm1(mean + sign * 4.302653 * error) for sign in (-1, 1)]
    )
    assert found.mean == -15
    assert found.lyra == pytest.approx(350 / 3)
    assert not found.is_felt  # -27 to +3 %
    assert found.points_one_way
    assert difference((100, 80), (100, 81), (100, 79)).is_felt


def test_one_seed_has_no_interval() -> None:
    """And nothing is claimed of it."""
    assert difference((100, 80)).interval_percent is None
    assert not difference((100, 80)).is_felt


def test_zero_is_not_felt() -> None:
    """Where nothing differs, the interval is the point 0."""
    found = difference((7, 7), (8, 8))
    assert not found.is_felt
    assert not found.points_one_way


def test_no_ratio_to_nothing() -> None:
    """Where nobody waits under Lyra, a percentage says nothing; the difference does."""
    found = difference((0, 3), (2, 2))
    assert found.percent is None
    assert found.percentages == ()
    assert not found.is_felt
    assert found.in_words() == "mean JCT +1.5 s in the mean"


def gap_report(values: Sequence[float]) -> GapReport:
    """Return a report in which every difference is the same."""
    return GapReport(
        differences=tuple(
            Difference(
                load=load,
                change=change.name,
                measure=measure,
                unit=unit,
                pairs=tuple((100.0, 100 + value) for value in values),
            )
            for load in LOADS
            for change in CHANGES
            for measure, (_, unit) in MEASURES.items()
        ),
        decisions=dict.fromkeys(LOADS, ReclaimDecisions(decisions=9, forced=4, suboptimal=1)),
        baseline={},
        seeds=len(values),
        setting_in_words="",
    )


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ((-1.0, -1.0, -1.1), "Yes, better in mean queuing time and mean JCT."),
        ((1.0, 1.0, 1.1), "Yes, worse in mean queuing time and mean JCT."),
        ((-1.0, 1.0, 0.0), "No, not beyond the spread over seeds."),
        ((-1.0, -9.0, -1.0), "Not settled by 3 seeds, which point one way."),
        ((-1.0,), "One seed shows no spread."),
    ],
)
def test_answers(values: Sequence[float], part: str) -> None:
    """The first words of an answer follow the intervals."""
    for answer in gap_report(values).answers():
        assert answer.question.endswith("?")
        assert len(answer.sentences) == len(LOADS)
        assert all(part in sentence for sentence in answer.sentences)


def test_decisions_in_words() -> None:
    """How often the greedy is not optimal, of the decisions in which it preempts anybody."""
    sentence = gap_report((1.0,)).decisions_in_words()[0]
    assert "1 of these (25.0 %)" in sentence
