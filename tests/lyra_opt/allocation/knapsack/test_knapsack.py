"""The knapsack algorithms: right on arbitrary classes, bounds that hold, both ways to run."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from lyra_opt.allocation.exact import mckp_core
from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.exact.mckp_dp import MckpDp
from lyra_opt.allocation.heuristics.mckp_greedy import MckpGreedy
from lyra_opt.allocation.knapsack.data import Knapsack
from lyra_opt.core import kernels
from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.stopwatch import limited_to
from tests.draws import draws
from tests.lyra_opt.allocation.knapsacks import greatest_value, knapsack_of, knapsacks, value_of
from tests.tables import tables

TABLES = tables(__file__)

EXACT = [MckpDp(), MckpCore()]
BILLIONTH = Fraction(1, 10**9)


def solved(solver, knapsack):
    """Return the value of the choice, exact, and the bound."""
    reduced = knapsack.reduced()
    found = solver.choose(reduced)
    return value_of(knapsack, reduced.original(found.chosen).tolist()), found.bound


def assert_optimal(solver, knapsack, optimum):
    """The choice is best and the bound at or above it, both within 1e-9."""
    value, bound = solved(solver, knapsack)
    assert (1 - BILLIONTH) * optimum <= value <= optimum
    assert optimum <= Fraction(bound) <= (1 + BILLIONTH) * optimum


@given(knapsacks())
@draws(200)
def test_exact_algorithms_find_the_optimum_of_arbitrary_classes(knapsack):
    optimum = greatest_value(knapsack)
    for solver in EXACT:
        assert_optimal(solver, knapsack, optimum)


@given(knapsacks())
def test_greedy_is_worth_at_least_half(knapsack):
    value, bound = solved(MckpGreedy(), knapsack)
    assert bound is None
    assert value * 2 >= greatest_value(knapsack)


@given(knapsacks(), st.integers(2, 5))
def test_greedy_is_optimal_for_concave_classes_of_one_step_weight(knapsack, gpus):
    """T(w) is convex: with one GPU size, the knapsack is not where anything is lost."""
    classes = []
    for c in range(knapsack.classes):
        gains = sorted(map(abs, knapsack.value[knapsack.start[c] : knapsack.start[c + 1]]))[::-1]
        values = np.cumsum(gains).tolist()
        classes.append([(gpus * (k + 1), value) for k, value in enumerate(values)])
    concave = knapsack_of(knapsack.capacity * 3, classes)
    value, _ = solved(MckpGreedy(), concave)
    assert float(value) == pytest.approx(float(greatest_value(concave)), rel=1e-12)


@given(knapsacks())
def test_price_and_bound_are_those_of_the_linear_programme(knapsack):
    """HiGHS on the same relaxation; the bound is never below the optimum."""
    reduced = knapsack.reduced()
    if not reduced.items:
        return
    scaled = reduced.scaled()
    bound = scaled.dual_bound(scaled.priced().bound)
    of_class = (reduced.class_of[None, :] == np.arange(reduced.classes)[:, None]).astype(float)
    size = float(reduced.value.max())
    relaxation = linprog(
        -reduced.value / size,
        A_ub=np.vstack((of_class, reduced.weight[None, :])),
        b_ub=np.append(np.ones(reduced.classes), reduced.capacity),
    )
    assert bound / size == pytest.approx(-relaxation.fun, rel=1e-7)
    assert Fraction(bound) >= greatest_value(knapsack)


@given(knapsacks())
@draws(40)
def test_interpreted_and_compiled_do_the_same(knapsack):
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for threshold in (0, 10**18):
            patch.setattr(kernels, "COMPILE_FROM_WORK", threshold)
            reduced = knapsack.reduced()
            for solver in (*EXACT, MckpGreedy()):
                choice = solver.choose(reduced)
                found.append((choice.chosen.tolist(), choice.bound, choice.counters))
    assert found[:3] == found[3:]


def test_nearly_linear_speed_up_is_not_lumped_into_steps_of_two():
    """Ten workers worth 0.1 each: as floats, the third seems to be worth more than the first."""
    values = np.cumsum([0.1] * 10).tolist()
    assert values[2] - values[1] > values[0]
    classes = [[(k + 1, value) for k, value in enumerate(values)]]
    for capacity in range(11):
        value, _ = solved(MckpGreedy(), knapsack_of(capacity, classes))
        assert float(value) == ([0, *values])[capacity]


def random_classes(seed, classes, items, heaviest, value=None):
    """Return a knapsack too large for brute force, its capacity a third of the heaviest items."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, heaviest + 1, (classes, items))
    values = rng.random(weight.shape) * heaviest if value is None else value(weight, rng)
    return Knapsack(
        capacity=int(weight.max(axis=1).sum()) // 3,
        start=np.arange(0, classes * items + 1, items),
        weight=weight.ravel(),
        value=values.ravel().astype(float),
    )


