"""What several runs prove together: distances in words, and contradictions by name.

Contradictions are covered where studies name them, `tests.experiments.test_contradictions`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation.instance import Objective
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.gaps import relative_gap
from lyra_opt.core.result import Status
from lyra_opt.reclaim.instance import Semantics
from tests.tables import tables

FEASIBLE, UNKNOWN = Status.FEASIBLE, Status.UNKNOWN
MINIMISED = Semantics.RIGID
VARIANTS = {"minimised": MINIMISED, "maximised": Objective.JCT_REDUCTION}


CASES = tables(__file__)


@pytest.mark.parametrize("case", CASES)
def test_distances_in_words(case):
    """Never an infinite number, and never nothing where there is a solution."""
    table = CASES[case]
    claims = [Claim(name, Status(status), *values) for name, status, *values in table["claims"]]
    evidence = Evidence(claims, VARIANTS[table.get("variant", "minimised")])
    assert [evidence.in_words(claim) for claim in claims] == table["words"]


def test_nothing_is_said_without_a_solution():
    """A bound alone is not a distance."""
    claim = Claim("a", UNKNOWN, None, 3)
    assert Evidence([claim], MINIMISED).in_words(claim) is None


@given(
    st.lists(
        st.tuples(st.none() | st.integers(-5, 20), st.none() | st.integers(-9, -5)),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 12),
)
def test_gaps_hold_for_every_optimum_that_is_possible(numbers, shift):
    """No optimum between best bound and best objective is further away than is said."""
    claims = [
        Claim(
            "a",
            UNKNOWN if value is None else FEASIBLE,
            None if value is None else value + shift,
            None if bound is None else bound + shift,
        )
        for value, bound in numbers
    ]
    evidence = Evidence(claims, MINIMISED)
    best, bound = evidence.best_objective, evidence.best_bound
    assert (evidence.optimum is not None) == (best is not None and best == bound)
    for claim in claims:
        gap = evidence.gap_to_optimum_at_most(claim.objective)
        to_best = evidence.gap_to_best(claim.objective)
        if claim.objective is None or best is None:
            assert gap is to_best is None
            continue
        assert to_best == relative_gap(claim.objective, best, MINIMISED)
        if bound is None:
            assert gap is None
            continue
        assert gap is not None
        for optimum in range(int(bound), int(best) + 1):
            assert relative_gap(claim.objective, optimum, MINIMISED) <= gap
