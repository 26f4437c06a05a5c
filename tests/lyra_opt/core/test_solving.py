"""Nothing that a solver says is believed: claims are recomputed, contradictions are errors."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import lyra_opt as lo
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import COMMON_ANSWER_KEYS, refute_claims, solve_and_check
from lyra_opt.core.stopwatch import OutOfTimeError
from lyra_opt.reclaim import Solution
from tests.lyra_opt.allocation import examples as allocation
from tests.lyra_opt.scripted import Scripted, claim

PROBLEM = find_problem("reclaim")
GOOD, BAD = Solution(("s1", "s2")), Solution(("s1", "s5"))  # they cost 1 and 3


def answer_of(instance, solver, **options):
    return solve_and_check(PROBLEM, instance, solver, **options)


LIES = {
    "the solver claims objective 2, but the checker computes 3 (worse)": (Status.FEASIBLE, BAD, 2),
    "the solver claims objective 4, but the checker computes 1 (better)": (
        Status.FEASIBLE,
        GOOD,
        4,
    ),
    "the solver claims that 3 is optimal, but its own dual bound is 1": (Status.OPTIMAL, BAD, 3, 1),
    "the dual bound 2 contradicts a valid solution with objective 1": (Status.FEASIBLE, GOOD, 1, 2),
    "the solution is not valid: 1 servers are chosen, but reclaim_servers is 2": (
        *(Status.FEASIBLE, Solution(("s1",)), 1),
    ),
    "a solution of reclaim must be a lyra_opt.reclaim.instance.Solution, not an object": (
        *(Status.FEASIBLE, {"servers": ["s1", "s2"]}, 1),
    ),
}
"""False claims of a solver by the message that refutes them."""


@pytest.mark.parametrize("message", LIES)
def test_lies_are_caught(figure_5, message):
    """Status error, a message with both numbers, and no solution to be used by mistake."""
    answer = answer_of(figure_5, claim(*LIES[message]))
    assert (answer.status, answer.message) == ("error", message)
    assert (answer.solution, answer.objective, answer.dual_bound) == (None, None, None)


@pytest.mark.parametrize(("time_s", "status"), [(None, "error"), (60, "error"), (0, "unknown")])
def test_out_of_time_is_a_result_once_the_time_is_over(figure_5, time_s, status):
    """Before that, it comes from a shorter limit inside of the solver: a fault of its own."""
    solver = Scripted(OutOfTimeError())
    answer = answer_of(figure_5, solver, limits=Limits(time_s=time_s))
    assert answer.status == status
    assert answer.stopped_by is (StoppedBy.TIME if status == "unknown" else None)


def test_a_false_proof_is_caught_by_another_solver(figure_5):
    """A false bound hidden behind a bad solution: refuted by the first better solution."""
    lie = answer_of(figure_5, claim(Status.OPTIMAL, BAD, 3, 3))
    assert lie.status == "optimal"  # alone, nothing contradicts it
    truth = answer_of(figure_5, claim(Status.FEASIBLE, GOOD, 1))
    caught, kept = refute_claims([lie, truth])
    assert kept is truth
    assert (caught.status, caught.solution, caught.dual_bound) == ("error", None, None)
    assert caught.message == (
        "contradiction: scripted found objective 1, but scripted (optimal) has dual bound 3"
    )


def test_optimal_whenever_the_bound_is_met(figure_5):
    """Also for a solver that did not notice, and for a heuristic with a certificate."""
    assert answer_of(figure_5, claim(Status.FEASIBLE, GOOD, 1, 1)).status == "optimal"
    modest = claim(Status.FEASIBLE, GOOD, 1)
    assert answer_of(figure_5, modest).status == "feasible"
    certified = answer_of(figure_5, modest, certify=True)
    assert (certified.status, certified.dual_bound, certified.gap) == ("optimal", 1, 0.0)


def test_the_better_of_two_bounds_is_kept(figure_5):
    """The solver's own and the certificate's."""
    weak = answer_of(figure_5, claim(Status.FEASIBLE, BAD, 3, 0), certify=True)
    assert weak.dual_bound == 1
    assert weak.gap == pytest.approx(2)


def test_a_bound_without_a_solution_is_kept(figure_5):
    """Unknown, but not nothing."""
    answer = answer_of(figure_5, claim(Status.UNKNOWN, dual_bound=1))
    assert (answer.status, answer.dual_bound, answer.gap) == ("unknown", 1, None)


def test_every_key_is_always_present(figure_5):
    """Null where a key does not apply."""
    record = answer_of(figure_5, Scripted(RuntimeError("x"))).as_json_object("f.json")
    assert sorted(record) == sorted([*COMMON_ANSWER_KEYS, *PROBLEM.answer_keys])
    assert {key for key in record if record[key] is not None} == {
        *("file", "instance", "problem", "solver", "status", "wall_time_s", "seed", "message"),
    }


NONSENSE = {
    "dual_bound": (float("nan"), float("inf"), "1", True, [1], 1j),
    "counters": ({"nodes": "many"}, {1: 2}, {"nodes": float("nan")}),
    "message": (7, ["x"], b"x"),
    "stopped_by": ("boredom", 3, Status.OPTIMAL),
}
"""Values that are not of the type of a field."""


@pytest.mark.parametrize(
    "fields",
    [
        {"status": Status.OPTIMAL, "solution": GOOD, "objective": 1},
        {"status": Status.OPTIMAL, "dual_bound": 1},
        {"status": Status.FEASIBLE},
        {"status": Status.UNKNOWN, "solution": GOOD, "objective": 1},
        {"status": Status.FEASIBLE, "solution": GOOD},
        {"status": Status.UNKNOWN, "objective": 1},
        *({"status": each} for each in ("best", 7, None, StoppedBy.TIME)),
        *({"status": Status.UNKNOWN, name: each} for name, of in NONSENSE.items() for each in of),
    ],
    ids=str,
)
def test_contradictory_results_cannot_be_made(fields):
    """Optimal needs a bound, a solution its objective, and each field a value of its type."""
    with pytest.raises(ValueError, match="must be|status|solution"):
        SolveResult(**fields)


def test_same_value():
    """Integers exactly, floats within 1e-9 relative."""
    assert not same_value(10**12, 10**12 + 1)
    assert same_value(1e12, 1e12 + 1e-3)
    assert not same_value(1.0, 1.0 + 1e-8)
    assert same_value(0.0, 0)


def test_schedules_are_proved_within_the_gap_that_their_problem_states():
    """Two orders of these jobs differ by less than 1e-6, so that neither is told from the best."""
    works = {"a": (1, 1, 2_000_001), "b": (2, 2, 2_000_000), "c": (1, 2, 1_999_999)}
    near_tie = allocation.instance_of(
        3, *(allocation.job(name, *row) for name, row in works.items())
    )
    answer = lo.solve(near_tie, "exact")
    assert answer.status is Status.OPTIMAL
    assert answer.dual_bound <= answer.objective <= answer.dual_bound * (1 + 1.1e-6)


class Tinkering(Scripted):
    """A solver that changes the instance while it solves it."""

    def __init__(self, change):
        super().__init__(SolveResult(status=Status.UNKNOWN))
        self.change = change

    def supports(self, instance):
        return None

    def solve(self, instance, **options):
        self.change(instance)
        return self.result


def multiply(it):
    """Multiply GPUs in place, which would let the solver after it prove too much."""
    for server in it.servers:
        for name in server.gpus:
            server.gpus[name] *= 4


def force(it):
    """Do so although the servers are frozen, and have arrays made anew of it."""
    for server in it.servers:
        many = {name: 4 * gpus for name, gpus in server.gpus.items()}
        object.__setattr__(server, "gpus", many)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (multiply, "a frozen object cannot be changed"),
        (force, "the solver changed the instance: servers"),
    ],
)
def test_what_a_plug_in_does_to_an_instance_is_not_believed(change, message):
    """It gets the error, and the solver after it the instance as it was."""
    problem = find_problem("heterogeneous")
    instance = lo.generate("heterogeneous", "offline", jobs=2, seed=1)
    document = problem.instance_document(instance)
    alone = solve_and_check(problem, instance, find_solver("heterogeneous", "cpsat"))
    answer = solve_and_check(problem, instance, Tinkering(change))
    assert answer.status is Status.ERROR
    assert message in (answer.message or "")
    assert problem.instance_document(instance) == document
    after = solve_and_check(problem, instance, find_solver("heterogeneous", "cpsat"))
    assert (after.status, after.objective) == (alone.status, alone.objective)


@pytest.mark.parametrize("nonsense", [None, "optimal", 3, Status.OPTIMAL, SolveResult])
def test_what_is_no_result_is_an_error(figure_5, nonsense):
    """Of that solver alone."""
    answer = answer_of(figure_5, Scripted(nonsense))
    assert answer.status is Status.ERROR
    assert "must return a SolveResult" in answer.message


def test_an_exception_keeps_its_traceback(figure_5):
    """For whoever mends the solver; JSON has the message alone."""
    answer = answer_of(figure_5, Scripted(ZeroDivisionError("oh")))
    assert answer.status is Status.ERROR
    assert re.fullmatch(r"ZeroDivisionError: oh \(scripted\.py, line \d+\)", answer.message)
    assert "raise self.result" in answer.traceback
    assert "traceback" not in answer.as_json_object("file")


def test_the_line_that_failed_is_the_one_to_mend(figure_5):
    """Not one of a package that it calls."""

    class Reader(Scripted):
        def solve(self, instance, **options):
            return json.loads("{")

    answer = answer_of(figure_5, Reader(RuntimeError()))
    assert "JSONDecodeError" in (answer.message or "")
    assert "(test_solving.py, line" in (answer.message or "")


@pytest.mark.parametrize("method", ["availability", "supports", "solve"])
def test_a_solver_that_exits_is_an_error(figure_5, method, monkeypatch):
    """Nobody's `sys.exit` ends the process silently, as if all were well."""
    monkeypatch.setattr(Scripted, method, lambda *_, **__: sys.exit(0))
    answer = answer_of(figure_5, claim(Status.FEASIBLE, GOOD, 1))
    assert answer.status is Status.ERROR
    assert (answer.message or "").startswith("it exited (test_solving.py, line ")


