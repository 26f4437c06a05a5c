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

FEASIBLE, OPTIMAL, UNKNOWN = Status.FEASIBLE, Status.OPTIMAL, Status.UNKNOWN
MINIMISED, MAXIMISED = Semantics.RIGID, Objective.JCT_REDUCTION


def said(variant: Semantics | Objective, *claims: Claim) -> list[str | None]:
    evidence = Evidence(claims, variant)
    return [evidence.in_words(claim) for claim in claims]


def test_without_a_proof():
    """The best of this call, and what the best bound of this call leaves possible."""
    greedy, fast = Claim("greedy", FEASIBLE, 22), Claim("fast", FEASIBLE, 20, 19)
    assert said(MINIMISED, greedy, fast) == [
        "10.0 % over the best found, at most 15.8 % over the optimum",
        "the best found, at most 5.3 % over the optimum",
    ]


def test_a_refuted_bound_bounds_nothing():
    """It would make "at most 0 %" of what may be twice the optimum."""
    claims = [Claim("greedy", FEASIBLE, 10, 5), Claim("liar", FEASIBLE, 25, 20)]
    assert said(MINIMISED, *claims)[0] == "the best found, at most 100.0 % over the optimum"


def test_with_a_proof():
    """A heuristic beside a proof is so far from the optimum, or optimal, and by whose proof."""
    claims = [
        Claim("greedy", FEASIBLE, 16),
        Claim("lucky", FEASIBLE, 15),
        Claim("exact", OPTIMAL, 15, 15),
    ]
    assert said(MINIMISED, *claims) == [
        "6.7 % over the optimum",
        "optimal, proved by exact",
        "optimal",
    ]


def test_maximised():
    """Below, not over."""
    assert said(MAXIMISED, Claim("a", FEASIBLE, 15.0), Claim("b", OPTIMAL, 16.0, 16.0)) == [
        "6.2 % below the optimum",
        "optimal",
    ]


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ([Claim("a", FEASIBLE, 3)], "no bound on the optimum is known"),
        ([Claim("a", FEASIBLE, 3, 0)], "no percentage (the optimum may be 0)"),
        ([Claim("a", FEASIBLE, 3), Claim("b", OPTIMAL, 0, 0)], "no percentage (the optimum is 0)"),
        (
            [Claim("a", FEASIBLE, 3), Claim("b", FEASIBLE, 0, -1)],
            "no percentage (the best found is 0), no percentage (the optimum may be 0)",
        ),
        ([Claim("a", UNKNOWN, None, 3)], None),
    ],
)
def test_where_there_is_no_percentage(claims, words):
    """Words, never an infinite number, and never nothing where there is a solution."""
    assert said(MINIMISED, *claims)[0] == words


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
