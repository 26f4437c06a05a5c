"""How copies of a job share its steps: by their speed, so that all end at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.job_run import Copies, steps_within, time_of_steps

COPIES = st.lists(st.tuples(st.floats(0.01, 100), st.floats(0, 50)), min_size=1, max_size=5)


@given(steps=st.floats(0.1, 1e4), rates=st.lists(st.floats(0.01, 100), min_size=1, max_size=5))
def test_forking_costs_nothing_where_it_is_free(steps: float, rates: list[float]) -> None:
    """Without costs, one more copy never delays a single job."""
    times_s = [
        time_of_steps(steps, rates[:count], [0.0] * count) for count in range(1, len(rates) + 1)
    ]
    assert times_s == sorted(times_s, reverse=True)


@given(copies=COPIES, time_s=st.floats(60, 1000))
def test_time_and_steps_are_inverse(copies: list[tuple[float, float]], time_s: float) -> None:
    """The two directions of the division agree."""
    rates, lost_s = (list(column) for column in zip(*copies, strict=True))
    steps = steps_within(time_s, rates, lost_s)
    assert time_of_steps(steps, rates, lost_s) == pytest.approx(time_s)


@given(copies=COPIES, steps=st.floats(1, 1e5), merge_s=st.sampled_from((0.0, 5.0)))
def test_a_while_of_copies(copies: list[tuple[float, float]], steps: float, merge_s: float) -> None:
    """They complete within it, after the merge, or leave what they did not do."""
    rates, lost_s = (list(column) for column in zip(*copies, strict=True))
    trains_s = 100.0
    found = Copies(rates, lost_s, trains_s=trains_s, merge_s=merge_s, began_s=1000.0, left=steps)
    assert found.left_at(1000.0) == steps
    assert found.left_at(1040.0) == pytest.approx(
        max(0.0, steps - steps_within(40.0, rates, lost_s))
    )
    after_s = found.completes_after_s(1e-9 * steps)
    if after_s is None:
        assert found.left_at(1000.0 + trains_s) > 0
        assert found.left_at(1e9) == found.left_at(1000.0 + trains_s), "it trains no longer"
    else:
        assert merge_s < after_s <= trains_s + merge_s
        assert steps_within(after_s - merge_s, rates, lost_s) == pytest.approx(steps)
