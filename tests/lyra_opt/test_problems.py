"""What holds for every problem: its solvers by default, its files and its commands."""

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.documents import format_document
from lyra_opt.core.loading import content_hash, load_instance, load_solution
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.core.solver import find_solver
from lyra_opt.testing import strategies
from tests.malformed import INSTANCES
from tests.odd_instances import odd_instances
from tests.test_right_answers import SOLUTIONS

EVERY_PROBLEM = pytest.mark.parametrize("name", problems())


@EVERY_PROBLEM
def test_every_variant_has_a_default_solver(name):
    """One that exists and takes the variant."""
    problem = find_problem(name)
    assert problem.name == name
    for variant in problem.variants:
        assert variant in find_solver(name, problem.default_solver_of(variant)).variants


@EVERY_PROBLEM
@given(data=st.data())
def test_instance_comes_back_from_its_file(name, data):
    """Through JSON text, every field, and with the same content hash."""
    problem = find_problem(name)
    drawn = data.draw(getattr(strategies, f"{name}_instances")())
    text = format_document(problem.instance_document(drawn))
    back = problem.parse_instance(json.loads(text))
    assert back == drawn
    assert content_hash(problem, back) == content_hash(problem, drawn)


@EVERY_PROBLEM
def test_defaults_that_are_written_out_change_nothing(name):
    """Nor do integers in the place of floats."""
    problem = find_problem(name)
    instance = problem.parse_instance(INSTANCES[name].valid)
    document = problem.instance_document(instance)
    records = [(instance, document)]
    for key, rows in document.items():
        if isinstance(rows, list) and isinstance(rows[0], dict):
            records += zip(getattr(instance, key), rows, strict=True)
    for record, row in records:
        for each in fields(record):
            value = getattr(record, each.name)
            if each.name != "problem" and isinstance(value, int | float | str):
                is_whole = isinstance(value, float) and value.is_integer()
                row.setdefault(each.name, value)
                row[each.name] = int(value) if is_whole else row[each.name]
    written = problem.parse_instance(json.loads(json.dumps(document)))
    assert written == instance
    assert content_hash(problem, written) == content_hash(problem, instance)


@EVERY_PROBLEM
@given(data=st.data())
def test_solution_comes_back_from_its_file(name, data):
    """With its claims; it is worth the same, and is shown in the same order."""
    problem, (variants, solutions) = find_problem(name), SOLUTIONS[name]
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: odd_instances(name, v)))
    solution = data.draw(solutions(instance))
    text = format_document(problem.solution_document(instance, solution, 2))
    parsed, claims = problem.parse_solution(json.loads(text))
    assert claims == {"instance": "drawn", "objective": 2}
    assert problem.check(instance, parsed) == problem.check(instance, solution)
    assert problem.answer(instance, parsed) == problem.answer(instance, solution)


@EVERY_PROBLEM
def test_what_solve_prints_verify_accepts(name, run, write_json):
    """An answer as it was printed; with another objective it is refused."""
    problem = find_problem(name)
    path = write_json("instance.json", INSTANCES[name].valid)
    solver = "exact" if name == "allocation" else "cpsat"
    exit_code, out, _ = run("solve", path, "--solver", solver, "--format=json")
    (found,) = json.loads(out)
    assert exit_code == 0
    assert found["status"] == "optimal"
    answer = write_json("answer.json", found)
    assert run("verify", path, answer)[0] == 0
    solution, claims = load_solution(answer, problem)
    assert claims["objective"] == found["objective"]
    assert problem.check(load_instance(path).instance, solution).objective == found["objective"]
    answer = write_json("answer.json", {**found, "objective": found["objective"] + 1})
    assert run("verify", path, answer)[0] == 1
