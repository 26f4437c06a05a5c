"""No lie of a solver becomes an answer, and none does more harm than to its own row."""

from __future__ import annotations

import json
from itertools import islice, product
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import refute_claims, solve_and_check
from tests.draws import sampled
from tests.fuzz.judging import Truth, faults
from tests.fuzz.liars import CAUGHT_ALONE, CAUGHT_BESIDE, Liar
from tests.fuzz.running import variant_of
from tests.reference import PROBLEMS
from tests.reference.drawing import Draw

if TYPE_CHECKING:
    from lyra_opt.core.solving import Answer

LIES = {**CAUGHT_ALONE, **CAUGHT_BESIDE}
HONEST = {
    "allocation": "brute-force",
    "heterogeneous": "brute-force",
    "network": "brute-force",
    "preemption": "brute-force",
    "reclaim": "exact",
}
TOLD = 40
"""Instances of which each lie is told, over all problems and their variants in rounds; the most
that are drawn for one problem."""


def told_and_true(lie: str, problem: str, number: int) -> tuple[Answer, Answer] | None:
    """Return a liar's answer and an honest one; None where there is nothing to lie about."""
    draw = Draw(f"{lie} {problem} {number}")
    document = PROBLEMS[problem].drawn(draw, variant_of(problem, number), f"lie-{number}")
    truth, honest = Truth.of(problem, document), find_solver(problem, HONEST[problem])
    known = find_problem(problem)
    instance = known.parse_instance(document)
    answer = solve_and_check(known, instance, honest)
    if answer.status is not Status.OPTIMAL or not document.get("jobs", document.get("gangs")):
        return None
    assert list(faults(truth, honest, answer, Limits())) == []
    return solve_and_check(known, instance, Liar(honest, LIES[lie], draw, truth)), answer


@pytest.mark.parametrize(("lie", "problem"), sampled(product(LIES, PROBLEMS), 3))
def test_a_lie_is_never_an_answer(lie, problem):
    """It is an error in one line, at the latest beside another solver's solution."""
    drawn = (told_and_true(lie, problem, number) for number in range(TOLD))
    found = list(islice(filter(None, drawn), TOLD // len(PROBLEMS)))
    assert found
    for told, answer in found:
        assert lie in CAUGHT_BESIDE or told.status is Status.ERROR
        caught, kept = refute_claims([told, answer])
        assert kept is answer, "the honest answer is called wrong"
        assert caught.status is Status.ERROR
        assert caught.message
        assert "\n" not in caught.message
        assert (caught.solution, caught.objective, caught.dual_bound) == (None, None, None)
        for each in (told, caught):
            assert json.dumps(each.as_json_object("file"), allow_nan=False)
            assert "\n" not in repr(each)
            assert str(each)
