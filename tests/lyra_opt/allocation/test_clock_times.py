"""Times that count from long ago, such as Unix's, change nothing but the origin."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import lyra_opt as lo
from lyra_opt.allocation import Objective, Schedule
from lyra_opt.allocation.checker import check
from lyra_opt.allocation.clock_times import moved
from lyra_opt.core.result import Limits, Status
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws
from tests.lyra_opt.allocation.examples import in_other_units, instance_of, job, piece

UNIX_S, UNIX_MS = 1.7e9, 1.7e12
SOLVERS = [
    name
    for problem, name in solver_names("allocation")
    if Objective.MEAN_JCT in find_solver(problem, name).variants
]


def shifted(instance, by):
    jobs = tuple(replace(each, release_s=each.release_s + by) for each in instance.jobs)
    return replace(instance, jobs=jobs)


def in_units(instance, units_per_s):
    """Return an instance of whole seconds whose first job comes at 0, in seconds or parts."""
    first = min(round(each.release_s) for each in instance.jobs)
    whole = [
        replace(
            each,
            work_worker_s=float(math.ceil(100 * each.work_worker_s)),
            release_s=float(round(each.release_s) - first),
        )
        for each in instance.jobs
    ]
    return in_other_units(replace(instance, jobs=tuple(whole)), units_per_s)


SMALL = allocation_instances(objective=Objective.MEAN_JCT, max_jobs=3, with_running=False)
"""No job is running: those that are began at 0."""


@pytest.mark.parametrize(("units_per_s", "origin"), [(1, UNIX_S), (1000, UNIX_MS)])
@pytest.mark.parametrize("name", SOLVERS)
@draws(12)
@given(drawn=SMALL)
def test_a_shift_leaves_status_objective_and_bound(name, units_per_s, origin, drawn):
    """Of every solver; the times of its schedule are shifted by as much."""
    instance = in_units(drawn, units_per_s)
    late = shifted(instance, origin)
    here, there = (lo.solve(one, name) for one in (instance, late))
    assert here.status is not Status.ERROR, here.message
    assert (there.status, there.message) == (here.status, here.message)
    apart = 4 * math.ulp(origin)
    assert there.objective == pytest.approx(here.objective, rel=1e-9, abs=apart)
    if here.dual_bound is None:
        assert there.dual_bound is None
    else:
        assert there.dual_bound == pytest.approx(here.dual_bound, rel=1e-9, abs=apart)
        assert there.dual_bound <= there.objective
    for before, after in zip(here.solution.pieces, there.solution.pieces, strict=True):
        assert after.start_s - origin == pytest.approx(before.start_s, rel=1e-9, abs=apart)
        assert after.end_s - origin == pytest.approx(before.end_s, rel=1e-9, abs=apart)


EXACT_MS = instance_of(
    3, job("a", 2, 3, 470.5176855206421), job("b", 1, 4, 2058.471226755533, release_s=1815.0)
)
"""Its optimum is 404.8 s, of which times that are a quarter of a millisecond apart leave 1e-6."""


@pytest.mark.parametrize("origin", [UNIX_S, UNIX_MS])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_certificate_does_not_contradict_what_rounding_gains(name, origin):
    """The end of a schedule is rounded, down at times: below a bound that knows nothing of it."""
    answer = lo.solve(shifted(EXACT_MS, origin), name, certify=True)
    assert answer.status in (Status.OPTIMAL, Status.FEASIBLE), answer.message
    assert answer.dual_bound == pytest.approx(lo.solve(EXACT_MS, "exact").objective, rel=0.05)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_start_at_clock_times_is_kept(name):
    """It may be valid by the rounding of its times alone; what is told on the way is valid too."""
    late = shifted(EXACT_MS, UNIX_MS)
    start = lo.solve(late, "exact").solution
    told = []

    def observer(kind, value, solution=None):
        if kind == "objective":
            told.append((value, solution))

    given_too = {"warm_start": start, "observer": observer}
    result = find_solver("allocation", name).solve(
        late, limits=Limits(), rng=np.random.default_rng(0), **given_too
    )
    assert result.objective <= check(late, start).objective
    for value, solution in told:
        assert solution is None or check(late, solution).objective == value


def test_an_invalid_start_at_clock_times_is_refused():
    """As it is at others."""
    late, start = shifted(EXACT_MS, UNIX_S), Schedule((piece("a", 1.0, 2.0, 2),))
    with pytest.raises(ValueError, match="the warm start is not valid"):
        find_solver("allocation", "exact").solve(
            late, limits=Limits(), rng=np.random.default_rng(0), warm_start=start
        )


def test_a_proof_that_rounding_costs_is_none():
    """A job of a tenth of a second cannot be proved in times a quarter of a millisecond apart."""
    answer = lo.solve(instance_of(1, job("a", 1, 1, 0.1, release_s=UNIX_MS)), "exact")
    assert answer.status is Status.FEASIBLE
    assert "near 1.7e+12 s floats are 0.000244141 s apart" in answer.message
    assert answer.dual_bound <= 0.1


def test_the_checker_is_as_strict_at_clock_times():
    """A schedule that begins a second early, or runs two jobs at once for one, is not valid."""
    late = shifted(EXACT_MS, UNIX_S)
    solution = lo.solve(late, "exact").solution
    assert check(late, solution).violations == ()
    assert check(late, moved(solution, -1.0)).violations
    first, *others = solution.pieces
    early = replace(first, start_s=first.start_s - 0.01)
    assert check(late, Schedule((early, *others))).violations


def test_a_piece_that_is_shorter_than_times_are_apart_is_kept():
    """Its job has to be somewhere."""
    (late,) = moved(Schedule((piece("a", 0.0, 1e-9, 1),)), UNIX_MS).pieces
    assert late.start_s == UNIX_MS < late.end_s
