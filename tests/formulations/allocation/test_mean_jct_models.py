"""The discretised models of mean JCT: they bracket the optimum, ever closer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lyra_opt as lo
from lyra_opt.allocation import ElasticJob, Instance, Objective, Schedule, WorkerAllocation
from lyra_opt.allocation.checker import check
from lyra_opt.allocation.exact.mean_jct.solver import MeanJctExact
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status
from lyra_opt.core.solving import solve_and_check
from lyra_opt.formulations.allocation.mean_jct.cpsat_model import CpsatSolver, schedule_on_grid
from lyra_opt.formulations.allocation.mean_jct.grid import ScheduleModel
from lyra_opt.formulations.allocation.mean_jct.mathopt_model import time_indexed
from lyra_opt.formulations.backends.backend import Settings
from tests.lyra_opt.allocation import examples


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def relaxed(instance: Instance, step_s: float, start: Schedule | None = None) -> float:
    solver = time_indexed(step_s)
    bound = solver.solve(instance, limits=Limits(), rng=rng(), warm_start=start).dual_bound
    assert bound is not None
    return float(bound)


def on_grid(instance: Instance, step_s: float) -> tuple[Schedule, float]:
    """Return the best schedule on the grid, and its mean JCT in whole slots."""
    model, solver = ScheduleModel.of(instance, 0.0, step_s), schedule_on_grid()
    run = solver.backend.run(solver.build(model), None, Settings())
    assert run.stopped_by is None
    assert run.values is not None
    return model.solution(run.values), model.mean_s(run.bound)


def assert_bracket(instance: Instance, steps: tuple[float, ...]) -> None:
    """Assert that each halved step brackets the optimum, and no wider than before."""
    exact = MeanJctExact().solve(instance, limits=Limits(), rng=rng())
    best = exact.objective
    assert best is not None
    # From the best start the windows of starts and completions are the narrowest.
    assert relaxed(instance, steps[-1], exact.solution) <= best * (1 + 1e-9)
    lower, upper, widths = 0.0, float("inf"), []
    for step in steps:
        bound = relaxed(instance, step)
        schedule, mean_s = on_grid(instance, step)
        report = check(instance, schedule)
        assert not report.violations
        assert report.objective is not None
        assert bound <= best * (1 + 1e-9)
        assert best <= report.objective * (1 + 1e-6)
        assert report.objective <= mean_s * (1 + 1e-9)
        assert bound >= lower * (1 - 1e-5)
        assert mean_s <= upper
        lower, upper = bound, mean_s
        widths.append(upper - lower)
    assert widths[-1] < widths[0]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("fit", [True, False])
def test_bracket_shrinks_as_the_step_is_halved(seed, fit):
    instance = examples.drawn(2, seed, fit=fit, releases=not fit, loss=not fit)
    assert_bracket(instance, (16.0, 8.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fit", [True, False])
def test_bracket_shrinks_further(seed, fit):
    instance = examples.drawn(3, seed, fit=fit, releases=not fit, loss=not fit)
    assert_bracket(instance, (32.0, 16.0, 8.0))


@pytest.mark.parametrize("step_s", [10.0, 5.0])
def test_equal_where_the_optimum_lies_on_the_grid(step_s):
    """Waiting example: completions at 10 and 80 s, whole workers, the second starts at 10 s."""
    instance = Instance(
        name="waiting",
        objective="mean_jct",
        gpus=6,
        jobs=(
            ElasticJob(id="A", min_workers=3, max_workers=6, work_worker_s=420.0),
            ElasticJob(id="B", min_workers=3, max_workers=6, work_worker_s=60.0),
        ),
    )
    assert on_grid(instance, step_s)[1] == pytest.approx(45.0)
    assert relaxed(instance, step_s) == pytest.approx(45.0, rel=1e-5)


@pytest.mark.parametrize("solver", [time_indexed(8.0), CpsatSolver(8.0)])
def test_start_is_kept(solver):
    instance = examples.drawn(2, 1, fit=False, releases=True)
    start = MeanJctExact().solve(instance, limits=Limits(), rng=rng())
    answer = solver.solve(instance, limits=Limits(), rng=rng(), warm_start=start.solution)
    assert answer.objective is not None
    assert answer.objective <= start.objective
    hurried = solver.solve(instance, limits=Limits(time_s=1e-6), rng=rng())
    assert hurried.solution is not None


@pytest.mark.parametrize("objective", list(Objective))
def test_cpsat_is_one_solver_for_all_objectives(objective):
    """The knapsack's with its proof, the schedule's without a bound."""
    instance = examples.drawn(2, 1, fit=True)
    solver = CpsatSolver()
    assert set(solver.variants) == set(Objective)
    answer = solve_and_check(
        find_problem("allocation"), replace(instance, objective=objective), solver
    )
    over_time = objective is Objective.MEAN_JCT
    assert isinstance(answer.solution, Schedule if over_time else WorkerAllocation)
    assert answer.status is (Status.FEASIBLE if over_time else Status.OPTIMAL)
    assert (answer.dual_bound is None) == over_time


def test_a_piece_shorter_than_floats_are_apart_stays_in_the_schedule():
    """A slot late on a long grid, of a job of an instant: its start and end are one float."""
    long = ElasticJob(id="long", min_workers=1, max_workers=1, work_worker_s=1e9)
    short = ElasticJob(id="short", min_workers=1, max_workers=1, work_worker_s=1e-9, release_s=9e8)
    one = Instance(name="late", objective="mean_jct", gpus=1, jobs=(long, short))
    answer = solve_and_check(find_problem("allocation"), one, CpsatSolver())
    assert answer.status is Status.FEASIBLE, answer.message


@pytest.mark.parametrize("work", [1e-12, 5e-324])
def test_work_that_is_next_to_nothing_of_a_slot_is_bounded(work):
    """Rows by that work had coefficients that SCIP takes for infinite."""
    long = ElasticJob(id="long", min_workers=1, max_workers=2, work_worker_s=1e9)
    short = ElasticJob(id="short", min_workers=1, max_workers=9, work_worker_s=work)
    one = Instance(name="short", objective="mean_jct", gpus=2, jobs=(long, short))
    answer = solve_and_check(find_problem("allocation"), one, time_indexed())
    assert answer.status in (Status.FEASIBLE, Status.OPTIMAL), answer.message
    assert 0.99 * 2.5e8 < answer.dual_bound <= answer.objective


def test_releases_that_are_ages_apart_are_refused():
    """A slot is longer there than all jobs together, by more than a backend's tolerances."""
    jobs = (
        ElasticJob(id="now", min_workers=1, max_workers=1, work_worker_s=100.0, release_s=1.7e9),
        ElasticJob(id="then", min_workers=1, max_workers=1, work_worker_s=1.0, release_s=6.8e12),
    )
    one = Instance(name="ages", objective="mean_jct", gpus=1, jobs=jobs)
    refused = time_indexed().supports(one)
    assert refused.reason == (
        "the model supports releases that span at most 100000 times the run time of all jobs; "
        "this instance has 6.7983e+12 s of releases and 101 s of run time"
    )
    near = replace(one, jobs=(jobs[0], replace(jobs[1], release_s=1.7e9 + 1e7)))
    assert solve_and_check(find_problem("allocation"), near, time_indexed()).solution is not None


