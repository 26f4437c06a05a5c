"""Instances of the library that somebody wrote down, and what is known of them by other means."""

from dataclasses import replace

import pytest

import lyra_opt as lo
from lyra_opt.instances.library import library, load_library_instance
from tests.optima import objective, optimum


def value_of(name):
    """Return the value that the library has of an instance, which its solution is worth."""
    return library().solution(name)[1]["objective"]


def test_lyra_figure_5_is_solved_to_optimality():
    assert optimum(load_library_instance("lyra-figure-5").instance) == 1


@pytest.mark.parametrize(("name", "value"), [("lyra-figure-6", 80), ("lyra-table-2-phase-2", 110)])
def test_knapsacks_of_lyra_are_solved_to_optimality(name, value):
    instance = load_library_instance(name).instance
    assert value_of(name) == value == optimum(instance)
    assert objective(instance, library().solution(name)[0]) == value


@pytest.mark.parametrize(("name", "value"), [("lyra-table-2", 125 / 3), ("lyra-table-4", 62)])
def test_schedules_of_lyra_are_the_best_of_its_rows(name, value):
    assert value_of(name) == pytest.approx(value)


def test_waiting_pays():
    """The best is proved; it keeps A waiting, and what never waits where it need not is worse."""
    loaded = load_library_instance("waiting-pays")
    solution, claims = library().solution("waiting-pays")
    assert claims["objective"] == 45
    assert loaded.problem.check(loaded.instance, solution).mean_queuing_s > 0
    proved = lo.solve(loaded.instance, "exact")
    assert proved.status is lo.Status.OPTIMAL
    assert proved.objective == pytest.approx(45, rel=1e-9)
    greedy = lo.solve(loaded.instance, "srw")
    assert greedy.objective == pytest.approx(50, rel=1e-9)


@pytest.mark.slow
def test_hadar_motivating():
    """Three methods that share no code prove it: CP-SAT, CBC and brute force."""
    loaded = load_library_instance("hadar-motivating")
    short = replace(loaded.instance, horizon_rounds=8)  # in which the best known completes
    for name in ("cpsat", "pulp-cbc", "brute-force"):
        found = lo.solve(short, name)
        assert (found.status, found.objective) == (lo.Status.OPTIMAL, 1800)
    whole = lo.solve(loaded.instance, "cpsat")
    assert (whole.status, whole.objective) == (lo.Status.OPTIMAL, 1800)


def test_hurt_first():
    """No placement of all there are is worth more, and the most hurt gang waits in the best."""
    loaded = load_library_instance("hurt-first")
    instance = loaded.instance
    solution, claims = library().solution("hurt-first")
    assert objective(instance, solution) == claims["objective"] == 4.9978
    assert float(optimum(instance)) == 4.9978
    assert "A" not in {placement.job for placement in solution.placements}
    dally = lo.solve(instance, "dally")
    assert dally.objective == pytest.approx(2.68692)
    assert {placement.job for placement in dally.solution.placements} == {"A", "E"}
