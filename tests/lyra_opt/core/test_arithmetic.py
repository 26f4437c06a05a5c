"""Exact sums, and products that are added up in the same order on every processor."""

import ast
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt
from lyra_opt.core import kernels
from lyra_opt.core.arithmetic import FractionTerms, exact_sum, product
from lyra_opt.core.kernels import kernel


@kernel
def _unused():
    """Stand for any kernel."""


@pytest.mark.parametrize("compiled", [False, True])
def test_limbs_are_the_fractions(compiled, monkeypatch):
    """High * radix + low over the common denominator, in both forms."""
    monkeypatch.setattr(kernels, "COMPILE_FROM_WORK", 0 if compiled else 10**18)

    weights = st.integers(0, 5) | st.integers(0, 2**53 - 1)  # few different ones, and many

    @given(st.lists(st.tuples(weights, st.integers(0, 90)), max_size=8))
    def equal(pairs):
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
def test_sum_beyond_64_bits(values):
    """As Python adds them up, in both forms of array."""
    for dtype in (np.int64, object):
        assert exact_sum(np.array(values, dtype=dtype)) == sum(values)


def test_kernels_run_interpreted_where_integers_could_overflow():
    """A kernel is compiled only if it is large enough and fits in 64 bits."""
    assert not _unused.compiles(kernels.COMPILE_FROM_WORK - 1, largest=0)
    assert _unused.compiles(kernels.COMPILE_FROM_WORK, largest=0)
    assert not _unused.compiles(10**9, largest=2**62)


PACKAGES = ("heterogeneous", "network", "pricing", "simulation")
"""Those whose products decide who runs where."""
BLAS = {"dot", "vdot", "inner", "matmul", "tensordot", "einsum"}
ONLY_DRAWN = {"plot.py"}


@pytest.mark.parametrize(
    ("left", "right"), [((7,), (7,)), ((5, 7), (7,)), ((7,), (7, 3)), ((5, 7), (7, 3))]
)
def test_it_is_the_product(left, right):
    """Of vectors and matrices, in each combination."""
    rng = np.random.default_rng(3)
    one, other = rng.random(left), rng.random(right)
    assert product(one, other) == pytest.approx(one @ other)
    assert product(one, other).shape == (one @ other).shape


def test_no_decision_hangs_on_blas():
    """No package that decides uses ``@`` or a function of NumPy that calls BLAS."""
    found = []
    for package in PACKAGES:
        for path in sorted(Path(lyra_opt.__file__).parent.joinpath(package).rglob("*.py")):
            nodes = [] if path.name in ONLY_DRAWN else ast.walk(ast.parse(path.read_text()))
            found += [
                f"{path.name}:{node.lineno}"
                for node in nodes
                if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult))
                or (isinstance(node, ast.Attribute) and node.attr in BLAS)
            ]
    assert found == []
