"""Unknown names, and the nearest known ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.nearest_names import meant, nearest
from tests.tables import tables

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


@pytest.mark.parametrize(("slip", "known", "meant"), tables(__file__)["meant"])
def test_numbers_and_parts_of_names_are_recognised(slip, known, meant):
    """A node is found without its leading zero or its domain, a solver by its last word."""
    assert (nearest(slip, known) or "none") == meant


@given(st.text(), st.lists(st.text()))
def test_what_is_meant_is_known(given, known):
    """Nothing is made up, whatever is given."""
    assert nearest(given, known) in (None, *known)
    if given in known:
        assert (nearest(given, known) or "").casefold() == given.casefold() or not given


@pytest.mark.parametrize(
    ("known", "text"), [(["exact", "cpsat"], "known: exact, cpsat"), ([], "known: none")]
)
def test_where_none_is_near(known, text):
    """All are named."""
    assert meant("zzz", known) == text
