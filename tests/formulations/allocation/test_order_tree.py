"""The second exact method of mean JCT: its prices prove no more than is so, and it agrees."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation import ElasticJob, Instance, Schedule
from lyra_opt.allocation.checker import check
from lyra_opt.allocation.exact.mean_jct.orders import Event, Kind
from lyra_opt.allocation.exact.mean_jct.solver import MeanJctExact
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.formulations.allocation.mean_jct.order_tree import OrderTree
from lyra_opt.formulations.allocation.mean_jct.partial_orders import PartialOrder, WholeNumbers
from lyra_opt.formulations.allocation.mean_jct.price_bound import PriceBound, Shares, tail_of
from lyra_opt.instances.library import library
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws, sampled
from tests.lyra_opt.allocation import mean_jct_reference as reference

if TYPE_CHECKING:
    from lyra_opt.core.solver import Solver


def solved(
    instance: Instance,
    limits: Limits | None = None,
    *,
    solver: Solver | None = None,
    warm_start: Schedule | None = None,
) -> SolveResult[Schedule]:
    """Solve, and hold the answer to the checker."""
    result: SolveResult[Schedule] = (solver or OrderTree()).solve(
        instance,
        limits=limits or Limits(),
        rng=np.random.default_rng(0),
        warm_start=warm_start,
    )
    assert result.solution is not None
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


CASES = [
    *((1, seed, {"fit": False, "releases": True, "loss": True}) for seed in range(2)),
    *((2, seed, {"fit": True, "loss": True, "wide": True}) for seed in range(6)),
    *((2, seed, {"fit": False, "releases": True, "loss": True}) for seed in range(6)),
    *((3, seed, {"fit": True, "loss": True}) for seed in range(4)),
    *((3, seed, {"fit": False}) for seed in range(4)),
    *((3, seed, {"fit": False, "releases": True, "loss": True, "wide": True}) for seed in (1, 2)),
]


@pytest.mark.parametrize(("jobs", "seed", "options"), CASES)
def test_equals_brute_force(jobs: int, seed: int, options: dict[str, bool]) -> None:
    """Every order of events, a dense programme each."""
    instance = reference.drawn(jobs, seed, **options)
    assert optimum(instance) == pytest.approx(reference.optimum(instance), rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 30))
@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("releases", [False, True])
def test_equals_brute_force_more(seed: int, fit: bool, releases: bool) -> None:
    instance = reference.drawn(3, seed, fit=fit, releases=releases, loss=True, wide=True)
    assert optimum(instance) == pytest.approx(reference.optimum(instance), rel=2e-6)


@draws(40)
@given(allocation_instances(objective="mean_jct", max_jobs=5))
def test_agrees_with_the_other_exact_method(instance: Instance) -> None:
    """With releases, losses, wide workers, running, waiting and equal jobs."""
    other = solved(instance, solver=MeanJctExact())
    assert other.status is Status.OPTIMAL
    assert optimum(instance) == pytest.approx(other.objective, rel=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("fit", [False, True])
@pytest.mark.parametrize("releases", [False, True])
def test_agrees_on_seven_jobs(seed: int, fit: bool, releases: bool) -> None:
    instance = reference.drawn(7, seed, fit=fit, releases=releases, loss=True, wide=True)
    other = solved(instance, solver=MeanJctExact())
    assert optimum(instance) == pytest.approx(other.objective, rel=2e-6)


def order_of(instance: Instance, schedule: Schedule) -> list[Event]:
    """Return the order of a schedule's events: at one time completions, releases, then starts."""
    releases = sorted({job.release_s for job in instance.jobs if job.release_s > 0})
    found = [(time, 1, Event(Kind.RELEASE, place)) for place, time in enumerate(releases)]
    for place, job in enumerate(instance.jobs):
        pieces = [piece for piece in schedule.pieces if piece.job == job.id]
        end = max(piece.end_s for piece in pieces)
        found.append((end, 0, Event(Kind.COMPLETION, place)))
        if not job.running:
            found.append((min(piece.start_s for piece in pieces), 2, Event(Kind.START, place)))
    # What rounding tells apart happens at one time.
    found.sort()
    last = 0.0
    for place, (time, kind, event) in enumerate(found):
        last = last if time - last <= 1e-9 * max(1.0, time) else time
        found[place] = (last, kind, event)
    return [event for _, _, event in sorted(found)]


