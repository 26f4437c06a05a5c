"""Hadar: prices, payoffs, placements, and the guarantee of the form that commits."""

import random
from math import e, inf, log

import numpy as np
import pytest
from hypothesis import given

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous import Deadline, InverseJct
from lyra_opt.heterogeneous.heuristics.hadar.kernel import (
    Beam,
    Buyers,
    Market,
    Offer,
    allocate_queue,
    keep_best,
)
from lyra_opt.heterogeneous.heuristics.hadar.rule import (
    Hadar,
    PricedJobs,
    PriceRange,
    all_rounds_to_run,
    competitive_ratio,
    price_ranges,
    rounds_to_run,
)
from lyra_opt.heterogeneous.heuristics.hadar.solver import certify_committed, commit
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import (
    decided,
    instance_of,
    job,
    proved_optimum,
    run,
    state_of,
)

UTILITIES = heterogeneous_instances(objective="utility", forking=False)


def test_prices_grow_exponentially_from_least_to_most():
    """The form of the paper: U_min idle, U_max full, the geometric mean at half."""
    prices = PriceRange(log(2.0), log(32.0))
    assert [prices.price(used, 4) for used in (0, 2, 4)] == pytest.approx([2, 8, 32])
    assert competitive_ratio([prices]) == pytest.approx(2 * log(16))
    assert competitive_ratio([PriceRange(0.0, 0.5)]) == 2
    assert PriceRange(-inf, -inf).price(1, 4) == 0


def priced(gangs, can_run, **columns):
    """Return jobs by gangs, types they can run on, longest rounds, most and last worth."""
    numbers = {name: np.array(column, dtype=float) for name, column in columns.items()}
    return PricedJobs(gangs=np.array(gangs), can_run=np.array(can_run, dtype=bool), **numbers)


def test_constants_of_the_prices():
    """Worked by hand, as B3 of the fact sheet has them: rounds of 1 s, 4 GPUs."""
    worth = {"most_worth": [80 / 4, 800 / 8], "last_worth": [1, 32]}
    jobs = priced([1, 2], [[1, 1, 0], [1, 0, 0]], longest_rounds=[8, 8], **worth)
    ranges = dict(zip("abc", price_ranges(jobs, 4), strict=True))
    eta = 1 / (8 * 1 / 4)
    assert e ** ranges["a"].log_most == pytest.approx(max(80 / 4 / 1, 800 / 8 / 2))
    assert e ** ranges["b"].log_most == pytest.approx(80 / 4)
    assert e ** ranges["a"].log_least == pytest.approx(min(1 / 8, 32 / 16) / (4 * eta))
    assert ranges["c"].log_most == -inf


def test_prices_where_nothing_is_worth_anything_late():
    """Deadlines make U_min 0, which prices cannot start from."""
    late = priced([1], [[1]], longest_rounds=[1], most_worth=[5], last_worth=[0])
    assert price_ranges(late, 1)[0].log_ratio == pytest.approx(log(1e12))


def test_rounds_are_whole():
    """A job that needs exactly two rounds does not take three for rounding."""
    steps = (0.01, 0.2, 0.3, 0.31)
    assert [rounds_to_run(each, 0.1, 1.0) for each in steps] == [1, 2, 3, 4]
    assert all_rounds_to_run(np.array(steps), np.array(0.1), 1.0).tolist() == [1, 2, 3, 4]


def test_a_gang_takes_mixed_types_where_that_is_best():
    """Task-level: 2 fast and 1 slow GPU for a gang of three, at the speed of the slow one."""
    gang = job("x", 10, gang=3, throughput={"a": 2.0, "b": 1.0})
    instance = instance_of([{"a": 2}, {"b": 1}], [gang])
    assert decided(Hadar(), state_of(instance)) == {"x": ({"s0": {"a": 2}, "s1": {"b": 1}},)}


@pytest.mark.parametrize(("spread", "servers"), [(4.0, {"s0", "s1"}), (0.5, {"s2"})])
def test_what_spreading_costs_is_weighed_against_speed(spread, servers):
    """One slow server beats two fast ones only where the gang is slower there than that."""
    rates = {"throughput": {"a": 8.0, "b": 2.0}, "spread_throughput": {"a": spread, "b": 0.5}}
    gang = job("x", 64, gang=2, utility=InverseJct(scale=100.0), **rates)
    decision = decided(Hadar(), state_of(instance_of([{"a": 1}, {"a": 1}, {"b": 2}], [gang])))
    assert set(decision["x"][0]) == servers


