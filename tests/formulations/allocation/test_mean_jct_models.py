"""The discretised model of mean JCT: it bounds the optimum from above, ever closer."""

from dataclasses import replace

import pytest

import lyra_opt as lo
from lyra_opt.allocation.checker import check
from lyra_opt.formulations.allocation.mean_jct.cpsat_model import schedule_on_grid
from lyra_opt.formulations.allocation.mean_jct.grid import ScheduleModel
from lyra_opt.formulations.backends.backend import Settings
from tests.lyra_opt.allocation import examples
from tests.lyra_opt.allocation.examples import instance_of, job


def on_grid(instance, step_s):
    """Return the best schedule on the grid, and its mean JCT in whole slots."""
    model, solver = ScheduleModel.of(instance, step_s), schedule_on_grid()
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
def test_schedules_come_closer_as_the_step_is_halved(jobs, seed, steps, fit):
    """Each halved step bounds the optimum from above, and from no higher than before."""
    instance = examples.drawn(jobs, seed, fit=fit, releases=not fit, loss=not fit)
    best = lo.solve(instance, "exact").objective
    uppers = []
    for step in steps:
        schedule, mean_s = on_grid(instance, step)
        report = check(instance, schedule)
        assert not report.violations
        assert best <= report.objective * (1 + 1e-6)
        assert report.objective <= mean_s * (1 + 1e-9)
        uppers.append(mean_s)
    assert uppers == sorted(uppers, reverse=True)


@pytest.mark.parametrize("step_s", [10.0, 5.0])
def test_equal_where_the_optimum_lies_on_the_grid(step_s):
    """Waiting example: completions at 10 and 80 s, whole workers, the second starts at 10 s."""
    instance = instance_of(6, job("A", 3, 6, 420.0), job("B", 3, 6, 60.0))
    assert on_grid(instance, step_s)[1] == pytest.approx(45.0)


def test_a_piece_shorter_than_floats_are_apart_stays_in_the_schedule():
    """A slot late on a long grid, of a job of an instant: its start and end are one float."""
    one = instance_of(1, job("long", 1, 1, 1e9), job("short", 1, 1, 1e-9, release_s=9e8))
    answer = lo.solve(one, "cpsat")
    assert answer.status is lo.Status.FEASIBLE, answer.message


def test_more_workers_than_fit_are_no_number_of_the_model():
    """CP-SAT refuses models whose sums may leave 64 bits: w_max is cut to the cluster."""
    wide = instance_of(8, job("a", 2, 2**41, 300.0), job("b", 2, 7, 120.0))
    assert lo.solve(wide, "cpsat").objective == pytest.approx(35.8928571429)
    vast = replace(wide, gpus=2**50)
    assert "exceeds the 64-bit integers of CP-SAT" in lo.solve(vast, "cpsat").message
