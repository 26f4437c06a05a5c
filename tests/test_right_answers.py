"""Every solver, checker and bound against the reference, on instances that Hypothesis shrinks.

Tests of a single solver need not ask whether its answers are right.
"""

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt import preemption
from lyra_opt.allocation import WorkerAllocation
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, same_value
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.solving import refute_claims
from lyra_opt.reclaim import Solution
from lyra_opt.reclaim.exact.solver import Exact
from lyra_opt.testing.strategies import network_solutions_of, reclaim_servers_of, round_schedules_of
from tests.draws import draws
from tests.fuzz.damage import at_the_edge
from tests.fuzz.judging import Truth, attempt
from tests.odd_instances import (
    VARIANTS,
    choices_of,
    odd_document,
    odd_instance,
    odd_instances,
    renamed,
)
from tests.optima import document_of
from tests.reference import PROBLEMS
from tests.reference.drawing import INFEASIBLE, UNKNOWN, Draw, InvalidChoiceError
from tests.reference.heterogeneous import ROUNDS

TAKEN_BY = {
    "allox": {"max_gang": 1},
    "hadare": {"forking": True},
    "hadar-committed": {"forking": False},
}
"""What solvers ask of an instance beside its variant."""
ONE_SHOT = ("jct_reduction", "two_phase", "joint")


def allocations_of(instance):
    """Draw a number of workers for each job, in its range or 0."""
    ranges = (st.integers(job.min_workers, job.max_workers) for job in instance.jobs)
    return st.tuples(*(st.just(0) | workers for workers in ranges)).map(WorkerAllocation)


def losses_of(instance):
    """Draw the solution of a heuristic, of which some parts are replaced by any others."""
    found = lo.solve(instance, "fewest-pods-first").solution or preemption.Solution(lost_gangs=())
    nodes = st.sampled_from([node.id for node in instance.nodes])
    parts = {"emptied_nodes": st.lists(nodes, unique=True)}
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


