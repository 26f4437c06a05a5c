"""`--certify`: a second method that shares nothing with the first, and says how far it got."""

from dataclasses import replace
from functools import partial

import pytest

import lyra_opt as lo
from lyra_opt.core import witnesses
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.result import Status, StoppedBy
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.solving import OWN_BOUND, Witness, evidence_of
from lyra_opt.core.witnesses import OWN_ENGINE, engine_of
from lyra_opt.reclaim import Solution
from tests.lyra_opt.scripted import claim

PROBLEM = find_problem("reclaim")
BAD = Solution(("s1", "s5"))  # it costs 3, the optimum is 1


certified = partial(lo.solve, certify=True)


def test_one_engine_is_one_witness():
    """HiGHS is HiGHS, whoever calls it; the searches made of our bounds are one with them."""
    engines = {name: engine_of(find_solver("reclaim", name)) for _, name in solver_names("reclaim")}
    highs = {name for name, engine in engines.items() if engine == "highs"}
    forms = ("", "-strengthened")
    assert highs == {f"{wrapper}-highs{form}" for wrapper in ("pulp", "mathopt") for form in forms}
    own = {"exact", "fast", "tabu", "peeling", "lyra-greedy"}
    assert {engines[name] for name in own} == {OWN_ENGINE}
    assert len({engines[name] for name in ("pulp-cbc", "cpsat", "mathopt-gscip", "exact")}) == 4
    assert engine_of(claim(Status.UNKNOWN)) == "scripted"


@pytest.mark.parametrize(
    ("problem", "name"), [pair for pair in solver_names() if find_solver(*pair).gives_bound]
)
def test_every_solver_with_a_bound_has_a_witness(problem, name):
    """Of another engine, for each variant that it takes: the problem's own bound, or a solver."""
    solver = find_solver(problem, name)
    if engine_of(solver) != OWN_ENGINE:
        return
    witnesses = [find_solver(problem, each) for each in problems()[problem].witnesses]
    for variant in solver.variants:
        assert any(
            variant in witness.variants and engine_of(witness) != OWN_ENGINE
            for witness in witnesses
        )


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("lyra-greedy", OWN_BOUND),  # it claims nothing
        ("pulp-cbc", OWN_BOUND),
        ("exact", "cpsat-strengthened"),  # its bounds are the problem's own
        ("fast", "cpsat-strengthened"),
    ],
)
def test_the_witness_is_another_method(figure_5, name, method):
    """And here it proves what the answer claims."""
    answer = certified(figure_5, name)
    assert answer.status is Status.OPTIMAL
    assert (answer.witness.method, answer.witness.dual_bound) == (method, 1)
    assert answer.witness.proves


def test_a_proof_that_the_own_bound_does_not_reach_asks_another_engine():
    """On a design the bound of prices is far off, so that CP-SAT confirms HiGHS."""
    instance = lo.generate("reclaim", "net", reclaim=6)
    assert PROBLEM.dual_bound(instance) < 8
    answer = certified(instance, "pulp-highs")
    assert (answer.status, answer.objective) == (Status.OPTIMAL, 8)
    assert (answer.witness.method, answer.witness.proves) == ("cpsat-strengthened", True)
    heuristic = certified(instance, "lyra-greedy")
    assert heuristic.witness.method == OWN_BOUND
    assert not heuristic.witness.proves
    assert str(heuristic.witness).startswith(f"{OWN_BOUND} is {heuristic.dual_bound}, in ")
    tightest = evidence_of([heuristic]).tightest
    assert tightest.bound_by == OWN_BOUND


def test_a_witness_that_did_not_run_proves_nothing(figure_5):
    """Bounds that models begin with are the toolkit's own, as those of `exact` are."""
    answer = certified(figure_5, "exact", time_limit_s=1e-7)
    assert answer.witness is None
    assert (
        answer.message == "the witness cpsat-strengthened ran out of time before its search started"
    )


def test_a_witness_that_is_stopped_says_how_far_it_got(monkeypatch):
    """In words and in JSON; what the run itself has proved stays proved."""
    instance = lo.generate("reclaim", "net", reclaim=6)
    stopped = claim(Status.UNKNOWN, None, None, 1)
    stopped.name, stopped.engine = "cpsat-strengthened", "cpsat"
    stopped.result = replace(stopped.result, stopped_by=StoppedBy.TIME)
    monkeypatch.setattr(witnesses, "find_solver", lambda *_: stopped)
    answer = certified(instance, "exact")
    witness = answer.witness
    assert (witness.stopped_by, witness.proves) == (StoppedBy.TIME, False)
    assert str(witness).startswith(
        f"cpsat-strengthened, stopped by time, proves only the bound {witness.dual_bound}"
    )
    said = answer.as_json_object("file")["witness"]
    assert (said["stopped_by"], said["dual_bound"]) == ("time", witness.dual_bound)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (
            claim(Status.OPTIMAL, BAD, 3, 3),
            "contradiction: cpsat-strengthened found objective 1, but scripted (optimal) has dual "
            "bound 3",
        ),
        (
            claim(Status.INFEASIBLE),
            "contradiction: cpsat-strengthened found objective 1, but scripted claims that there "
            "is no solution",
        ),
    ],
)
def test_a_false_proof_is_refuted(figure_5, solver, message):
    """By the first better solution that the witness finds."""
    answer = certified(figure_5, solver)
    assert answer.status is Status.ERROR
    assert answer.message == message
    assert answer.solution is None


def test_a_witness_that_is_refuted_costs_no_valid_answer(figure_5, monkeypatch):
    """It is the witness that failed: the answer stays, and says so."""
    liar = claim(Status.UNKNOWN, None, None, 2)  # the optimum is 1
    monkeypatch.setattr(witnesses, "find_solver", lambda *_: liar)
    answer = certified(figure_5, "exact")
    assert (answer.status, answer.objective, answer.witness) == (Status.OPTIMAL, 1, None)
    assert answer.message == (
        "the witness scripted failed: contradiction: exact found objective 1, but "
        "scripted (unknown) has dual bound 2"
    )


def test_a_better_solution_of_the_witness_is_told():
    """And counts as the best found: a bound-giving heuristic beside CP-SAT."""
    instance = lo.generate("reclaim", "net", reclaim=6)
    answer = certified(instance, "fast")
    witness = answer.witness
    assert answer.objective > 8
    assert (witness.objective, witness.proves) == (8, False)
    assert "finds and proves a better solution, 8, in " in str(witness)
    stopped = str(replace(witness, dual_bound=7))
    assert "finds a better solution, 8, and proves only the bound 7" in stopped
    evidence = evidence_of([answer])
    assert (evidence.best_objective, evidence.optimum) == (8, 8)


def test_words():
    """For people."""
    found = Witness(method="cpsat", dual_bound=None, proves=False, wall_time_s=0.5)
    assert str(found) == "cpsat proves nothing, in 500 ms"
    found = Witness(method=OWN_BOUND, dual_bound=4, proves=True, wall_time_s=2.0)
    assert str(found) == "the problem's own bound confirms the answer, in 2.00 s"
