"""Rounding never makes more room than there is, and bad input is one line."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.clairvoyant.gangs import Capacity, microseconds

SECONDS = st.floats(0, 1e12, allow_subnormal=False) | st.integers(0, 10**9).map(float)


@given(SECONDS)
def test_microseconds_are_no_better_than_seconds(seconds: float) -> None:
    """Up is not below the exact value, down not above, and both within a microsecond or so."""
    exact = Fraction(seconds) * 10**6
    up = int(microseconds(np.array([seconds]), up=True)[0])
    down = int(microseconds(np.array([seconds]), up=False)[0])
    assert down <= exact <= up
    assert up - down <= 2 + exact / 2**50
    if seconds == int(seconds) and exact < 2**53:
        assert up == down


def test_steps_without_time_are_left_out() -> None:
    """Steps nearer to one another than a microsecond leave the last one, rises later than falls."""
    since_s = np.array([0.0, 1e-9, 2.5e-6, 4.5e-6, 4.9e-6])
    capacity = Capacity(since_s=since_s, gpus=np.array([4, 2, 6, 8, 1]))
    since, gpus = capacity.steps_us
    assert (since.tolist(), gpus.tolist()) == ([0, 3, 4], [2, 6, 1])
