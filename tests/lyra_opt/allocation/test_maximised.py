"""What is shared by all problems, on instances whose objective is maximised."""

from functools import partial

import pytest

from lyra_opt.allocation import WorkerAllocation
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.commands.solve import _best
from lyra_opt.core.result import Status
from lyra_opt.core.solving import refute_claims, solve_and_check
from lyra_opt.testing.conformance import assert_conforms
from tests.lyra_opt.allocation.examples import example
from tests.lyra_opt.scripted import Scripted

INSTANCE = example(objective="jct_reduction", gpus=4)
BEST, WORSE = WorkerAllocation((5, 3)), WorkerAllocation((4, 4))  # they are worth 110 and 105


class OfAllocation(Scripted):
    """The same for another problem, of which it proves nothing."""

    problem = "allocation"
    variants = ("jct_reduction",)
    exact_variants = ()


claim = partial(OfAllocation.claiming, Status.FEASIBLE)


def test_the_lower_of_two_bounds_is_kept():
    """The certificate of this instance is the optimum, the solver's own is worse."""
    answer = solve_and_check(PROBLEM, INSTANCE, claim(WORSE, 105.0, 200.0), certify=True)
    assert answer.dual_bound == pytest.approx(110)
    assert answer.status == "feasible"
    certified = solve_and_check(PROBLEM, INSTANCE, claim(BEST, 110.0), certify=True)
    assert certified.status == "optimal"


def test_a_false_bound_is_refuted_by_a_larger_value():
    """The best of several answers is the largest, and it is the one that is written."""
    lie = solve_and_check(PROBLEM, INSTANCE, claim(WORSE, 105.0, 105.0))
    truth = solve_and_check(PROBLEM, INSTANCE, claim(BEST, 110.0))
    assert [answer.status for answer in refute_claims([lie, truth])] == ["error", "feasible"]
    assert _best([lie, truth]) is truth


def test_conformance_sees_a_lost_start_and_forgives_rounding():
    """A smaller reduction than that of the start is worse; the last digit is not."""
    with pytest.raises(AssertionError, match="rule 9"):
        assert_conforms(claim(WORSE, 105.0), PROBLEM, INSTANCE, best_solution=BEST)
    with pytest.raises(AssertionError, match="rule 8"):
        assert_conforms(claim(BEST, 110.0, 115.0), PROBLEM, INSTANCE, optimum=116.0)
    rounded = claim(BEST, 110.00000000000001, 110.00000000000001)
    assert_conforms(rounded, PROBLEM, INSTANCE, optimum=110.0, best_solution=BEST)
