"""Exact mean JCT: the fact sheet, brute force, and how the optimum must move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import ElasticJob, Instance, Schedule
from lyra_opt.allocation.checker import check
from lyra_opt.allocation.exact.mean_jct.orders import (
    Event,
    Kind,
    OrderData,
    OrderSolution,
    Programme,
    replay,
)
from lyra_opt.allocation.exact.mean_jct.solver import MeanJctExact
from lyra_opt.allocation.exact.mean_jct.starts import best_priority_schedule, starting_plans
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solving import solve_and_check
from tests.draws import draws
from tests.lyra_opt.allocation import mean_jct_reference as reference

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
    instance: Instance, limits: Limits | None = None, warm_start: Schedule | None = None
) -> SolveResult[Schedule]:
    """Solve, and hold the answer to the checker."""
    result = MeanJctExact().solve(
        instance, limits=limits or Limits(), rng=np.random.default_rng(0), warm_start=warm_start
    )
    assert result.solution is not None
    assert result.objective is not None
    report = check(instance, result.solution)
    assert not report.violations
    assert report.objective == pytest.approx(result.objective, rel=1e-12)
    return result


def optimum(instance: Instance) -> float:
    result = solved(instance)
    assert result.status is Status.OPTIMAL
    assert result.objective is not None
    assert result.dual_bound is not None
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
    plan = replay(
        data,
        events,
        OrderSolution(0.0, 0.0, lengths, np.ones((2, 2)), extra, np.zeros((2, 2), dtype=bool)),
    )
    assert plan is not None
    return f"{plan.value * data.unit_s / 2:.2f}"


@pytest.mark.parametrize(
    ("jobs", "initial", "printed"),
    [
        (EXAMPLE_1, (2, 6), "41.67"),
        (EXAMPLE_1, (3, 5), "43.00"),
        (EXAMPLE_1, (4, 4), "45.00"),
        (EXAMPLE_1, (5, 3), "48.33"),
        (EXAMPLE_1, (6, 2), "51.67"),
        (EXAMPLE_2, (3, 5), "62.00"),
        (EXAMPLE_2, (2, 6), "63.33"),
    ],
)
def test_rows_of_the_fact_sheet(
    jobs: tuple[tuple[int, int, float], ...], initial: tuple[int, int], printed: str
) -> None:
    """The five published rows and the two beside them, and none is better than the optimum."""
    assert value_from_initial(jobs, initial) == printed
    assert optimum(instance_of(8, jobs, running=True)) <= float(printed) + 0.005


@pytest.mark.parametrize(("jobs", "printed"), [(EXAMPLE_1, "41.67"), (EXAMPLE_2, "62.00")])
@pytest.mark.parametrize("running", [False, True])
def test_best_rows_are_the_optima(
    jobs: tuple[tuple[int, int, float], ...], printed: str, running: bool
) -> None:
    assert f"{optimum(instance_of(8, jobs, running=running)):.2f}" == printed


def test_waiting_pays() -> None:
    """Both base demands fit, yet the longer job had better wait for the shorter one."""
    jobs = ((3, 6, 420.0), (3, 6, 60.0))
    waiting = instance_of(6, jobs)
    assert optimum(waiting) == pytest.approx(45.0)
    first_runs = replace(waiting, jobs=(replace(waiting.jobs[0], running=True), waiting.jobs[1]))
    assert optimum(first_runs) == pytest.approx(50.0)
    assert optimum(instance_of(6, jobs, running=True)) == pytest.approx(50.0)


CASES = [
    *((1, seed, {"fit": False, "releases": True, "loss": True}) for seed in range(2)),
    *((2, seed, {"fit": True, "loss": True, "wide": True}) for seed in range(6)),
    *((2, seed, {"fit": False, "releases": True, "loss": True}) for seed in range(6)),
    *((3, seed, {"fit": True, "loss": True}) for seed in range(6)),
    *((3, seed, {"fit": False}) for seed in range(6)),
    *((3, seed, {"fit": False, "releases": True, "loss": True, "wide": True}) for seed in (1, 2)),
]


@pytest.mark.parametrize(("jobs", "seed", "options"), CASES)
def test_equals_brute_force(jobs: int, seed: int, options: dict[str, bool]) -> None:
    instance = reference.drawn(jobs, seed, **options)
    assert optimum(instance) == pytest.approx(reference.optimum(instance), rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 30))
@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("releases", [False, True])
def test_equals_brute_force_more(seed: int, fit: bool, releases: bool) -> None:
    instance = reference.drawn(3, seed, fit=fit, releases=releases, loss=True, wide=True)
    assert optimum(instance) == pytest.approx(reference.optimum(instance), rel=2e-6)


seeds = st.integers(0, 10**6)
sizes = st.integers(1, 4)
flags = st.booleans()


@draws(25)
@given(sizes, seeds, flags, flags, flags)
def test_no_priority_schedule_is_better(
    jobs: int, seed: int, fit: bool, releases: bool, loss: bool
) -> None:
    instance = reference.drawn(jobs, seed, fit=fit, releases=releases, loss=loss, wide=True)
    data = OrderData(instance)
    best = min(plan.value for plan in starting_plans(data)) - data.release.sum()
    assert optimum(instance) <= best * data.unit_s / data.jobs * (1 + 1e-12)


@draws(25)
@given(sizes, seeds, flags, flags, st.sampled_from([0.37, 3.0, 1024.0]))
def test_scales_with_time(jobs: int, seed: int, fit: bool, releases: bool, factor: float) -> None:
    instance = reference.drawn(jobs, seed, fit=fit, releases=releases, loss=True)
    scaled = replace(
        instance,
        jobs=tuple(
            replace(job, work_worker_s=job.work_worker_s * factor, release_s=job.release_s * factor)
            for job in instance.jobs
        ),
    )
    assert optimum(scaled) == pytest.approx(factor * optimum(instance), rel=2e-6)


@draws(25)
@given(sizes, seeds, flags, flags, st.integers(1, 5))
def test_more_gpus_never_hurt(jobs: int, seed: int, fit: bool, releases: bool, more: int) -> None:
    instance = reference.drawn(jobs, seed, fit=fit, releases=releases, loss=True, wide=True)
    larger = replace(instance, gpus=instance.gpus + more)
    assert optimum(larger) <= optimum(instance) * (1 + 2e-6)


@draws(25)
@given(sizes, seeds)
def test_order_of_the_file_does_not_matter(jobs: int, seed: int) -> None:
    instance = reference.drawn(jobs, seed, fit=False, releases=True, loss=True)
    turned = replace(instance, jobs=instance.jobs[::-1])
    assert optimum(turned) == pytest.approx(optimum(instance), rel=2e-6)


def test_a_job_without_choice_takes_its_time() -> None:
    """Smallest of all: w_min = w_max, one job; and a scaling loss of 1 makes workers useless."""
    assert optimum(instance_of(2, ((2, 2, 10.0),))) == pytest.approx(5.0)
    useless = replace(instance_of(9, ((2, 6, 10.0),)).jobs[0], scaling_loss=1.0)
    one = Instance(name="loss", objective="mean_jct", gpus=9, jobs=(useless,))
    assert optimum(one) == pytest.approx(5.0)


def test_releases_far_from_zero() -> None:
    """A proof is relative to the mean JCT, not to the clock."""
    instance = reference.drawn(3, 5, fit=False)
    far = replace(instance, jobs=tuple(replace(job, release_s=1e6) for job in instance.jobs))
    assert optimum(far) == pytest.approx(optimum(instance), rel=1e-5)


@pytest.mark.parametrize("work", [1e-9, 1e-12, 1e-60])
def test_a_job_shorter_than_floats_are_apart_is_somewhere(work: float) -> None:
    """It completes as it starts, and before a job that takes weeks."""
    short = ElasticJob(id="B", min_workers=3, max_workers=3, work_worker_s=work, release_s=1)
    first = instance_of(3, ((1, 1, 4e6),))
    found = solved(replace(first, jobs=(*first.jobs, short)))
    assert (found.status, found.objective) == (Status.OPTIMAL, pytest.approx(2e6 + 0.5))


def test_a_search_that_ends_without_a_proof_says_why() -> None:
    """Of work that spans 18 powers of ten, floats hold too little of the least."""
    jobs = instance_of(6, ((1, 1, 1e-9), (1, 3, 31250000.0), (4, 4, 2e9)))
    found = solved(jobs)
    assert found.stopped_by is None
    is_explained = found.message is not None and "floating point" in found.message
    assert (found.status is Status.OPTIMAL) != is_explained


def test_a_schedule_may_end_after_the_latest_release() -> None:
    """The largest amounts, one after another."""
    most = 2**53 - 1
    assert optimum(instance_of(1, ((1, 1, most),) * 3)) == pytest.approx(2 * most)


def test_jobs_of_unlike_sizes() -> None:
    """Seconds beside weeks: tolerances are relative to each job's own work."""
    instance = instance_of(6, ((1, 4, 2e6), (2, 5, 3.0), (1, 3, 1e4)))
    assert optimum(instance) == pytest.approx(reference.optimum(instance), rel=1e-6)


