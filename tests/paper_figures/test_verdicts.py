"""The verdict follows its rule, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.paper_figures.verdicts import (
    RULE,
    Verdict,
    direction,
    gain,
    is_forbidden,
    verdict_of_digits,
    verdict_of_gains,
    verdict_of_values,
)
from tests.tables import tables

TABLES = tables(__file__)


def number(ours):
    """Return a number of a table, or None where nothing was run."""
    return None if ours == "none" else ours


positive = st.floats(1e-3, 1e3)
wide_spreads = st.tuples(positive, positive).map(lambda pair: (min(pair), max(pair)))


@pytest.mark.parametrize(("paper", "ours", "verdict"), TABLES["verdict_of_gains"])
def test_verdict_of_gains(paper, ours, verdict):
    """Direction first, then 10 %, 25 % and 2 times."""
    assert verdict_of_gains(paper, ours) is Verdict(verdict)


@pytest.mark.parametrize(("paper", "ours", "verdict"), TABLES["verdict_of_values"])
def test_verdict_of_values(paper, ours, verdict):
    """By themselves: what another row has is nothing to them."""
    assert verdict_of_values(paper, number(ours)) is Verdict(verdict)


@pytest.mark.parametrize(
    ("spread", "verdict"),
    [
        ((1.4, 2.2), Verdict.REPRODUCED),
        ((1.6, 2.2), Verdict.SAME_DIRECTION),
        ((1.2, 2.5), Verdict.SAME_DIRECTION),  # so wide that it would hold much
    ],
)
def test_spread_over_seeds_reproduces_what_it_holds(spread, verdict):
    """If it is narrow enough to say anything."""
    assert verdict_of_gains(1.5, 2.0, spread) is verdict


@given(positive, positive, wide_spreads)
def test_no_spread_turns_a_direction_round(paper, ours, spread):
    """And nothing that points the same way differs."""
    same = direction(paper) == direction(ours)
    assert (verdict_of_gains(paper, ours, spread) is Verdict.DIFFERS) is not same


@given(positive, positive)
def test_without_seeds_a_value_is_reproduced_within_a_tenth_alone(paper, ours):
    """Whatever its direction, unlike a gain."""
    found = verdict_of_values(paper, ours)
    assert (found is Verdict.REPRODUCED) is (abs(ours - paper) <= 0.1 * paper)


@pytest.mark.parametrize(("paper", "bound", "is_most", "forbidden"), TABLES["forbidden_by_a_bound"])
def test_a_bound_forbids_what_cannot_round_to_the_paper(paper, bound, is_most, forbidden):
    """Its printed digits are all that is known of the paper's number."""
    assert is_forbidden(paper, bound, is_most=is_most) is forbidden


def test_gain_of_less_and_of_more():
    """Queuing times gain by falling, usage by rising; 0 against 0 is no change."""
    assert gain(300, 200) == 1.5
    assert gain(0.5, 0.75, more_is_better=True) == 1.5
    assert gain(0, 0) == 1
    assert gain(5, 0) == math.inf
    assert gain(0, 5) == 0


@pytest.mark.parametrize(("paper", "ours", "verdict"), TABLES["verdict_of_digits"])
def test_verdict_to_the_printed_digits(paper, ours, verdict):
    """An entry is reproduced when it rounds to what the paper prints."""
    assert verdict_of_digits(paper, number(ours)) is Verdict(verdict)


def test_rule_has_a_word_on_every_verdict():
    """Who reads one in a table finds what it means."""
    text = " ".join(RULE)
    for verdict in set(Verdict) - {Verdict.NOT_RUN}:
        assert str(verdict) in text
