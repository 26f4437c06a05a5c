"""Sums over a common denominator equal the fractions they stand for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core import kernels
from lyra_opt.core.exact_sums import FractionTerms, exact_sum
from lyra_opt.core.kernels import kernel


@kernel
def _unused() -> None:
    """Stand for any kernel."""


@pytest.mark.parametrize("compiled", [False, True])
def test_limbs_are_the_fractions(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """High * radix + low over the common denominator, in both forms."""
    monkeypatch.setattr(kernels, "COMPILE_FROM_WORK", 0 if compiled else 10**18)

    weights = st.integers(0, 5) | st.integers(0, 2**53 - 1)  # few different ones, and many

    @given(st.lists(st.tuples(weights, st.integers(0, 90)), max_size=8))
    def equal(pairs: list[tuple[int, int]]) -> None:
        weights = np.array([weight for weight, _ in pairs], dtype=np.int64)
        denominators = np.array([denominator for _, denominator in pairs], dtype=np.int64)
        terms = FractionTerms.of(weights, denominators)
        high, low, radix = terms.limbs(_unused, work=10**6)
        values = [int(h) * radix + int(lo) for h, lo in zip(high, low, strict=True)]
        assert all(0 <= lo < radix for lo in low)
        assert sum(values) == terms.total
        exact = [Fraction(w, d) if d else Fraction(0) for w, d in pairs]
        units = {
            Fraction(value) / fraction
            for value, fraction in zip(values, exact, strict=True)
            if fraction
        }
        assert len(units) <= 1  # one common denominator for all
        assert [value == 0 for value in values] == [fraction == 0 for fraction in exact]

    equal()


@given(st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 9), max_size=6))
def test_sum_beyond_64_bits(values: list[int]) -> None:
    """As Python adds them up, in both forms of array."""
    for dtype in (np.int64, object):
        assert exact_sum(np.array(values, dtype=dtype)) == sum(values)


def test_kernels_run_interpreted_where_integers_could_overflow() -> None:
    """A kernel is compiled only if it is large enough and fits in 64 bits."""
    assert not _unused.compiles(kernels.COMPILE_FROM_WORK - 1, largest=0)
    assert _unused.compiles(kernels.COMPILE_FROM_WORK, largest=0)
    assert not _unused.compiles(10**9, largest=2**62)