HARD_FOR_CORES = {
    "uncorrelated": None,
    "weakly correlated": lambda w, rng: w + rng.integers(0, 10, w.shape),
    "strongly correlated": lambda w, rng: w + 10,
    "subset sum": lambda w, rng: w,
    "profit ceiling": lambda w, rng: 3 * np.ceil(w / 3),
}


@pytest.mark.parametrize("kind", HARD_FOR_CORES)
@pytest.mark.parametrize("seed", range(3))
def test_core_and_table_agree_where_brute_force_does_not_reach(kind, seed):
    """Two algorithms that share no code beyond the scaling of values."""
    knapsack = random_classes(seed, 40, 6, 60, HARD_FOR_CORES[kind])
    (table, upper), (core, core_upper) = (solved(solver, knapsack) for solver in EXACT)
    assert float(table) == pytest.approx(float(core), rel=1e-9)
    assert upper == pytest.approx(core_upper, rel=1e-9)
    assert max(table, core) <= Fraction(min(upper, core_upper))


def test_common_divisor_of_the_weights_closes_the_gap():
    """Workers of 8 GPUs in 4,003 GPUs: without the division, 3 GPUs would stay in doubt."""
    classes = [[(8 * k, 100.0 * (c + 1) * k / (k + 1)) for k in range(1, 6)] for c in range(150)]
    reduced = knapsack_of(4003, classes).reduced()
    assert (reduced.capacity, int(reduced.weight.min())) == (500, 1)
    assert MckpCore().choose(reduced).counters["core_classes"] <= 1


def test_ties_do_not_fill_the_core():
    """Two thousand equal classes lose nothing but rounding: none of them enters the core."""
    classes = [[(k, 700.0 / 3 * (1 - 1 / (1 + k))) for k in range(1, 6)] for _ in range(2000)]
    found = MckpCore().choose(knapsack_of(4001, classes).reduced())
    assert found.counters["core_classes"] <= 1


@given(knapsacks(), st.floats(0, 1.5))
def test_core_is_exact_at_any_price(knapsack, factor):
    """At a wrong price it only takes longer; the base solution may then be too heavy."""
    reduced = knapsack.reduced()
    if not reduced.items:
        return
    scaled = reduced.scaled()
    core = mckp_core._Core.of(replace(scaled, price=max(1, int(scaled.price * factor))))
    assert core.expand() is None
    value = value_of(knapsack, reduced.original(core.choice()).tolist())
    optimum = greatest_value(knapsack)
    assert (1 - BILLIONTH) * optimum <= value <= optimum
    assert optimum <= Fraction(scaled.dual_bound(core.bound())) <= (1 + BILLIONTH) * optimum


@st.composite
def repeated_classes(draw):
    """Draw a knapsack of few kinds of classes, many times each, in any order, often tied."""
    density = st.sampled_from((0.1, 1 / 3, 1.0, 1.0, 1.1))
    item = st.tuples(st.integers(1, 12), density, st.sampled_from((0, 0, 1, 5)))
    kind = st.tuples(st.lists(item, max_size=4), st.sampled_from((1, 1, 2, 3, 5)))
    classes = []
    for items, gpus in draw(st.lists(kind, min_size=1, max_size=4)):
        of_class = [(gpus * weight, gpus * weight * dense + more) for weight, dense, more in items]
        classes += [of_class] * draw(st.integers(1, 40))
    draw(st.randoms(use_true_random=False)).shuffle(classes)
    heaviest = sum(max((weight for weight, _ in of_class), default=0) for of_class in classes)
    return knapsack_of(draw(st.integers(0, heaviest + 1)), classes)


