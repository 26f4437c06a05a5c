"""Texts of bounds are never stronger claims than the bounds themselves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.numbers import DOWN, MINUS, UP, percent, six_digits, three_digits

NOISE = 1e-11
"""Relative size of the last digits, which a directed rounding ignores."""


@pytest.mark.parametrize("show", [three_digits, six_digits, percent])
@given(st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 0.1))
def test_directed_roundings_enclose_the_number(show, value):
    """The two texts lie around the number; the text rounded to nearest is one of them."""
    texts = [show(value, rounding=rounding) for rounding in (DOWN, UP)]
    low, high = (float(text.replace(",", "").replace(MINUS, "-")) for text in texts)
    assert low - NOISE * abs(value) <= value <= high + NOISE * abs(value)
    assert show(value) in texts