def test_numbers_of_numpy_are_taken(figure_5):
    """As Python's own, so that they can be written as JSON."""
    result = SolveResult(
        status=Status.OPTIMAL,
        solution=GOOD,
        objective=np.int64(1),
        dual_bound=np.float64(1.0),
        counters={"nodes": np.int32(3)},
    )
    answer = answer_of(figure_5, Scripted(result), record=True)
    assert answer.status is Status.OPTIMAL
    assert [type(each) for each in (answer.objective, answer.dual_bound)] == [int, float]
    assert json.dumps([answer.as_json_object("file"), answer.counters])


def test_an_answer_prints_as_a_readable_block(figure_5):
    """Status, objective, bound, distance, what was chosen: a line each, nothing that is missing."""
    answer = replace(answer_of(figure_5, claim(Status.FEASIBLE, BAD, 3, 1)), wall_time_s=0.5)
    assert str(answer).splitlines() == [
        "scripted on lyra-figure-5 (reclaim)",
        "  status:            feasible",
        "  objective:         3",
        "  dual bound:        1",
        "  distance:          at most 200.0 % over the optimum",
        "  servers:           s1, s5",
        "  preempted jobs:    a, c, d",
        "  collateral GPUs:   22",
        "  scaled in workers: 0",
        "  time:              500 ms",
    ]
    skipped = str(answer_of(figure_5, Scripted(RuntimeError("oh\nno"))))
    assert "message: RuntimeError: oh\\nno" in skipped
    assert "objective" not in skipped
