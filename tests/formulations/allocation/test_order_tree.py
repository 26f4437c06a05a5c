"""The second exact method of mean JCT: its prices prove no more than is so."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import ElasticJob, Instance, Schedule
from lyra_opt.allocation.exact.mean_jct.orders import Event, Kind
from lyra_opt.core.result import Limits
from lyra_opt.formulations.allocation.mean_jct.partial_orders import (
    OrderPriceBound,
    PartialOrder,
    Shares,
    WholeNumbers,
    tail_of,
)
from lyra_opt.instances.library import library
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws, sampled
from tests.lyra_opt.allocation.exact.test_mean_jct_exact import optimum, solved


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
def test_no_prices_bound_a_schedule_from_above(instance, seed, data):
    """Whatever the prices, however much of the order of the schedule is known, and which starts."""
    best = solved(instance, Limits(nodes=3), name="order-tree")
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
    priced, tail = OrderPriceBound(numbers), tail_of(order) if order.following else None
    bound = priced.bound(order, priced.prices(order, shares, tail), tail)
    total = Fraction(best.objective) * jobs * numbers.ticks + sum(numbers.release)
    assert bound <= total * (1 + Fraction(1, 10**9))


def test_prices_say_the_optimum_of_one_job_exactly():
    """Six worker-seconds by at most three workers, of whom those beyond one do half: 3 s."""
    job = ElasticJob(id="one", min_workers=1, max_workers=3, work_worker_s=6.0, scaling_loss=0.5)
    numbers = WholeNumbers(Instance(name="one", objective="mean_jct", gpus=9, jobs=(job,)))
    order = PartialOrder(numbers, [Event(Kind.START, 0), Event(Kind.COMPLETION, 0)])
    priced = OrderPriceBound(numbers)
    for price, expected in ((Fraction(1, 2), 3), (Fraction(1, 4), Fraction(3, 2)), (5, 3)):
        shares = Shares([Fraction(price)], [0.0], [0.0], [0.0])
        bound = priced.bound(order, priced.prices(order, shares, None), None)
        assert bound == pytest.approx(expected * numbers.ticks, rel=1e-15)


def test_a_job_that_has_no_room_beside_a_completion_starts_after_it():
    """3 of 4 GPUs are held until A completes, so B, which needs 2, starts after it."""
    jobs = tuple(
        ElasticJob(id=name, min_workers=least, max_workers=4, work_worker_s=8.0)
        for name, least in (("A", 3), ("B", 2), ("C", 1))
    )
    numbers = WholeNumbers(Instance(name="room", objective="mean_jct", gpus=4, jobs=jobs))
    order = PartialOrder(numbers, [Event(Kind.COMPLETION, 0)])
    assert order.first == [0, 1, 0]


def test_wide_workers_that_do_not_fit_are_not_counted():
    """Of two GPUs a worker takes both, though the job could use three workers."""
    job = ElasticJob(id="w", min_workers=1, max_workers=3, work_worker_s=6.0, gpus_per_worker=2)
    for gpus, best in ((2, 6.0), (5, 2.4)):
        instance = Instance(name="wide", objective="mean_jct", gpus=gpus, jobs=(job,))
        assert optimum(instance, "order-tree") == pytest.approx(best)


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
def test_instances_of_the_library_have_their_best_known(name):
    """What one engine alone had proved: published examples, counterexamples and families."""
    known = library().known[name].best_known
    assert optimum(library().load(name).instance, "order-tree") == pytest.approx(known, rel=1e-6)
