"""The one gap: relative to the reference, for either sense, never a percentage of nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation.instance import Objective
from lyra_opt.core.gaps import EXCESS, GAP, SHORTFALL, finite, gap_words, percent_text, relative_gap
from lyra_opt.reclaim.instance import Semantics

MINIMISED, MAXIMISED = Semantics.RIGID, Objective.JCT_REDUCTION


@pytest.mark.parametrize(
    ("objective", "reference", "variant", "gap"),
    [
        (0, 0, MINIMISED, 0.0),
        (4, 3, MINIMISED, 1 / 3),
        (3, 4, MINIMISED, -1 / 4),
        (3, 4, MAXIMISED, 1 / 4),
        (5, 0, MINIMISED, math.inf),
        (-2, -4, MINIMISED, 1 / 2),
        (10**400, 10**400 - 1, MINIMISED, 0.0),
        (1.0 + 1e-7, 1.0, Objective.MEAN_JCT, 0.0),
    ],
)
def test_gap(objective, reference, variant, gap):
    """(objective - reference) / |reference|, its opposite where the objective is maximised."""
    assert relative_gap(objective, reference, variant) == pytest.approx(gap)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_the_worse_objective_has_the_larger_gap(objective, reference):
    """Its sign says which of the two is better, whatever the sense."""
    for variant in (MINIMISED, MAXIMISED):
        gap = relative_gap(objective, reference, variant)
        assert (gap > 0) == variant.is_better(reference, objective)
        assert (gap == 0) == (objective == reference)


def test_json_has_no_infinite_gap():
    """Which no reader of JSON would take."""
    assert [finite(gap) for gap in (None, 0.0, 0.5, math.inf)] == [None, 0.0, 0.5, None]


@pytest.mark.parametrize(
    ("gap", "text"),
    [(0, "0.0 %"), (1e-7, "< 0.1 %"), (0.0667, "6.7 %"), (0.158, "15.8 %"), (31, "3,100.0 %")],
)
def test_percentages(gap, text):
    """A gap that is not proved to be 0 is not shown as 0."""
    assert percent_text(gap) == text


def test_words_depend_on_the_sense():
    """An excess is minimised, a shortfall maximised; both together are gaps."""
    assert gap_words() is gap_words("min", "min") is EXCESS
    assert gap_words("max") is SHORTFALL
    assert gap_words("max", "min") is GAP
