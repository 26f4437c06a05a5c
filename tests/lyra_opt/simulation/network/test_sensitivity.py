"""Nw_sens: what it says of a job's life, whatever its pieces."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.network.sensitivity import network_sensitivity

pieces = st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.001, 1.0)), min_size=1, max_size=6)


@given(pieces, st.floats(1.0, 1e6))
def test_is_the_work_weighted_harmonic_mean_of_efficiencies(
    life: list[tuple[float, float]], ideal_s: float
) -> None:
    """A life of shares of the work, each done at an efficiency, in any number of pieces."""
    total = max(1.0, math.fsum(share for share, _ in life))
    shares = [(share / total, efficiency) for share, efficiency in life]
    done = math.fsum(share for share, _ in shares)
    running_s = math.fsum(share * ideal_s / efficiency for share, efficiency in shares)
    mean = done / math.fsum(share / efficiency for share, efficiency in shares)
    found = network_sensitivity(done_share=done, running_s=running_s, ideal_s=ideal_s)
    assert found == pytest.approx(mean, rel=1e-9)


def test_ends_of_the_scale() -> None:
    """Never run is 0 and comes first; never slowed is 1, rounding aside."""
    assert network_sensitivity(done_share=0.0, running_s=0.0, ideal_s=5.0) == 0.0
    assert network_sensitivity(done_share=0.3, running_s=3.0, ideal_s=10.0) == 0.9 + 0.1
    assert network_sensitivity(done_share=0.1, running_s=10.0, ideal_s=10.0) == 0.1
    assert network_sensitivity(done_share=1.0, running_s=9.999999, ideal_s=10.0) == 1.0