@draws(60)
@given(allocation_instances(objective="mean_jct", max_jobs=5), st.integers(0, 10**6), st.data())
def test_no_prices_bound_a_schedule_from_above(
    instance: Instance, seed: int, data: st.DataObject
) -> None:
    """Whatever the prices, however much of the order of the schedule is known, and which starts."""
    best = solved(instance, Limits(nodes=3))
    assert best.solution is not None
    assert best.objective is not None
    numbers = WholeNumbers(instance)
    events = order_of(instance, best.solution)
    known = data.draw(st.integers(0, len(events)), label="events known")
    begun = events[:known]
    # Some starts are left open: those that are known must be, for their jobs to be forced.
    open_jobs = data.draw(st.sets(st.integers(0, len(instance.jobs) - 1)), label="open")
    begun = [
        event for event in begun if event.kind is not Kind.START or event.which not in open_jobs
    ]
    order = PartialOrder(numbers, begun)
    assert order.is_possible
    rng = np.random.default_rng(seed)
    jobs = numbers.jobs
    scale = float(10.0 ** rng.uniform(-2, 1))
    shares = Shares(
        [Fraction(float(each) * scale) for each in rng.random(jobs)],
        *(rng.random(jobs) * rng.choice([0.0, 1.0, 3.0]) for _ in range(3)),
    )
    priced, tail = PriceBound(numbers), tail_of(order) if order.following else None
    bound = priced.bound(order, priced.prices(order, shares, tail), tail)
    total = Fraction(best.objective) * jobs * numbers.ticks + sum(numbers.release)
    assert bound <= total * (1 + Fraction(1, 10**9))


def test_prices_say_the_optimum_of_one_job_exactly() -> None:
    """Six worker-seconds by at most three workers, of whom those beyond one do half: 3 s."""
    job = ElasticJob(id="one", min_workers=1, max_workers=3, work_worker_s=6.0, scaling_loss=0.5)
    numbers = WholeNumbers(Instance(name="one", objective="mean_jct", gpus=9, jobs=(job,)))
    order = PartialOrder(numbers, [Event(Kind.START, 0), Event(Kind.COMPLETION, 0)])
    priced = PriceBound(numbers)
    for price, expected in ((Fraction(1, 2), 3), (Fraction(1, 4), Fraction(3, 2)), (5, 3)):
        shares = Shares([Fraction(price)], [0.0], [0.0], [0.0])
        bound = priced.bound(order, priced.prices(order, shares, None), None)
        assert bound == pytest.approx(expected * numbers.ticks, rel=1e-15)


def test_a_job_that_has_no_room_beside_a_completion_starts_after_it() -> None:
    """3 of 4 GPUs are held until A completes, so B, which needs 2, starts after it."""
    jobs = tuple(
        ElasticJob(id=name, min_workers=least, max_workers=4, work_worker_s=8.0)
        for name, least in (("A", 3), ("B", 2), ("C", 1))
    )
    numbers = WholeNumbers(Instance(name="room", objective="mean_jct", gpus=4, jobs=jobs))
    order = PartialOrder(numbers, [Event(Kind.COMPLETION, 0)])
    assert order.first == [0, 1, 0]


def test_wide_workers_that_do_not_fit_are_not_counted() -> None:
    """Of two GPUs a worker takes both, though the job could use three workers."""
    job = ElasticJob(id="w", min_workers=1, max_workers=3, work_worker_s=6.0, gpus_per_worker=2)
    assert optimum(
        Instance(name="wide", objective="mean_jct", gpus=2, jobs=(job,))
    ) == pytest.approx(6.0)
    assert optimum(
        Instance(name="wide", objective="mean_jct", gpus=5, jobs=(job,))
    ) == pytest.approx(2.4)


def test_waiting_pays() -> None:
    """Both base demands fit, yet the longer job had better wait for the shorter one."""
    jobs = (
        ElasticJob(id="A", min_workers=3, max_workers=6, work_worker_s=420.0),
        ElasticJob(id="B", min_workers=3, max_workers=6, work_worker_s=60.0),
    )
    waiting = Instance(name="waiting", objective="mean_jct", gpus=6, jobs=jobs)
    assert optimum(waiting) == pytest.approx(45.0)
    running = replace(waiting, jobs=(replace(jobs[0], running=True), jobs[1]))
    assert optimum(running) == pytest.approx(50.0)


def test_limits_keep_incumbent_and_bound() -> None:
    instance = reference.drawn(5, 3, fit=False, releases=True, loss=True, wide=True)
    best = optimum(instance)
    for limits, reason in (
        (Limits(nodes=1), StoppedBy.NODES),
        (Limits(time_s=1e-6), StoppedBy.TIME),
        (Limits(memory_mib=0.01), StoppedBy.MEMORY),
    ):
        result = solved(instance, limits)
        assert result.dual_bound is not None
        assert result.objective is not None
        assert 0 <= result.dual_bound <= best * (1 + 1e-9)
        assert result.objective >= best * (1 - 2e-6)
        assert result.status is Status.OPTIMAL or result.stopped_by is reason


