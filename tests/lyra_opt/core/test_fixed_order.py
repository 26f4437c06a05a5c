"""Products that decide anything are added up in the same order on every processor."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import lyra_opt
from lyra_opt.core.fixed_order import product

PACKAGES = ("heterogeneous", "network", "pricing", "simulation")
"""Those whose products decide who runs where."""
BLAS = {"dot", "vdot", "inner", "matmul", "tensordot", "einsum"}
ONLY_DRAWN = {"plot.py"}


@pytest.mark.parametrize(
    ("left", "right"), [((7,), (7,)), ((5, 7), (7,)), ((7,), (7, 3)), ((5, 7), (7, 3))]
)
def test_it_is_the_product(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Of vectors and matrices, in each combination."""
    rng = np.random.default_rng(3)
    one, other = rng.random(left), rng.random(right)
    assert product(one, other) == pytest.approx(one @ other)
    assert product(one, other).shape == (one @ other).shape


def test_no_decision_hangs_on_blas() -> None:
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
