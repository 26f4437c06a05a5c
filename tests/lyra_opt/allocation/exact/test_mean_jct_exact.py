"""Both exact methods of mean JCT: the fact sheet, the reference, limits and odd magnitudes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation.checker import check
from lyra_opt.allocation.exact.mean_jct.orders import Event, Kind, OrderData, OrderProgramme, replay
from lyra_opt.allocation.exact.mean_jct.solver import starting_schedules
from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.solver import find_solver
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws
from tests.lyra_opt.allocation import examples
from tests.lyra_opt.allocation.examples import instance_of, job
from tests.optima import least_mean_jct
from tests.tables import tables

TABLES = tables(__file__)


METHODS = ("exact", "order-tree")
every_method = pytest.mark.parametrize("name", METHODS)

EXAMPLE_1 = ((2, 6, 300.0), (2, 6, 120.0))


def of_rows(gpus, rows, **more):
    """Return jobs A, B, ... of these ranges of workers and amounts of work."""
    return instance_of(
        gpus, *(job(name, *row, **more) for name, row in zip("ABCDEFGH", rows, strict=False))
    )


def solved(instance, limits=None, *, name="exact", warm_start=None):
    """Solve, and hold the answer to the checker."""
    result = find_solver("allocation", name).solve(
        instance, limits=limits or Limits(), rng=np.random.default_rng(0), warm_start=warm_start
    )
    assert result.dual_bound is not None
    report = check(instance, result.solution)
    assert not report.violations
    assert report.objective == pytest.approx(result.objective, rel=1e-12)
    return result


def optimum(instance, name="exact"):
    result = solved(instance, name=name)
    assert result.status is Status.OPTIMAL
    assert 0 <= result.objective - result.dual_bound <= 1e-6 * result.objective
    return float(result.objective)


@draws(40)
@given(allocation_instances(objective="mean_jct", max_jobs=5))
def test_the_two_methods_agree(instance):
    """With releases, losses, wide workers, running, waiting and equal jobs."""
    assert optimum(instance, "order-tree") == pytest.approx(optimum(instance), rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("releases", [False, True])
def test_the_two_methods_agree_on_seven_jobs(seed, fit, releases):
    instance = examples.drawn(7, seed, fit=fit, releases=releases, loss=True, wide=True)
    assert optimum(instance, "order-tree") == pytest.approx(optimum(instance), rel=2e-6)


seeds = st.integers(0, 10**6)
sizes = st.integers(1, 4)
flags = st.booleans()


@draws(25)
@given(sizes, seeds, flags, flags, st.sampled_from([0.37, 3.0, 1024.0]))
def test_scales_with_time(jobs, seed, fit, releases, factor):
    instance = examples.drawn(jobs, seed, fit=fit, releases=releases, loss=True)
    scaled = optimum(examples.in_other_units(instance, factor))
    assert scaled == pytest.approx(factor * optimum(instance), rel=2e-6)


def test_releases_far_from_zero():
    """A proof is relative to the mean JCT, not to the clock."""
    instance = examples.drawn(3, 5, fit=False)
    far = replace(instance, jobs=tuple(replace(job, release_s=1e6) for job in instance.jobs))
    assert optimum(far) == pytest.approx(optimum(instance), rel=1e-5)


@every_method
@pytest.mark.parametrize("work", [1e-9, 1e-12, 1e-60, 5e-324])
def test_a_job_shorter_than_floats_are_apart_is_somewhere(work, name):
    """It completes as it starts, and before a job that takes weeks; no bound is above that."""
    short = job("B", 3, 3, work, release_s=1)
    found = solved(instance_of(3, job("A", 1, 1, 4e6), short), name=name)
    assert found.objective == pytest.approx(2e6 + 0.5)
    assert found.dual_bound <= 2e6 + 0.5 + 1e-6
    assert found.status is Status.OPTIMAL or work == 5e-324


def test_a_search_that_ends_without_a_proof_says_why():
    """Of work that spans 18 powers of ten, floats hold too little of the least."""
    jobs = of_rows(6, ((1, 1, 1e-9), (1, 3, 31250000.0), (4, 4, 2e9)))
    found = solved(jobs)
    assert found.stopped_by is None
    is_explained = found.message is not None and "floating point" in found.message
    assert (found.status is Status.OPTIMAL) != is_explained


def test_a_schedule_may_end_after_the_latest_release():
    """The largest amounts, one after another."""
    most = 2**53 - 1
    assert optimum(of_rows(1, ((1, 1, most),) * 3)) == pytest.approx(2 * most)


def test_jobs_of_unlike_sizes():
    """Seconds beside weeks: tolerances are relative to each job's own work."""
    instance = of_rows(6, ((1, 4, 2e6), (2, 5, 3.0), (1, 3, 1e4)))
    assert optimum(instance) == pytest.approx(least_mean_jct(instance), rel=1e-6)


