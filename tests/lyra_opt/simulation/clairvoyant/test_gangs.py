"""Rounding never makes more room than there is, and bad input is one line."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.clairvoyant.gangs import Capacity, Gangs, microseconds

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


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"release_s": [-1.0]}, "release_s[0] is -1.0: must be finite, at least 0"),
        ({"run_s": [0.0]}, "run_s[0] is 0.0: must be finite, above 0"),
        ({"run_s": [float("nan")]}, "run_s[0] is NaN: must be finite, above 0"),
        (
            {"run_s": [1e13]},
            "run_s is 10000000000000.0: must be together, with the last release, less",
        ),
        ({"gpus": [0]}, "gpus[0] is 0: must be at least 1"),
        ({"gpus": [1, 1]}, "gpus is 2: must be a number for each of the 1 jobs"),
        ({"weight": [0.0]}, "weight is 0.0: must not be 0 for all jobs"),
    ],
)
def test_bad_jobs_are_one_line(changed: dict[str, list[float]], message: str) -> None:
    """The field, the value and the rule are named."""
    fields = {"release_s": [0.0], "run_s": [1.0], "gpus": [1], "weight": [1.0]}
    with pytest.raises(FieldError) as caught:
        Gangs.of(**{**fields, **changed})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("since_s", "gpus", "message"),
    [
        ([0.0], [-1], "gpus[0] is -1: must be at least 0"),
        ([1.0], [1], "since_s[0] is 1.0: must be 0"),
        ([0.0, 0.0], [1, 1], "since_s[1] is 0.0: must be finite and rise"),
        ([0.0], [], "gpus is 0: must be a number for each step"),
    ],
)
def test_bad_capacities_are_one_line(since_s: list[float], gpus: list[int], message: str) -> None:
    """The field, the value and the rule are named."""
    with pytest.raises(FieldError) as caught:
        Capacity(since_s=np.array(since_s), gpus=np.array(gpus, dtype=np.int64))
    assert str(caught.value).startswith(message)
