"""Quantities of Kubernetes against exact fractions."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.instances.snapshots.quantities import amount, exact
from tests.tables import tables

TABLES = tables(__file__)
POWERS = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@given(
    st.integers(0, 10**15), st.integers(0, 9), st.sampled_from([*POWERS, *BINARY]), st.booleans()
)
def test_a_quantity_is_its_number_times_its_suffix(digits, places, suffix, has_sign):
    text = (
        f"{'+' * has_sign}{digits // 10**places}.{digits % 10**places:0{max(places, 1)}d}{suffix}"
    )
    factor = Fraction(10) ** POWERS[suffix] if suffix in POWERS else Fraction(2) ** BINARY[suffix]
    number = Fraction(digits, 10**places) * factor
    assert exact(text) == number
    assert amount("memory", text) == ceil(number)
    assert amount("cpu", text) == ceil(number * 1000)


@given(st.integers(0, 10**6), st.integers(-30, 30), st.sampled_from("eE"))
def test_a_quantity_may_have_an_exponent(digits, exponent, letter):
    assert exact(f"{digits}{letter}{exponent}") == digits * Fraction(10) ** exponent


@pytest.mark.parametrize(("resource", "text", "units"), TABLES["amounts"])
def test_amounts_are_whole_units_rounded_up(resource, text, units):
    assert amount(resource, text) == units


@pytest.mark.parametrize(("text", "reason"), TABLES["refused"])
def test_other_text_is_refused_with_the_resource(text, reason):
    with pytest.raises(ValueError, match=f"^memory: .*{reason}"):
        amount("memory", text)
