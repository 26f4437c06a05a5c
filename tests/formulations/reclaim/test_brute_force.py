"""Brute force against the checker on every choice, made one by one."""

from dataclasses import replace

from hypothesis import given

import lyra_opt as lo
from lyra_opt.formulations.reclaim.brute_force import BruteForce
from lyra_opt.reclaim import Solution
from lyra_opt.testing.strategies import reclaim_instances
from tests.formulations.reclaim.exact_solvers import scattered_jobs
from tests.optima import document_of, objective
from tests.reference.reclaim import choices


@given(reclaim_instances())
def test_first_of_the_best_choices_is_returned(instance):
    answer = lo.solve(instance, BruteForce)
    solutions = map(Solution, choices(document_of(instance)))
    best = min(solutions, key=lambda solution: objective(instance, solution))
    assert (answer.status, answer.message) == (lo.Status.OPTIMAL, None)
    assert answer.solution == best


def test_too_many_choices_are_declined_with_their_number():
    instance = scattered_jobs(40, [2] * 5, 20)
    assert "137846528820" in BruteForce().supports(instance).reason
    assert BruteForce().supports(replace(instance, reclaim_servers=4)) is None


def test_nearly_all_of_many_servers_are_no_deep_recursion():
    """There are 2000 choices, each a long one; every job has a second server."""
    instance = scattered_jobs(2000, [2, 2, 2], 1999)
    assert lo.solve(instance, BruteForce).objective == 3