def test_limits_keep_incumbent_and_bound() -> None:
    instance = reference.drawn(7, 3, fit=False, releases=True, loss=True, wide=True)
    best = optimum(instance)
    for limits, reason in (
        (Limits(nodes=1), StoppedBy.NODES),
        (Limits(time_s=1e-6), StoppedBy.TIME),
        (Limits(memory_mib=0.001), StoppedBy.MEMORY),
        (Limits(memory_mib=0.02), StoppedBy.MEMORY),
    ):
        result = solved(instance, limits)
        assert result.dual_bound is not None
        assert result.objective is not None
        assert 0 < result.dual_bound <= best * (1 + 1e-9)
        assert result.objective >= best * (1 - 2e-6)
        assert result.status is Status.OPTIMAL or result.stopped_by is reason


def test_never_worse_than_the_start() -> None:
    instance = reference.drawn(5, 1, fit=False, releases=True)
    start = best_priority_schedule(instance)
    value = check(instance, start).objective
    assert value is not None
    found = solved(instance, Limits(nodes=0), warm_start=start).objective
    assert found is not None
    assert found <= value


def test_multipliers_that_are_wrong_lift_no_bound() -> None:
    """The bound of a programme holds for any multipliers: here those of a solver stopped early."""
    instance = reference.drawn(4, 2, fit=True, loss=True)
    data = OrderData(instance)
    best = min(starting_plans(data), key=lambda plan: plan.value)
    events = best.events(data)
    starts = MeanJctExact().solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    assert starts.objective is not None
    whole = Programme(data, best.value)
    known = [None] * data.jobs
    if not data.running.all():
        pytest.fail("the draw should have all jobs running")
    right = whole.solve(events, known)
    assert right is not None
    for iterations in (0, 2, 5):
        hurried = Programme(data, best.value)
        hurried._solver.setOptionValue("simplex_iteration_limit", iterations)
        early = hurried.solve(events, known)
        assert early is not None
        assert early.bound <= right.value * (1 + 1e-9)
    plan = replay(data, events, right)
    assert plan is not None
    assert plan.value == pytest.approx(right.value, rel=1e-9)


def test_an_order_that_cannot_be_gives_no_plan() -> None:
    instance = instance_of(8, EXAMPLE_1)
    data = OrderData(instance)
    events = [Event(Kind.START, 0), Event(Kind.COMPLETION, 0), Event(Kind.COMPLETION, 1)]
    solution = Programme(data, 5.0).solve(events, [None, None])
    assert solution is not None
    assert replay(data, events, solution) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("jobs", "fit"), [(8, True), (5, False)])
@pytest.mark.parametrize("releases", [False, True])
def test_sizes_of_the_figures_are_proved(seed: int, jobs: int, fit: bool, releases: bool) -> None:
    optimum(reference.drawn(jobs, seed, fit=fit, releases=releases, loss=True, wide=True))


@pytest.mark.parametrize("work", [1e-310, 5e-324])
def test_work_whose_quotients_are_infinite_is_no_proof(work: float) -> None:
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
