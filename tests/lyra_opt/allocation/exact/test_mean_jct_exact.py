"""Both exact methods of mean JCT: the fact sheet, the reference, limits and odd magnitudes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation import ElasticJob, Instance, Schedule
from lyra_opt.allocation.checker import check
from lyra_opt.allocation.exact.mean_jct.orders import (
    Event,
    Kind,
    OrderData,
    OrderProgramme,
    OrderSolution,
    replay,
)
from lyra_opt.allocation.exact.mean_jct.solver import MeanJctExact, starting_schedules
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws
from tests.lyra_opt.allocation import examples
from tests.optima import least_mean_jct
from tests.tables import tables

TABLES = tables(__file__)


METHODS = ("exact", "order-tree")
every_method = pytest.mark.parametrize("name", METHODS)

EXAMPLE_1 = ((2, 6, 300.0), (2, 6, 120.0))
EXAMPLE_2 = ((2, 3, 300.0), (2, 6, 120.0))


def instance_of(
    gpus: int, jobs: tuple[tuple[int, int, float], ...], *, running: bool = False
) -> Instance:
    return Instance(
        name="given",
        objective="mean_jct",
        gpus=gpus,
        jobs=tuple(
            ElasticJob(
                id="ABCDEFGH"[place],
                min_workers=least,
                max_workers=most,
                work_worker_s=work,
                running=running,
            )
            for place, (least, most, work) in enumerate(jobs)
        ),
    )


def solved(
    instance: Instance,
    limits: Limits | None = None,
    *,
    name: str = "exact",
    warm_start: Schedule | None = None,
) -> SolveResult[Schedule]:
    """Solve, and hold the answer to the checker."""
    result: SolveResult[Schedule] = find_solver("allocation", name).solve(
        instance, limits=limits or Limits(), rng=np.random.default_rng(0), warm_start=warm_start
    )
    assert result.solution is not None
    assert result.objective is not None
    assert result.dual_bound is not None
    report = check(instance, result.solution)
    assert not report.violations
    assert report.objective == pytest.approx(result.objective, rel=1e-12)
    return result


def optimum(instance: Instance, name: str = "exact") -> float:
    result = solved(instance, name=name)
    assert result.status is Status.OPTIMAL
    assert 0 <= result.objective - result.dual_bound <= 1e-6 * result.objective
    return float(result.objective)


def value_from_initial(jobs: tuple[tuple[int, int, float], ...], initial: tuple[int, int]) -> str:
    """Return the mean JCT of two jobs on 8 GPUs that start with `initial` workers.

    When one ends the other grows at once: two intervals, replayed like a programme's answer.
    """
    data = OrderData(instance_of(8, jobs, running=True))
    first = min((0, 1), key=lambda j: jobs[j][2] / initial[j])
    events = [Event(Kind.COMPLETION, first), Event(Kind.COMPLETION, 1 - first)]
    shares = [
        (w - least) / (most - least) for w, (least, most, _) in zip(initial, jobs, strict=True)
    ]
    lengths = np.ones(2)
    extra = np.array([[shares[j], 1.0] for j in (0, 1)])
    in_units = replay(
        data,
        events,
        OrderSolution(0.0, 0.0, lengths, np.ones((2, 2)), extra, np.zeros((2, 2), dtype=bool)),
    )
    assert in_units is not None
    return f"{in_units.value * data.unit_s / 2:.2f}"


@pytest.mark.parametrize(("jobs", "initial", "printed"), TABLES["rows_of_the_fact_sheet"])
def test_rows_of_the_fact_sheet(jobs, initial, printed):
    """The five published rows and the two beside them, and none is better than the optimum."""
    assert value_from_initial(jobs, initial) == printed
    assert optimum(instance_of(8, jobs, running=True)) <= float(printed) + 0.005


@pytest.mark.parametrize(("jobs", "printed"), [(EXAMPLE_1, "41.67"), (EXAMPLE_2, "62.00")])
@pytest.mark.parametrize("running", [False, True])
def test_best_rows_are_the_optima(jobs, printed, running):
    assert f"{optimum(instance_of(8, jobs, running=running)):.2f}" == printed


@every_method
def test_waiting_pays(name):
    """Both base demands fit, yet the longer job had better wait for the shorter one."""
    jobs = ((3, 6, 420.0), (3, 6, 60.0))
    waiting = instance_of(6, jobs)
    assert optimum(waiting, name) == pytest.approx(45.0)
    first_runs = replace(waiting, jobs=(replace(waiting.jobs[0], running=True), waiting.jobs[1]))
    assert optimum(first_runs, name) == pytest.approx(50.0)
    assert optimum(instance_of(6, jobs, running=True), name) == pytest.approx(50.0)


CASES = [
    *((1, seed, {"fit": False, "releases": True, "loss": True}) for seed in range(2)),
    *((2, seed, {"fit": True, "loss": True, "wide": True}) for seed in range(6)),
    *((2, seed, {"fit": False, "releases": True, "loss": True}) for seed in range(6)),
    *((3, seed, {"fit": True, "loss": True}) for seed in range(6)),
    *((3, seed, {"fit": False}) for seed in range(6)),
    *((3, seed, {"fit": False, "releases": True, "loss": True, "wide": True}) for seed in (1, 2)),
]


@pytest.mark.parametrize(("jobs", "seed", "options"), CASES)
def test_equals_brute_force(jobs, seed, options):
    """Every order of events, a dense programme each."""
    instance = examples.drawn(jobs, seed, **options)
    expected = pytest.approx(least_mean_jct(instance), rel=2e-6)
    assert [optimum(instance, name) for name in METHODS] == [expected] * 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 30))
@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("releases", [False, True])
def test_equals_brute_force_more(seed, fit, releases):
    test_equals_brute_force(3, seed, {"fit": fit, "releases": releases, "loss": True, "wide": True})


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
    scaled = replace(
        instance,
        jobs=tuple(
            replace(job, work_worker_s=job.work_worker_s * factor, release_s=job.release_s * factor)
            for job in instance.jobs
        ),
    )
    assert optimum(scaled) == pytest.approx(factor * optimum(instance), rel=2e-6)


def test_a_job_without_choice_takes_its_time():
    """Smallest of all: w_min = w_max, one job; and a scaling loss of 1 makes workers useless."""
    assert optimum(instance_of(2, ((2, 2, 10.0),))) == pytest.approx(5.0)
    useless = replace(instance_of(9, ((2, 6, 10.0),)).jobs[0], scaling_loss=1.0)
    one = Instance(name="loss", objective="mean_jct", gpus=9, jobs=(useless,))
    assert optimum(one) == pytest.approx(5.0)


def test_releases_far_from_zero():
    """A proof is relative to the mean JCT, not to the clock."""
    instance = examples.drawn(3, 5, fit=False)
    far = replace(instance, jobs=tuple(replace(job, release_s=1e6) for job in instance.jobs))
    assert optimum(far) == pytest.approx(optimum(instance), rel=1e-5)


@every_method
@pytest.mark.parametrize("work", [1e-9, 1e-12, 1e-60, 5e-324])
def test_a_job_shorter_than_floats_are_apart_is_somewhere(work, name):
    """It completes as it starts, and before a job that takes weeks; no bound is above that."""
    short = ElasticJob(id="B", min_workers=3, max_workers=3, work_worker_s=work, release_s=1)
    first = instance_of(3, ((1, 1, 4e6),))
    found = solved(replace(first, jobs=(*first.jobs, short)), name=name)
    assert found.objective == pytest.approx(2e6 + 0.5)
    assert found.dual_bound <= 2e6 + 0.5 + 1e-6
    assert found.status is Status.OPTIMAL or work == 5e-324


def test_a_search_that_ends_without_a_proof_says_why():
    """Of work that spans 18 powers of ten, floats hold too little of the least."""
    jobs = instance_of(6, ((1, 1, 1e-9), (1, 3, 31250000.0), (4, 4, 2e9)))
    found = solved(jobs)
    assert found.stopped_by is None
    is_explained = found.message is not None and "floating point" in found.message
    assert (found.status is Status.OPTIMAL) != is_explained


def test_a_schedule_may_end_after_the_latest_release():
    """The largest amounts, one after another."""
    most = 2**53 - 1
    assert optimum(instance_of(1, ((1, 1, most),) * 3)) == pytest.approx(2 * most)


def test_jobs_of_unlike_sizes():
    """Seconds beside weeks: tolerances are relative to each job's own work."""
    instance = instance_of(6, ((1, 4, 2e6), (2, 5, 3.0), (1, 3, 1e4)))
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
    best = min(starting_schedules(data), key=lambda in_units: in_units.value)
    events = best.events(data)
    starts = MeanJctExact().solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    assert starts.objective is not None
    whole = OrderProgramme(data, best.value)
    known = [None] * data.jobs
    if not data.running.all():
        pytest.fail("the draw should have all jobs running")
    right = whole.solve(events, known)
    assert right is not None
    for iterations in (0, 2, 5):
        hurried = OrderProgramme(data, best.value)
        hurried._solver.setOptionValue("simplex_iteration_limit", iterations)
        early = hurried.solve(events, known)
        assert early is not None
        assert early.bound <= right.value * (1 + 1e-9)
    in_units = replay(data, events, right)
    assert in_units is not None
    assert in_units.value == pytest.approx(right.value, rel=1e-9)


