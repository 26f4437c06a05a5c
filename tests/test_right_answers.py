"""Every solver, checker and bound against the reference, on instances that Hypothesis shrinks.

Tests of a single solver need not ask whether its answers are right.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt import preemption
from lyra_opt.allocation import WorkerAllocation
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, same_value
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.reclaim import Solution
from lyra_opt.testing.strategies import (
    allocation_instances,
    heterogeneous_instances,
    network_instances,
    network_solutions_of,
    preemption_instances,
    reclaim_instances,
    reclaim_servers_of,
    round_schedules_of,
)
from tests.draws import draws
from tests.fuzz.judging import Truth
from tests.fuzz.running import attempt
from tests.optima import document_of
from tests.reference import PROBLEMS
from tests.reference.drawing import InvalidChoiceError
from tests.reference.heterogeneous import ROUNDS

TAKEN_BY = {
    "allox": {"max_gang": 1},
    "hadare": {"forking": True},
    "hadar-committed": {"forking": False},
}
"""What solvers ask of an instance beside its variant."""
ONE_SHOT = ("jct_reduction", "two_phase", "joint")


def allocations_of(instance: Any) -> st.SearchStrategy[WorkerAllocation]:
    """Draw a number of workers for each job, in its range or 0."""
    ranges = (st.integers(job.min_workers, job.max_workers) for job in instance.jobs)
    return st.tuples(*(st.just(0) | workers for workers in ranges)).map(WorkerAllocation)


def losses_of(instance: Any) -> st.SearchStrategy[Any]:
    """Draw the solution of a heuristic, of which some parts are replaced by any others."""
    found = lo.solve(instance, "fewest-pods-first").solution or preemption.Solution(lost_gangs=())
    nodes = st.sampled_from([node.id for node in instance.nodes])
    parts: dict[str, st.SearchStrategy[Any]] = {"emptied_nodes": st.lists(nodes, unique=True)}
    if instance.gangs:
        gangs = st.sampled_from([gang.id for gang in instance.gangs])
        pods = {"gang": gangs, "group": st.integers(0, 1), "count": st.integers(1, 2)}
        parts |= {
            "lost_gangs": st.lists(gangs, unique=True),
            "lost_pods": st.lists(st.builds(preemption.LostPods, **pods), max_size=2),
            "moved_pods": st.lists(st.builds(preemption.MovedPods, to=nodes, **pods), max_size=2),
        }
    if instance.demand is not None:
        shapes = st.sampled_from([shape.id for shape in instance.demand.shapes])
        counts = st.integers(1, 2)
        placed = st.builds(preemption.PlacedPods, shape=shapes, node=nodes, count=counts)
        parts["placements"] = st.lists(placed, max_size=3)
    changes = st.fixed_dictionaries({}, optional=parts)
    return changes.map(lambda changed: replace(found, **changed).in_file_order(instance))


SOLUTIONS: dict[str, tuple[tuple[str, ...], Any]] = {
    "allocation": (ONE_SHOT, allocations_of),
    "heterogeneous": (ROUNDS, round_schedules_of),
    "network": (PROBLEMS["network"].VARIANTS, network_solutions_of),
    "preemption": (PROBLEMS["preemption"].VARIANTS, losses_of),
    "reclaim": (
        PROBLEMS["reclaim"].VARIANTS,
        lambda one: reclaim_servers_of(one).map(lambda places: Solution.of_positions(one, places)),
    ),
}
"""Variants whose solutions can be drawn, valid or not, and what draws one."""
every_problem = pytest.mark.parametrize("problem", PROBLEMS)


def instances_of(problem: str, variant: str, **given_too: Any) -> st.SearchStrategy[Any]:
    """Return small instances of a variant."""
    if problem == "allocation":
        return allocation_instances(objective=variant)
    if problem == "heterogeneous":
        most_jobs = 3 if variant in ROUNDS else 2  # whose shares the reference knows
        return heterogeneous_instances(objective=variant, max_jobs=most_jobs, **given_too)
    if problem == "network":
        return st.booleans().flatmap(
            lambda timers: network_instances(
                objective=variant, with_timers=timers, max_jobs=4, max_machines=4, max_gpus=4
            )
        )
    if problem == "preemption":
        return preemption_instances(moves=variant, max_nodes=3, max_gangs=3, max_pending=2)
    return reclaim_instances(semantics=variant)


def assert_right(problem: str, name: str, data: st.DataObject) -> None:
    """What the fuzzer asks of an answer: valid, worth what it says, bounded, proved if exact."""
    solver = find_solver(problem, name)
    variant = data.draw(st.sampled_from(list(map(str, solver.variants))))
    instance = data.draw(instances_of(problem, variant, **TAKEN_BY.get(name, {})))
    assume(solver.supports(instance) is None)
    truth = Truth.of(problem, document_of(instance))
    _, failures = attempt(truth, instance, solver, Limits(), None)
    assert failures == []


MODELS = [
    (problem, name)
    for problem, name in solver_names()
    if re.search("formulations|_model$", type(find_solver(problem, name)).__module__)
]
UNFILTERED = {"suppress_health_check": [HealthCheck.filter_too_much, HealthCheck.too_slow]}


@pytest.mark.parametrize(("problem", "name"), MODELS)
@draws(100, **UNFILTERED)
@given(data=st.data())
def test_an_answer_of_a_model_is_right(problem, name, data):
    """By each backend; a constraint that is missing shows in few instances."""
    assert_right(problem, name, data)


@pytest.mark.parametrize(("problem", "name"), sorted({*solver_names()} - {*MODELS}))
@draws(20, **UNFILTERED)
@given(data=st.data())
def test_an_answer_of_a_rule_is_right(problem, name, data):
    """Of every other solver, exact or not."""
    assert_right(problem, name, data)


@every_problem
@draws(200)
@given(data=st.data())
def test_the_checker_says_what_the_reference_says(problem, data):
    """Whether a solution is valid, and every measure of it; whole numbers exactly."""
    variants, solutions = SOLUTIONS[problem]
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: instances_of(problem, v)))
    solution, document = data.draw(solutions(instance)), document_of(instance)
    of = find_problem(problem)
    report = of.check(instance, solution)
    expected: dict[str, Any] = {}
    with suppress(InvalidChoiceError):
        expected = PROBLEMS[problem].measured(document, of.answer(instance, solution))
    assert bool(report.violations) == (not expected)
    found = {"objective": report.objective, **report.measures()}
    for key, value in expected.items():
        if isinstance(value, tuple):
            assert found[key] == list(value), key
        elif isinstance(value, dict):
            assert found[key] == value, key
        elif isinstance(value, int):
            assert (type(found[key]), found[key]) == (int, value), key
        else:
            assert found[key] == pytest.approx(float(value), rel=1e-14, abs=0), key


@every_problem
@given(data=st.data())
def test_the_bound_is_not_beyond_the_optimum(problem, data):
    """That which needs no search, with which ``--certify`` proves answers."""
    variants = PROBLEMS[problem].VARIANTS
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: instances_of(problem, v)))
    truth = Truth.of(problem, document_of(instance))
    bound = find_problem(problem).dual_bound(instance)
    assume(bound is not None and not isinstance(truth.optimum, str))
    assert truth.excess(truth.optimum, bound) <= (0 if isinstance(truth.optimum, int) else 1e-9)


def shuffled(data, document):
    """Return a document with lists of objects in another order and other ids.

    The order of other lists, such as the terms of an objective, has a meaning.
    """
    ids = {
        entry["id"]: f"x{number} {entry['id']}"
        for entries in document.values()
        if isinstance(entries, list)
        for number, entry in enumerate(entries)
        if "id" in entry
    }

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {ids.get(key, key): renamed(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return list(map(renamed, value))
        return ids.get(value, value) if isinstance(value, str) else value

    return {
        key: data.draw(st.permutations(renamed(value)))
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
        else renamed(value)
        for key, value in document.items()
    }


@every_problem
@draws(40)
@given(data=st.data())
def test_the_bound_depends_neither_on_file_order_nor_on_ids(problem, data):
    """Of each variant but `two_phase`, where file order breaks ties between jobs that start."""
    variants = sorted({*PROBLEMS[problem].VARIANTS} - {"two_phase"})
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: instances_of(problem, v)))
    of = find_problem(problem)
    other = of.parse_instance(json.loads(json.dumps(shuffled(data, document_of(instance)))))
    bounds = [of.dual_bound(each) for each in (instance, other)]
    assert bounds[0] is bounds[1] or same_value(*bounds)