@every_method
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(nodes=1), StoppedBy.NODES),
        (Limits(time_s=1e-6), StoppedBy.TIME),
        (Limits(memory_mib=0.001), StoppedBy.MEMORY),
        (Limits(memory_mib=0.02), StoppedBy.MEMORY),
    ],
)
def test_limits_keep_incumbent_and_bound(limits, reason, name):
    jobs = 7 if name == "exact" else 5
    instance = examples.drawn(jobs, 3, fit=False, releases=True, loss=True, wide=True)
    best, result = optimum(instance, name), solved(instance, limits, name=name)
    assert 0 <= result.dual_bound <= best * (1 + 1e-9)
    assert result.objective >= best * (1 - 2e-6)
    assert result.status is Status.OPTIMAL or result.stopped_by is reason


def test_multipliers_that_are_wrong_lift_no_bound():
    """The bound of a programme holds for any multipliers: here those of a solver stopped early."""
    instance = examples.drawn(4, 2, fit=True, loss=True)
    data = OrderData(instance)
    assert data.running.all()
    best = min(starting_schedules(data), key=lambda in_units: in_units.value)
    events, known = best.events(data), [None] * data.jobs
    right = OrderProgramme(data, best.value).solve(events, known)
    for iterations in (0, 2, 5):
        hurried = OrderProgramme(data, best.value)
        hurried._solver.setOptionValue("simplex_iteration_limit", iterations)
        early = hurried.solve(events, known)
        assert early.bound <= right.value * (1 + 1e-9)
    in_units = replay(data, events, right)
    assert in_units.value == pytest.approx(right.value, rel=1e-9)


def test_an_order_that_cannot_be_gives_no_schedule():
    instance = of_rows(8, EXAMPLE_1)
    data = OrderData(instance)
    events = [Event(Kind.START, 0), Event(Kind.COMPLETION, 0), Event(Kind.COMPLETION, 1)]
    solution = OrderProgramme(data, 5.0).solve(events, [None, None])
    assert replay(data, events, solution) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("jobs", "fit"), [(8, True), (5, False)])
@pytest.mark.parametrize("releases", [False, True])
def test_sizes_of_the_figures_are_proved(seed, jobs, fit, releases):
    optimum(examples.drawn(jobs, seed, fit=fit, releases=releases, loss=True, wide=True))


@pytest.mark.parametrize("work", [1e-310, 5e-324])
def test_work_whose_quotients_are_infinite_is_no_proof(work):
    """And no end: the least float, beside jobs of minutes."""
    others = job("a", 27, 54, 11_000.0), job("b", 100, 100, 280_000.0)
    least, more = (
        lo.solve(instance_of(100, job("none", 1, 1, amount, release_s=1962.0), *others), "exact")
        for amount in (work, 1e-200)
    )
    assert least.objective == pytest.approx(more.objective)
    assert least.dual_bound == pytest.approx(more.dual_bound)


FAR_APART = TABLES["far_apart"]


@every_method
@pytest.mark.parametrize("case", FAR_APART.values(), ids=FAR_APART)
def test_magnitudes_far_apart(case, name):
    """Nothing below the optimum is called optimal, and no bound lies above it or is 0."""
    gpus, rows, best = case
    jobs = [
        job(f"{n}", least, most, work, gpus_per_worker=wide, release_s=late, scaling_loss=loss)
        for n, (least, most, wide, work, late, loss) in enumerate(rows)
    ]
    answer = lo.solve(instance_of(gpus, *jobs), name, time_limit_s=60)
    assert answer.status in (Status.OPTIMAL, Status.FEASIBLE), answer.message
    assert answer.objective >= best * (1 - 1e-9)
    assert 0 < answer.dual_bound <= best * (1 + 1e-9)
    if answer.status is Status.OPTIMAL:
        assert answer.objective == pytest.approx(best, rel=1e-6)
    else:  # the end of its schedule, rounded up, alone may leave more than is proved
        assert answer.dual_bound == pytest.approx(best, rel=0.2)