@given(repeated_classes())
@draws(200)
def test_core_agrees_with_the_table_where_classes_tie(knapsack):
    """What the core leaves out of many equal changes is never needed."""
    optimum, _ = solved(MckpDp(), knapsack)
    value, bound = solved(MckpCore(), knapsack)
    assert abs(value - optimum) <= BILLIONTH * optimum
    assert max(value, optimum) <= Fraction(bound) <= (1 + BILLIONTH) * value


@pytest.mark.parametrize(
    ("capacity", "steps", "filled"),
    TABLES["thousands_of_ties_that_leave_something_over_leave_few_states"],
)
@pytest.mark.parametrize("odd", [[], [[(1, 1e-3)]]])
def test_thousands_of_ties_that_leave_something_over_leave_few_states(capacity, steps, filled, odd):
    """Each takes up to four of its steps, all worth the same per weight; one odd class is not."""
    classes = [
        [(k * steps[c % len(steps)], 0.7 * k * steps[c % len(steps)]) for k in range(1, 5)]
        for c in range(3000)
    ]
    reduced = knapsack_of(capacity, classes + odd).reduced()
    found = MckpCore().choose(reduced)
    optimum = 0.7 * filled + (1e-3 if odd and filled < capacity else 0)
    value = float(reduced.value[found.chosen[found.chosen >= 0]].sum())
    assert (value, found.bound) == (pytest.approx(optimum, rel=1e-9),) * 2
    assert found.counters["states"] < 500


def demanding():
    """Return a knapsack all of whose classes enter the core, with many states."""
    return random_classes(1, 100, 6, 300, HARD_FOR_CORES["profit ceiling"])


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(Limits(time_s=0), StoppedBy.TIME), (Limits(memory_mib=0.25), StoppedBy.MEMORY)],
)
def test_limits_of_the_core_leave_a_choice_and_a_bound(limits, reason):
    knapsack = demanding()
    reduced = knapsack.reduced()
    with limited_to(limits):
        found = MckpCore().choose(reduced)
    assert found.stopped_by is reason
    optimum, _ = solved(MckpDp(), knapsack)
    assert value_of(knapsack, reduced.original(found.chosen).tolist()) <= optimum
    assert Fraction(found.bound) >= optimum


def test_table_takes_over_where_the_states_outgrow_memory(monkeypatch):
    monkeypatch.setattr(mckp_core, "MOST_STATES", 2**13)
    knapsack = demanding()
    optimum, _ = solved(MckpDp(), knapsack)
    value, bound = solved(MckpCore(), knapsack)
    assert value == optimum
    assert bound == pytest.approx(float(optimum), rel=1e-9)


def test_reduced_drops_what_no_optimum_needs_and_keeps_the_way_back():
    knapsack = knapsack_of(
        10,
        [
            [(4, 3.0), (2, 3.0), (6, 2.0), (6, 5.0), (12, 99.0), (8, 0.0)],
            [],
            [(2, -1.0)],
            [(10, 4.0)],
        ],
    )
    reduced = knapsack.reduced()
    assert (reduced.capacity, reduced.weight.tolist()) == (5, [1, 3, 5])
    assert reduced.kept.tolist() == [1, 3, 7]
    assert reduced.start.tolist() == [0, 2, 2, 2, 3]
    assert reduced.original([-1, -1, -1, 2]).tolist() == [-1, -1, -1, 7]


def test_scaled_values_are_rounded_up_and_fit_64_bits():
    for size in (1e-150, 1.0, 1e150):
        knapsack = knapsack_of(7, [[(1, size / 3), (3, size)], [(2, size / 7)]])
        scaled = knapsack.reduced().scaled()
        exact = [Fraction(v) * Fraction(2) ** scaled.exponent for v in knapsack.value.tolist()]
        assert scaled.value.tolist() == [math.ceil(v) for v in exact]
        assert 2**57 < scaled.value[[1, 2]].sum() <= 2**59
