"""Incumbents and bounds over time: monotone, on the run's own clock, and ending in what is true."""

import json
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.solver import Solver, find_solver
from lyra_opt.core.trajectory import Improvements, Recorder, TrajectoryPoint, ended
from lyra_opt.network import Objective as Maximised
from lyra_opt.reclaim import Semantics as Minimised
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws

FLEET = lo.generate("reclaim", "messy-dist", servers=40, seed=1)
KINDS = st.sampled_from(["objective", "dual_bound"])
VALUES = st.integers(-3, 3) | st.sampled_from([float("inf"), float("nan")])


def values(points, kind):
    """Return the values of one kind."""
    return [point.value for point in points if point.kind == kind]


@given(told=st.lists(st.tuples(KINDS, VALUES)), maximised=st.booleans())
def test_only_finite_improvements_are_passed_on(told, maximised):
    """Whatever order backends tell of things in."""
    seen = []
    variant = next(iter(Maximised)) if maximised else Minimised.RIGID
    improvements = Improvements(lambda kind, value, _: seen.append((kind, value)), variant)
    for kind, value in told:
        improvements(kind, value)
    for kind, sign in (("objective", -1), ("dual_bound", 1)):
        kept = [value for of, value in seen if of == kind]
        direction = -sign if maximised else sign
        assert all(direction * after > direction * before for before, after in pairwise(kept))
        finite = [value for of, value in told if of == kind and abs(value) <= 3]
        assert (max if direction == 1 else min)(finite, default=None) == (kept or [None])[-1]


def test_claims_that_the_result_does_not_bear_out_are_left_out():
    """Better than the checked objective, or beyond the bound that stands: it never was so."""
    clock = SimpleNamespace(elapsed_s=1.0)
    recorder = Recorder(Minimised.RIGID, clock)
    for kind, value in (("objective", 9), ("dual_bound", 2), ("objective", 4), ("dual_bound", 8)):
        recorder(kind, value)
    assert ended(recorder.points, Minimised.RIGID, 2.0, 5, 5) == (
        TrajectoryPoint(1.0, "objective", 9),
        TrajectoryPoint(1.0, "dual_bound", 2),
        TrajectoryPoint(2.0, "objective", 5, is_checked=True),
        TrajectoryPoint(2.0, "dual_bound", 5, is_checked=True),
    )
    assert ended(recorder.points, Minimised.RIGID, 2.0, None, None) == ()


class Telling(Solver):
    """Tells its observer one objective, and ends as Lyra's rule does."""

    name, problem, variants = "telling", "reclaim", ("rigid",)

    def __init__(self, value):
        self.value = value

    def solve(self, instance, *, observer=None, **options):
        observer("objective", self.value)
        return find_solver("reclaim", "lyra-greedy").solve(instance, **options)


def test_an_own_solver_may_tell_scalars_of_numpy():
    """They are what sums of arrays are, and JSON knows none of them."""
    for value in (np.int64(10**6), np.float32(1e6)):
        points = lo.solve(FLEET, Telling(value)).as_json_object("f")["trajectory"]
        assert json.loads(json.dumps(points))[0]["value"] == 10**6


@pytest.mark.parametrize("value", [np.float64("nan"), float("inf"), "5", None, True])
def test_what_is_no_finite_number_is_the_error_of_who_tells_it(value):
    """In a line, not a fault of the toolkit's when the answer is written."""
    answer = lo.solve(FLEET, Telling(value))
    assert answer.status is lo.Status.ERROR
    said = f"ValueError: the reported objective must be a finite number, not {value!r}"
    assert (answer.message or "").startswith(f"{said} (test_trajectory.py, line ")


@pytest.mark.parametrize("solver", ["cpsat", "pulp-highs", "pulp-cbc", "mathopt-gscip", "exact"])
def test_an_answer_has_its_trajectory(solver):
    """In order of time, from both sides, to the answer itself."""
    answer = lo.solve(FLEET, solver)
    times = [point.elapsed_s for point in answer.trajectory]
    assert times == sorted(times)
    assert times[-1] == answer.wall_time_s
    objectives = values(answer.trajectory, "objective")
    bounds = values(answer.trajectory, "dual_bound")
    assert objectives == sorted(objectives, reverse=True)
    assert bounds == sorted(bounds)
    assert (objectives[-1], bounds[-1]) == (answer.objective, answer.dual_bound)
    assert [point.is_checked for point in answer.trajectory[-2:]] == [True, True]
    assert answer.as_json_object("f")["trajectory"][-1]["value"] == answer.dual_bound


@pytest.mark.parametrize("solver", ["cpsat", "pulp-highs"])
def test_backends_with_callbacks_tell_of_what_they_find_on_the_way(solver):
    """Not of the start and the end alone."""
    poor = lo.solve(FLEET, "random")
    optimal = lo.solve(FLEET, solver, start=poor)
    on_the_way = [
        point.elapsed_s for point in optimal.trajectory if 0 < point.elapsed_s < optimal.wall_time_s
    ]
    assert len(set(on_the_way)) > 2


@given(instance=allocation_instances(objective="mean_jct", min_jobs=3))
@draws(15)
def test_the_search_of_schedules_tells_bounds_that_hold(instance):
    """Of its open nodes, before it is done."""
    answer = lo.solve(instance, "exact", time_limit_s=2)
    slack = 1e-6 * answer.objective
    bounds = values(answer.trajectory, "dual_bound")
    assert bounds == sorted(bounds)
    assert all(bound <= answer.objective + slack for bound in bounds)
    assert any(not point.is_checked for point in answer.trajectory if point.kind == "dual_bound")


@pytest.mark.parametrize("solver", ["cpsat", "pulp-highs", "pulp-cbc", "mathopt-gscip", "exact"])
def test_several_threads_prove_the_same(solver):
    """And one thread can be had again afterwards; who has one alone says so."""
    single = lo.solve(FLEET, solver)
    several = lo.solve(FLEET, solver, threads=2)
    again = lo.solve(FLEET, solver)
    assert several.objective == single.objective == again.objective
    assert str(several.status) == str(again.status) == "optimal"
    alone = solver in ("mathopt-gscip", "exact")
    assert several.message == ("the solver uses one thread only" if alone else None)


def test_a_start_is_checked_first():
    """Before anything runs, and naming what is wrong."""
    fewer = lo.reclaim.Solution(servers=())
    with pytest.raises(lo.UserError, match="start: cannot be the start of a run: .*server"):
        lo.solve(FLEET, "exact", start=fewer)
    with pytest.raises(lo.UserError, match="threads is 0: must be an integer of at least 1"):
        lo.solve(FLEET, "exact", threads=0)
    unsolved = lo.solve(FLEET, "cpsat", time_limit_s=1e-6)
    assert unsolved.solution is not None
    assert lo.solve(FLEET, "random", start=unsolved).objective <= unsolved.objective
