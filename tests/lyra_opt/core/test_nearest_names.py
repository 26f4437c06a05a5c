"""Unknown names, and the nearest known ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.nearest_names import meant, nearest

NAMES = ["brute-force", "cpsat", "exact", "lyra-greedy", "pulp-cbc"]


@given(st.sampled_from(NAMES), st.data())
def test_a_slip_is_recognised(name, data):
    """A letter that is wrong, missing or too many; capitals."""
    place = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("aexyz-_"))
    for slip in (
        name[:place] + letter + name[place + 1 :],
        name[:place] + name[place + 1 :],
        name[:place] + letter + name[place:],
        name.upper(),
    ):
        assert nearest(slip, NAMES) == name
        assert meant(slip, NAMES) == f"did you mean {name}?"


@pytest.mark.parametrize(
    ("slip", "known", "meant"),
    [
        ("gpu-5", ["gpu-55", "gpu-05", "gpu-15"], "gpu-05"),
        ("GPU-005", ["gpu-55", "gpu-5"], "gpu-5"),
        ("gpu-05", ["gpu-05.dc1.example.com", "gpu-06.dc1.example.com"], "gpu-05.dc1.example.com"),
        ("gredy", NAMES, "lyra-greedy"),
        ("h1000", ["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"], "NVIDIA-H100-80GB-HBM3"),
        ("rak", ["example.com/rack", "kubernetes.io/hostname"], "example.com/rack"),
        ("01", ["1", "01"], "01"),
        ("best", NAMES, None),
        ("", [".hidden", "a--b"], None),
    ],
)
def test_numbers_and_parts_of_names_are_recognised(slip, known, meant):
    """A node is found without its leading zero or its domain, a solver by its last word."""
    assert nearest(slip, known) == meant


@given(st.text(), st.lists(st.text()))
def test_what_is_meant_is_known(given, known):
    """Nothing is made up, whatever is given."""
    assert nearest(given, known) in (None, *known)
    if given in known:
        assert (nearest(given, known) or "").casefold() == given.casefold() or not given


@pytest.mark.parametrize(
    ("known", "text"),
    [(["exact", "cpsat"], "known: exact, cpsat"), ([], "known: none")],
)
def test_where_none_is_near(known, text):
    """All are named."""
    assert meant("zzz", known) == text