@pytest.mark.parametrize("work", [1e-9, 1e-60, 5e-324])
def test_a_job_shorter_than_floats_are_apart_is_somewhere(work: float) -> None:
    """Whole numbers hold it, and no bound is above what the schedule is worth."""
    jobs = (
        ElasticJob(id="A", min_workers=1, max_workers=1, work_worker_s=4e6),
        ElasticJob(id="B", min_workers=3, max_workers=3, work_worker_s=work, release_s=1),
    )
    found = solved(Instance(name="short", objective="mean_jct", gpus=3, jobs=jobs))
    assert found.objective == pytest.approx(2e6 + 0.5)
    assert found.dual_bound is not None
    assert found.dual_bound <= 2e6 + 0.5 + 1e-6


ONCE_PROVED_ALONE = (
    "lyra-table-2",
    "lyra-table-4",
    "waiting-pays",
    "counterexample-lyra",
    "counterexample-srw",
    "counterexample-best-fill",
    "counterexample-afs",
    "load-v1-n4-load100-seed0",
    "load-v1-n4-load100-release100-seed0",
    "load-v1-n4-load200-seed0",
    "load-v1-n4-load200-release100-seed0",
    "load-v1-n6-load100-seed0",
    "load-v1-n6-load100-release100-seed0",
    "load-v1-n6-load200-seed0",
    "load-v1-n6-load200-release100-seed0",
    "load-v1-n8-load400-seed0",
    "light-v1-n10-gpus32-seed0",
    "light-v1-n10-gpus32-seed1",
)


@pytest.mark.parametrize("name", sampled([(name,) for name in ONCE_PROVED_ALONE], 3))
def test_instances_of_the_library_have_their_best_known(name: str) -> None:
    """What one engine alone had proved: published examples, counterexamples and families."""
    known = library().known[name].best_known
    assert optimum(library().load(name).instance) == pytest.approx(known, rel=1e-6)


FAR_APART = {
    # Columns: gpus; each job's min and max workers, GPUs a worker, work, release, loss; optimum.
    "work that floats near the release hardly tell from nothing": (
        7,
        ((1, 1, 1, 1e-9, 0.0, 0), (2, 2, 2, 1e-9, 0.0, 0), (1, 4, 1, 1e-9, 1.0, 1)),
        2.5e-9 / 3,
    ),
    "the same, later": (4, ((2, 5, 2, 1 / 3, 0.0, 1e-9), (1, 2, 1, 1 / 3, 1e12, 1)), 0.25),
    "most work and least": (
        7,
        (
            (1, 2, 2, 2.0**53 - 1, 1e9, 0.5),
            (1, 3, 2, 1.0, 0.0, 0),
            (2, 4, 1, 1.0, 1e9, 0),
            (2, 3, 2, 2.0**53 - 1, 0.0, 1e-9),
        ),
        2702159626662490.0,
    ),
    "much work and little": (
        3,
        (
            (1, 2, 2, 1.0, 1.0, 0.5),
            (1, 3, 1, 1.0, 0.0, 0),
            (1, 4, 2, 3e12, 0.0, 1 - 1e-9),
            (1, 4, 1, 3e12, 1.0, 1 - 1e-9),
        ),
        1.5e12,
    ),
    "a first release that shifts the others": (
        1,
        ((1, 1, 1, 1.0, 0.1, 0), (1, 1, 1, 9.0, 3e15, 0)),
        5.0,
    ),
}


@pytest.mark.parametrize("name", ["exact", "order-tree"])
@pytest.mark.parametrize("case", FAR_APART.values(), ids=FAR_APART)
def test_magnitudes_far_apart(
    case: tuple[int, tuple[tuple[Any, ...], ...], float], name: str
) -> None:
    """Nothing below the optimum is called optimal, and no bound lies above it or is 0."""
    gpus, rows, optimum = case
    keys = ("min_workers", "max_workers", "gpus_per_worker", "work_worker_s", "release_s")
    jobs = tuple(
        ElasticJob(id=str(place), **dict(zip((*keys, "scaling_loss"), row, strict=True)))
        for place, row in enumerate(rows)
    )
    instance = Instance(name="far", objective="mean_jct", gpus=gpus, jobs=jobs)
    answer = lo.solve(instance, name, time_limit_s=60)
    assert answer.status in (Status.OPTIMAL, Status.FEASIBLE), answer.message
    assert answer.objective >= optimum * (1 - 1e-9)
    assert 0 < answer.dual_bound <= optimum * (1 + 1e-9)
    if answer.status is Status.OPTIMAL:
        assert answer.objective == pytest.approx(optimum, rel=1e-6)
    else:  # the end of its schedule, rounded up, alone may leave more than is proved
        assert answer.dual_bound == pytest.approx(optimum, rel=0.2)
