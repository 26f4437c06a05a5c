"""Files of the problem: what they hold comes back, and what is wrong in one is named."""

from __future__ import annotations

from lyra_opt.core.loading import content_hash
from lyra_opt.network.instance import COUNTING_OBJECTIVES, Objective
from lyra_opt.network.problem import PROBLEM
from tests.lyra_opt.network.examples import instance, job, placement, solution
from tests.malformed import NETWORK_DOCUMENT


def test_every_objective_is_maximised() -> None:
    """Those that count are proved exactly."""
    for objective in Objective:
        assert objective.sense == "max"
        assert (objective.proof_gap < 1e-6) == (objective in COUNTING_OBJECTIVES)


def test_defaults_and_integers_are_the_same_content() -> None:
    """1 and 1.0 are one instance, and so are defaults that are written out."""
    plain = {**NETWORK_DOCUMENT, "jobs": [{"id": "a", "gang": 2, "efficiency": {"machine": 1}}]}
    written = {
        **plain,
        "jobs": [
            {
                **plain["jobs"][0],
                "efficiency": {"machine": 1.0},
                "score": 0,
                "rack_timer_s": 0,
                "weight": 1,
                "needs_consolidation": True,
            }
        ],
    }
    first, second = PROBLEM.parse_instance(plain), PROBLEM.parse_instance(written)
    assert content_hash(PROBLEM, first) == content_hash(PROBLEM, second)


def test_order_of_an_answer() -> None:
    """Jobs and machines as in the file."""
    one = instance(job("a"), job("b"))
    mixed = solution(placement("b", "rack", r0m1=1, r0m0=1), placement("a", "machine", r1m0=2))
    shown = PROBLEM.answer(one, mixed)["placements"]
    assert [entry["job"] for entry in shown] == ["a", "b"]
    assert list(shown[1]["gpus"]) == ["r0m0", "r0m1"]