def test_more_workers_than_fit_are_no_number_of_the_model():
    """CP-SAT refuses models whose sums may leave 64 bits: w_max is cut to the cluster."""
    jobs = tuple(
        ElasticJob(id=str(most), min_workers=2, max_workers=most, work_worker_s=work)
        for most, work in ((2**41, 300.0), (7, 120.0))
    )
    instance = Instance(name="wide", objective="mean_jct", gpus=8, jobs=jobs)
    assert lo.solve(instance, "cpsat").objective == pytest.approx(35.8928571429)
    vast = replace(instance, gpus=2**50)
    assert "exceeds the 64-bit integers of CP-SAT" in lo.solve(vast, "cpsat").message


def test_times_too_far_apart_for_slots_prove_nothing():
    """A backend that finds no solution of the relaxation, which has one, is not believed."""
    rows = ((2, 3, 1e5, 1e9 + 1, 1 - 1e-9), (1, 3, 0.1, 0.0, 1e-9), (1, 1, 0.7, 1e9 + 1, 1e-9))
    keys = ("min_workers", "max_workers", "work_worker_s", "release_s", "scaling_loss")
    jobs = tuple(
        ElasticJob(id=str(place), **dict(zip(keys, row, strict=True)))
        for place, row in enumerate(rows)
    )
    instance = Instance(name="far", objective="mean_jct", gpus=2, jobs=jobs)
    answer = lo.solve(instance, "time-indexed-milp")
    assert answer.status is Status.FEASIBLE
    assert "nothing is proved" in answer.message
    assert answer.dual_bound == 0
