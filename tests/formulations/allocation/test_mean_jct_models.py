"""The discretised models of mean JCT: they bracket the optimum, ever closer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import lyra_opt as lo
from lyra_opt.allocation.checker import check
from lyra_opt.core.result import Status
from lyra_opt.formulations.allocation.mean_jct.cpsat_model import schedule_on_grid
from lyra_opt.formulations.allocation.mean_jct.grid import ScheduleModel
from lyra_opt.formulations.allocation.mean_jct.mathopt_model import time_indexed
from lyra_opt.formulations.backends.backend import Settings
from tests.lyra_opt.allocation import examples
from tests.lyra_opt.allocation.examples import instance_of, job

if TYPE_CHECKING:
    from lyra_opt.allocation import Instance, Schedule


def relaxed(instance: Instance, step_s: float, start: Schedule | None = None) -> float:
    bound = lo.solve(instance, time_indexed(step_s), start=start).dual_bound
    return float(bound)


def on_grid(instance: Instance, step_s: float) -> tuple[Schedule, float]:
    """Return the best schedule on the grid, and its mean JCT in whole slots."""
    model, solver = ScheduleModel.of(instance, 0.0, step_s), schedule_on_grid()
    run = solver.backend.run(solver.build(model), None, Settings())
    assert run.stopped_by is None
    return model.solution(run.values), model.mean_s(run.bound)


@pytest.mark.parametrize(
    ("jobs", "seed", "steps"),
    [
        *((2, seed, (16.0, 8.0)) for seed in range(2)),
        *(pytest.param(3, seed, (32.0, 16.0, 8.0), marks=pytest.mark.slow) for seed in range(4)),
    ],
)
@pytest.mark.parametrize("fit", [True, False])
def test_bracket_shrinks_as_the_step_is_halved(jobs, seed, steps, fit):
    """Each halved step brackets the optimum, and no wider than before."""
    instance = examples.drawn(jobs, seed, fit=fit, releases=not fit, loss=not fit)
    exact = lo.solve(instance, "exact")
    best = exact.objective
    # From the best start the windows of starts and completions are the narrowest.
    assert relaxed(instance, steps[-1], exact.solution) <= best * (1 + 1e-9)
    lower, upper, widths = 0.0, float("inf"), []
    for step in steps:
        bound = relaxed(instance, step)
        schedule, mean_s = on_grid(instance, step)
        report = check(instance, schedule)
        assert not report.violations
        assert bound <= best * (1 + 1e-9)
        assert best <= report.objective * (1 + 1e-6)
        assert report.objective <= mean_s * (1 + 1e-9)
        assert bound >= lower * (1 - 1e-5)
        assert mean_s <= upper
        lower, upper = bound, mean_s
        widths.append(upper - lower)
    assert widths[-1] < widths[0]


@pytest.mark.parametrize("step_s", [10.0, 5.0])
def test_equal_where_the_optimum_lies_on_the_grid(step_s):
    """Waiting example: completions at 10 and 80 s, whole workers, the second starts at 10 s."""
    instance = instance_of(6, job("A", 3, 6, 420.0), job("B", 3, 6, 60.0))
    assert on_grid(instance, step_s)[1] == pytest.approx(45.0)
    assert relaxed(instance, step_s) == pytest.approx(45.0, rel=1e-5)


def test_a_piece_shorter_than_floats_are_apart_stays_in_the_schedule():
    """A slot late on a long grid, of a job of an instant: its start and end are one float."""
    one = instance_of(1, job("long", 1, 1, 1e9), job("short", 1, 1, 1e-9, release_s=9e8))
    answer = lo.solve(one, "cpsat")
    assert answer.status is Status.FEASIBLE, answer.message


@pytest.mark.parametrize("work", [1e-12, 5e-324])
def test_work_that_is_next_to_nothing_of_a_slot_is_bounded(work):
    """Rows by that work had coefficients that SCIP takes for infinite."""
    one = instance_of(2, job("long", 1, 2, 1e9), job("short", 1, 9, work))
    answer = lo.solve(one, "time-indexed-milp")
    assert answer.status in (Status.FEASIBLE, Status.OPTIMAL), answer.message
    assert 0.99 * 2.5e8 < answer.dual_bound <= answer.objective


def test_releases_that_are_ages_apart_are_refused():
    """A slot is longer there than all jobs together, by more than a backend's tolerances."""
    now = job("now", 1, 1, 100.0, release_s=1.7e9)
    far, near = (
        lo.solve(instance_of(1, now, job("then", 1, 1, 1.0, release_s=late)), "time-indexed-milp")
        for late in (6.8e12, 1.7e9 + 1e7)
    )
    assert far.message == (
        "the model supports releases that span at most 100000 times the run time of all jobs; "
        "this instance has 6.7983e+12 s of releases and 101 s of run time"
    )
    assert near.solution is not None


def test_more_workers_than_fit_are_no_number_of_the_model():
    """CP-SAT refuses models whose sums may leave 64 bits: w_max is cut to the cluster."""
    wide = instance_of(8, job("a", 2, 2**41, 300.0), job("b", 2, 7, 120.0))
    assert lo.solve(wide, "cpsat").objective == pytest.approx(35.8928571429)
    vast = replace(wide, gpus=2**50)
    assert "exceeds the 64-bit integers of CP-SAT" in lo.solve(vast, "cpsat").message


def test_times_too_far_apart_for_slots_prove_nothing():
    """A backend that finds no solution of the relaxation, which has one, is not believed."""
    jobs = (
        job("a", 2, 3, 1e5, release_s=1e9 + 1, scaling_loss=1 - 1e-9),
        job("b", 1, 3, 0.1, scaling_loss=1e-9),
        job("c", 1, 1, 0.7, release_s=1e9 + 1, scaling_loss=1e-9),
    )
    answer = lo.solve(instance_of(2, *jobs), "time-indexed-milp")
    assert answer.status is Status.FEASIBLE
    assert "nothing is proved" in answer.message
    assert answer.dual_bound == 0
