"""What is made of a backend's floats, whatever the backend."""

import math
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lyra_opt.core.result import Status, StoppedBy
from lyra_opt.formulations.exact_solver import next_multiple, proved_cost, result_of
from lyra_opt.heterogeneous import Objective
from lyra_opt.reclaim import Semantics
from lyra_opt.reclaim.heuristics.fast import Fast

INTEGERS = SimpleNamespace(variant=Semantics.RIGID)
"""An instance whose objectives are minimised; bounds and objectives here are integers."""


def safe_lower_bound(bound, step=1):
    """Return the least objective that a backend's bound leaves, with reclaiming's margin."""
    cost = proved_cost(bound, is_done=True, margin=1e-9)
    return 0 if cost is None else next_multiple(cost, step)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        *((6.86, 7), (7.0, 7), (7 + 9e-7, 7), (7 + 2e-6, 8), (6.999999999, 7), (0.0, 0), (-3.2, 0)),
        *((nothing, 0) for nothing in (None, math.inf, -math.inf, math.nan, -1.79769e308)),
    ],
)
def test_bound_is_rounded_up_but_never_over_a_tolerance(bound, expected):
    assert safe_lower_bound(bound) == expected


@given(st.integers(0, 10**15), st.integers(1, 10**6), st.floats(-1, 1))
@example(multiple=562949953421189, step=121, error=1.0)  # near 7e16 floats are 8 apart
def test_rounded_bound_never_exceeds_an_optimum_within_the_tolerances(multiple, step, error):
    """Whatever a backend is off by, up to its tolerances, the optimum stays at or above."""
    optimum = multiple * step
    claimed = float(Fraction(optimum) + Fraction(error) * max(Fraction(1, 10**6), optimum // 10**9))
    assert safe_lower_bound(claimed, step=step) <= optimum


def test_proof_survives_where_weights_have_a_large_common_divisor():
    """In steps of 10^9 a margin of 1e-9 * 10^12 = 1000 is nothing."""
    assert safe_lower_bound(1e12 - 700.0, step=10**9) == 10**12


def test_integer_bound_is_exact_and_needs_no_margin():
    assert safe_lower_bound(10**15) == 10**15
    assert safe_lower_bound(1e15) == 10**15 - 10**6
    assert safe_lower_bound(-3) == 0


def test_only_a_bound_that_meets_the_objective_is_a_proof():
    assert result_of(INTEGERS, ("x", 5), 5).status is Status.OPTIMAL
    assert result_of(INTEGERS, ("x", 5), 4).status is Status.FEASIBLE
    limited = result_of(INTEGERS, ("x", 5), 4, stopped_by=StoppedBy.TIME)
    assert (limited.dual_bound, limited.stopped_by) == (4, StoppedBy.TIME)


def test_contradicting_bound_is_passed_on():
    """The checker of claims has to see it; cutting it off at 5 would hide a wrong solver."""
    refuted = result_of(INTEGERS, ("x", 5), 6)
    assert (refuted.status, refuted.dual_bound) == (Status.FEASIBLE, 6)


def test_a_proof_at_the_limit_is_a_proof():
    """Which limit ended the run is told all the same."""
    proved = result_of(INTEGERS, ("x", 5), 5, stopped_by=StoppedBy.TIME)
    assert (proved.status, proved.stopped_by) == (Status.OPTIMAL, StoppedBy.TIME)


def test_floats_meet_within_the_proof_gap_of_the_variant():
    for objective, status in (
        (Objective.UTILITY, Status.OPTIMAL),
        (Objective.MAKESPAN, Status.FEASIBLE),
    ):
        one = SimpleNamespace(variant=objective)
        assert result_of(one, ("x", 1.0), 1.0 + 1e-7).status is status


def test_without_a_solution_only_an_infinite_bound_proves_that_there_is_none():
    assert result_of(INTEGERS, None, math.inf).status is Status.INFEASIBLE
    unknown = result_of(INTEGERS, None, 3, stopped_by=StoppedBy.TIME)
    assert (unknown.status, unknown.dual_bound) == (Status.UNKNOWN, 3)
    assert result_of(INTEGERS, ("x", 5), None).status is Status.FEASIBLE


def test_missing_module_is_named():
    solver = Fast()
    assert solver.availability() is None
    solver.modules = ("json", "no_such_package")
    assert "no_such_package" in solver.availability().reason