def test_an_order_that_cannot_be_gives_no_schedule():
    instance = instance_of(8, EXAMPLE_1)
    data = OrderData(instance)
    events = [Event(Kind.START, 0), Event(Kind.COMPLETION, 0), Event(Kind.COMPLETION, 1)]
    solution = OrderProgramme(data, 5.0).solve(events, [None, None])
    assert solution is not None
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
    jobs = (
        ElasticJob(id="none", min_workers=1, max_workers=1, work_worker_s=work, release_s=1962.0),
        ElasticJob(id="a", min_workers=27, max_workers=54, work_worker_s=11_000.0),
        ElasticJob(id="b", min_workers=100, max_workers=100, work_worker_s=280_000.0),
    )
    one = Instance(name="none", objective="mean_jct", gpus=100, jobs=jobs)
    least = replace(one, jobs=(replace(jobs[0], work_worker_s=1e-200), *jobs[1:]))
    answers = [
        solve_and_check(find_problem("allocation"), each, MeanJctExact()) for each in (one, least)
    ]
    assert answers[0].objective == pytest.approx(answers[1].objective)
    assert answers[0].dual_bound == pytest.approx(answers[1].dual_bound)


FAR_APART = TABLES["far_apart"]


@every_method
@pytest.mark.parametrize("case", FAR_APART.values(), ids=FAR_APART)
def test_magnitudes_far_apart(case, name):
    """Nothing below the optimum is called optimal, and no bound lies above it or is 0."""
    gpus, rows, best = case
    keys = ("min_workers", "max_workers", "gpus_per_worker", "work_worker_s", "release_s")
    jobs = tuple(
        ElasticJob(id=str(place), **dict(zip((*keys, "scaling_loss"), row, strict=True)))
        for place, row in enumerate(rows)
    )
    instance = Instance(name="far", objective="mean_jct", gpus=gpus, jobs=jobs)
    answer = lo.solve(instance, name, time_limit_s=60)
    assert answer.status in (Status.OPTIMAL, Status.FEASIBLE), answer.message
    assert answer.objective >= best * (1 - 1e-9)
    assert 0 < answer.dual_bound <= best * (1 + 1e-9)
    if answer.status is Status.OPTIMAL:
        assert answer.objective == pytest.approx(best, rel=1e-6)
    else:  # the end of its schedule, rounded up, alone may leave more than is proved
        assert answer.dual_bound == pytest.approx(best, rel=0.2)
