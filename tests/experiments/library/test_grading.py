"""Grades come of measured runs by one rule, and contradictions are never written down."""

from dataclasses import replace

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.library.grading import GradingRun, best_known
from lyra_opt.instances.library.documents import Grade, Proof
from lyra_opt.reclaim.instance import Semantics


def run(method, engine, *, time_s=0.1, objective=7, bound=7, is_exact=True, is_started=False):
    return GradingRun(
        id="a",
        sha256="0",
        method=method,
        engine=engine,
        is_exact=is_exact,
        is_started=is_started,
        status="optimal" if bound == objective else "feasible",
        objective=objective,
        dual_bound=bound,
        time_limit_s=10.0,
        time_s=time_s,
    )


def graded(*runs, certificate=None):
    return best_known("a", runs, Semantics.RIGID, "we", certificate)


def test_two_engines_within_a_second_make_it_easy():
    best = graded(run("exact", "own"), run("cpsat", "cp-sat"))
    assert (best.grade, best.proof) == (Grade.EASY, Proof.TWO_METHODS)
    assert best.proved_with == ("exact", "cpsat")


@pytest.mark.parametrize(
    ("runs", "proof"),
    [
        ([run("exact", "own")], Proof.ONE_METHOD),
        ([run("exact", "own"), run("exact-2", "own")], Proof.ONE_METHOD),
        ([run("exact", "own"), run("cpsat", "cp-sat", time_s=1.1)], Proof.TWO_METHODS),
        ([run("exact", "own"), run("cpsat", "cp-sat", bound=6)], Proof.ONE_METHOD),
        ([run("exact", "own"), run("cpsat", "cp-sat", is_started=True)], Proof.TWO_METHODS),
    ],
    ids=["one method", "one engine", "slowly", "one proof", "from the best known"],
)
def test_what_is_proved_and_not_easy_is_hard(runs, proof):
    best = graded(*runs)
    assert (best.grade, best.proof) == (Grade.HARD, proof)


def test_a_certificate_proves_what_no_bound_does():
    best = graded(run("exact", "own", bound=6), certificate="a.proof.json.gz")
    assert (best.grade, best.proof) == (Grade.HARD, Proof.CERTIFICATE)
    assert best.best_bound == 7


def test_open_is_what_bounds_do_not_meet():
    best = graded(run("exact", "own", bound=5), run("cpsat", "cp-sat", objective=8, bound=6))
    assert (best.grade, best.best_known, best.found_with) == (Grade.OPEN, 7, "exact")
    assert (best.best_bound, best.bound_with) == (6, "cpsat")


def test_the_run_with_the_most_time_counts():
    slow = run("cpsat", "cp-sat", bound=6)
    again = replace(slow, time_limit_s=20.0, dual_bound=7, status="optimal")
    best = graded(again, run("exact", "own"), slow)
    assert best.grade is Grade.EASY
    assert [each.time_limit_s for each in best.runs if each.method == "cpsat"] == [20.0]


def test_contradictions_are_refused():
    with pytest.raises(UserError, match="a: exact found objective 7, but cpsat"):
        graded(run("exact", "own"), run("cpsat", "cp-sat", objective=8, bound=8))


def test_a_proof_that_no_solution_exists_is_graded_as_that_of_an_optimum():
    """And runs contradict it that have a solution."""
    runs = [
        replace(run(*method), status="infeasible", objective=None, dual_bound=None)
        for method in (("exact", "own"), ("cpsat", "cp-sat"))
    ]
    best = graded(*runs)
    assert (best.status, best.grade, best.proof) == ("infeasible", Grade.EASY, Proof.TWO_METHODS)
    assert (best.best_known, best.best_bound, best.proved_with) == (None, None, ("exact", "cpsat"))
    with pytest.raises(UserError, match="a: gscip found objective 7, but exact claims"):
        graded(*runs, run("gscip", "scip"))


def test_nothing_is_known_without_a_solution():
    with pytest.raises(UserError, match="a: no solution was found"):
        graded(replace(run("exact", "own", bound=5), objective=None))