SOLUTIONS = {
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


LIMITS = st.sampled_from(
    [Limits()] * 40
    + [Limits(nodes=nodes) for nodes in (0, 1, 3)]
    + [Limits(time_s=time_s) for time_s in (0.0, 1e-4, 1e-3, 0.02)]
)
"""Limits: mostly none, else so few milliseconds or nodes that they count."""
SLOW_ENGINES = ("cbc", "gscip")


@cache
def exact_solvers(problem, variant):
    """Return the quick exact solvers of a variant that run on this machine."""
    found = (find_solver(problem, name) for _, name in solver_names(problem))
    return tuple(
        solver
        for solver in found
        if variant in solver.exact_variants
        and solver.engine not in SLOW_ENGINES
        and not solver.availability()
    )


def assert_right(problem, name, data):
    """Assert that an answer is valid, worth what it says, bounded, and proved if it must be.

    Some runs have a limit, or start from the solution of an exact solver, with which the answer
    must agree.
    """
    solver = find_solver(problem, name)
    variant = data.draw(st.sampled_from(list(map(str, solver.variants))))
    instance = data.draw(odd_instances(problem, variant, **TAKEN_BY.get(name, {})))
    assume(solver.supports(instance) is None)
    truth = Truth.of(problem, document_of(instance))
    assert_agreement(truth, instance, solver, data.draw(LIMITS), data)


def assert_agreement(truth, instance, solver, limits, data):
    """Assert that the answers of a solver, and perhaps of an exact one before it, have no fault."""
    answers, failures, start = [], [], None
    others = exact_solvers(truth.problem, truth.variant)
    for other in data.draw(st.lists(st.sampled_from(others), max_size=1)):
        first, failures = attempt(truth, instance, other, limits, None)
        answers, start = [first], first.solution
    is_told, is_recorded = data.draw(st.booleans()), data.draw(st.booleans())
    start = start if is_told else None
    answer, found = attempt(truth, instance, solver, limits, start, record=is_recorded)
    assert failures + found == []
    answers.append(answer)
    assert [each.message for each in refute_claims(answers)] == [each.message for each in answers]


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
@draws(60, **UNFILTERED)
@given(data=st.data())
def test_an_answer_at_the_edge_of_a_rule_is_right(problem, data):
    """Numbers at the edge of what a rule allows, too large for brute force: solvers agree."""
    solvers = [find_solver(problem, name) for _, name in solver_names(problem)]
    solver = data.draw(st.sampled_from(solvers))
    variant = data.draw(st.sampled_from(list(map(str, solver.variants))))
    document = document_of(data.draw(odd_instances(problem, variant)))
    at_the_edge(Draw(data.draw(st.integers(0, 2**32))), document)
    instance = None
    with suppress(lo.UserError):
        instance = find_problem(problem).parse_instance(document)
    assume(instance is not None)
    truth = Truth(problem, document, UNKNOWN)
    assert_agreement(truth, instance, solver, Limits(time_s=0.05), data)


def test_clock_times_near_2_to_the_53_are_rounded():
    """A job that needs 1.125 s there runs for 1 s, and the checker adds the rest to its JCT."""
    jobs = [{"id": "early", "work_worker_s": 0.125}]
    jobs.append({"id": "late", "work_worker_s": 1.125, "release_s": 2.0**53 - 1})
    document = {"format": "lyra-opt/allocation", "version": 1, "objective": "mean_jct", "gpus": 2}
    document["jobs"] = [{"min_workers": 1, "max_workers": 1} | job for job in jobs]
    instance = find_problem("allocation").parse_instance(document)
    solver = find_solver("allocation", "afs")
    truth = Truth("allocation", document_of(instance), UNKNOWN)
    answer, failures = attempt(truth, instance, solver, Limits(), None)
    assert (answer.objective, failures) == (0.625, [])


class Liar(Exact):
    """A solver that reports a wrong objective."""

    name = "liar"

    def solve(self, instance, **options):
        told = super().solve(instance, **options)
        return replace(told, objective=told.objective + 1)


def test_a_wrong_objective_is_noticed():
    instance = odd_instance(choices_of(1), "reclaim", "rigid")
    truth = Truth.of("reclaim", document_of(instance))
    _, failures = attempt(truth, instance, Liar(), Limits(), None)
    assert "the solver claims objective" in failures[0]


@pytest.mark.parametrize(("problem", "variant"), VARIANTS)
def test_brute_force_knows_most_optima(problem, variant):
    """Without them, the tests of answers would compare nothing."""
    documents = [odd_document(choices_of(seed), problem, variant) for seed in range(60)]
    optima = [PROBLEMS[problem].optimum(document) for document in documents]
    assert optima.count(UNKNOWN) < len(optima) / 2
    assert optima.count(INFEASIBLE) < len(optima) * 0.8


@every_problem
@draws(200)
@given(data=st.data())
def test_the_checker_says_what_the_reference_says(problem, data):
    """Whether a solution is valid, and every measure of it; whole numbers exactly."""
    variants, solutions = SOLUTIONS[problem]
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: odd_instances(problem, v)))
    solution, document = data.draw(solutions(instance)), document_of(instance)
    of = find_problem(problem)
    report = of.check(instance, solution)
    expected = {}
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
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: odd_instances(problem, v)))
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
    return {
        key: data.draw(st.permutations(renamed(value, ids)))
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
        else renamed(value, ids)
        for key, value in document.items()
    }


@every_problem
@draws(40)
@given(data=st.data())
def test_the_bound_depends_neither_on_file_order_nor_on_ids(problem, data):
    """Of each variant but `two_phase`, where file order breaks ties between jobs that start."""
    variants = sorted({*PROBLEMS[problem].VARIANTS} - {"two_phase"})
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: odd_instances(problem, v)))
    of = find_problem(problem)
    other = of.parse_instance(json.loads(json.dumps(shuffled(data, document_of(instance)))))
    bounds = [of.dual_bound(each) for each in (instance, other)]
    assert bounds[0] is bounds[1] or same_value(*bounds)
