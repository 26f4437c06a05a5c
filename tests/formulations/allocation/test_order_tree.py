"""The second exact method of mean JCT: its prices prove no more than is so."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from tests.lyra_opt.allocation.examples import instance_of, job


def order_of(instance, schedule):
    """Return the order of a schedule's events: at one time completions, releases, then starts."""
    releases = sorted({each.release_s for each in instance.jobs if each.release_s > 0})
    found = [(time, 1, Event(Kind.RELEASE, place)) for place, time in enumerate(releases)]
    for place, each in enumerate(instance.jobs):
        pieces = [piece for piece in schedule.pieces if piece.job == each.id]
        end = max(piece.end_s for piece in pieces)
        found.append((end, 0, Event(Kind.COMPLETION, place)))
        if not each.running:
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
    numbers = WholeNumbers(instance_of(9, job("one", 1, 3, 6.0, scaling_loss=0.5)))
    order = PartialOrder(numbers, [Event(Kind.START, 0), Event(Kind.COMPLETION, 0)])
    priced = OrderPriceBound(numbers)
    for price, expected in ((Fraction(1, 2), 3), (Fraction(1, 4), Fraction(3, 2)), (5, 3)):
        shares = Shares([Fraction(price)], [0.0], [0.0], [0.0])
        bound = priced.bound(order, priced.prices(order, shares, None), None)
        assert bound == pytest.approx(expected * numbers.ticks, rel=1e-15)


def test_shares_whose_sum_rounds_to_1_are_lowered():
    """As floats 0.1 and 0.9 add up to 1; as fractions they do not."""
    numbers = WholeNumbers(instance_of(1, job("one", 1, 1, 1.0)))
    order, priced = PartialOrder(numbers, ()), OrderPriceBound(numbers)
    found = priced.prices(order, Shares([Fraction(0)], [0.1], [0.9], [0.0]), tail_of(order))
    assert 2 * found.rest[0] + found.decay[0] <= 2 << priced.bits


def test_a_job_that_has_no_room_beside_a_completion_starts_after_it():
    """3 of 4 GPUs are held until A completes, so B, which needs 2, starts after it."""
    jobs = [job(name, least, 4, 8.0) for name, least in (("A", 3), ("B", 2), ("C", 1))]
    order = PartialOrder(WholeNumbers(instance_of(4, *jobs)), [Event(Kind.COMPLETION, 0)])
    assert order.first == [0, 1, 0]


@pytest.mark.parametrize(("gpus", "best"), [(2, 6.0), (5, 2.4)])
def test_wide_workers_that_do_not_fit_are_not_counted(gpus, best):
    """Of two GPUs a worker takes both, though the job could use three workers."""
    instance = instance_of(gpus, job("w", 1, 3, 6.0, gpus_per_worker=2))
    assert optimum(instance, "order-tree") == pytest.approx(best)


ONCE_PROVED_ALONE = (
    *("lyra-table-2", "lyra-table-4", "waiting-pays"),
    *(f"counterexample-{rule}" for rule in ("lyra", "srw", "best-fill", "afs")),
    *(
        f"load-v1-n{jobs}-load{load}{late}-seed0"
        for jobs, load, late in product((4, 6), (100, 200), ("", "-release100"))
    ),
    "load-v1-n8-load400-seed0",
    *(f"light-v1-n10-gpus32-seed{seed}" for seed in (0, 1)),
)


@pytest.mark.parametrize("name", sampled([(name,) for name in ONCE_PROVED_ALONE], 3))
def test_instances_of_the_library_have_their_best_known(name):
    """What one engine alone had proved: published examples, counterexamples and families."""
    known = library().known[name].best_known
    assert optimum(library().load(name).instance, "order-tree") == pytest.approx(known, rel=1e-6)