def test_a_communication_cost_keeps_gangs_together():
    """Where speed does not say it, the parameter does."""
    gang = job("x", 8, gang=2, throughput={"a": 1.01, "b": 1.0}, utility=Deadline(deadline_s=99))
    instance = instance_of([{"a": 1}, {"a": 1}, {"b": 2}], [gang])
    together = decided(Hadar(communication_cost=1e6), state_of(instance))
    assert set(together["x"][0]) == {"s2"}


def test_nobody_runs_whose_payoff_is_not_positive():
    """A job that is worth nothing any more leaves its GPUs idle, and never completes."""
    jobs = [job("late", 5, utility=Deadline(deadline_s=2)), job("good", 1)]
    instance = instance_of([{"a": 2}], jobs, objective="utility", horizon_rounds=8)
    assert set(run("hadar", instance).last_round) == {"good"}


@pytest.mark.parametrize(("width", "taken"), [(1, "small"), (4, "pair")])
def test_the_programme_skips_whom_the_greedy_takes(width, taken):
    """Density 3 first would leave one of two GPUs; the pair of gang 2 is worth more."""
    jobs = [
        job(name, 1, gang=gang, utility=Deadline(deadline_s=99, value=value))
        for name, gang, value in (("small", 1, 3.0), ("pair", 2, 5.0))
    ]
    assert set(decided(Hadar(width=width), state_of(instance_of([{"a": 2}], jobs)))) == {taken}


@pytest.mark.parametrize(("name", "value"), [("width", 0), ("communication_cost", -1.0)])
def test_bad_parameters(name, value):
    """One clear error, before any round."""
    with pytest.raises(FieldError, match=name):
        Hadar(**{name: value})


@draws(40)
@given(
    instance=heterogeneous_instances(
        objective="mean_jct", forking=False, max_jobs=5, with_releases=False
    )
)
def test_interpreted_and_compiled_decide_alike(instance):
    """The kernels are one rule, whichever way they run."""
    first = decided(Hadar(), state_of(instance))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocate_queue, "compiles", lambda work, *, largest: True)
        second = decided(Hadar(), state_of(instance))
    assert first == second


@pytest.mark.parametrize("seed", range(40))
def test_the_most_promising_states_are_kept(seed):
    """Counts of machines order states as sums over single GPUs do, also where rounding decides."""
    draw = random.Random(seed)
    width, capacity, states = 3, 3, 7
    cells = draw.randint(1, 6)
    prices = sorted(draw.choice((0.1, 0.2, 0.3)) for _ in range(capacity))
    free = [draw.randint(0, capacity) for _ in range(states * cells)]
    gains = [draw.choice((0.1, 0.3, 0.1 + 0.2)) for _ in range(states)]
    density = draw.choice((0.0, 0.25, 0.7))
    rows = [free[start : start + cells] for start in range(0, len(free), cells)]
    market = Market(
        types=1,
        first_cell=list(range(cells + 1)),
        capacity=[capacity] * cells,
        first_price=list(range(0, capacity * cells, capacity)),
        prices=prices * cells,
        group=[0] * cells,
        first_of_group=[0],
        spread_cost=1.0,
    )
    beam = Beam(
        width=width,
        row=list(range(states)),
        free=free,
        tally=[row.count(count) for row in rows for count in range(capacity + 1)],
        left=[sum(row) for row in rows],
        gains=list(gains),
        optimism=[0.0] * states,
        is_exact=[0] * states,
        last_take=[-1] * states,
        take_before=[],
        placement=[],
    )
    levels = [0.0] * (capacity + 1)
    offer = Offer(home=[], kind=[0] * cells, left=[], price=[], estimate=levels)
    buyers = Buyers(gangs=[1], rates=[], values=[], densities=[density])
    assert keep_best(states, 0, buyers, market, offer, beam) == width
    promise = list(gains)
    for state, row in enumerate(rows):
        for count in row:
            for price in prices[capacity - count :]:
                promise[state] += max(0.0, density - price)
    order = list(range(states))
    for place in range(width):
        best = max(range(place, states), key=lambda other: promise[order[other]])
        order[place], order[best] = order[best], order[place]
    assert beam.row[:width] == order[:width]


@draws(60)
@given(instance=UTILITIES)
def test_the_theorem_of_the_committed_form(instance):
    """OPT <= 2 alpha P by brute force, and dual <= alpha P + what all GPUs cost at first."""
    certificate = certify_committed(instance)
    committed = commit(instance)
    assert committed.is_exact
    optimum = proved_optimum(instance)
    assert optimum <= 2 * committed.alpha * certificate.utility * (1 + 1e-9)
    assert committed.first_value <= optimum / 2 * (1 + 1e-6) or not optimum
    ceiling = committed.alpha * certificate.utility + committed.first_value
    assert certificate.bound.at_given_prices <= ceiling * (1 + 1e-6)
