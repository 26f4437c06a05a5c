"""Files of the problem: what they hold comes back, and what is wrong in one is named."""

from lyra_opt.network.instance import COUNTING_OBJECTIVES, Objective
from lyra_opt.network.problem import PROBLEM
from tests.lyra_opt.network.examples import instance, job, placement, solution


def test_every_objective_is_maximised():
    """Those that count are proved exactly."""
    for objective in Objective:
        assert objective.sense == "max"
        assert (objective.proof_gap < 1e-6) == (objective in COUNTING_OBJECTIVES)


def test_order_of_an_answer():
    """Jobs and machines as in the file."""
    one = instance(job("a"), job("b"))
    mixed = solution(placement("b", "rack", r0m1=1, r0m0=1), placement("a", "machine", r1m0=2))
    shown = PROBLEM.answer(one, mixed)["placements"]
    assert [entry["job"] for entry in shown] == ["a", "b"]
    assert list(shown[1]["gpus"]) == ["r0m0", "r0m1"]
