"""Set-union knapsack problems: both problems give the optimum of the other."""

from itertools import combinations

import numpy as np
import pytest

import lyra_opt as lo
from lyra_opt.instances.reclaim.set_union import SetUnionKnapsack, read_set_union
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy
from tests.tables import tables

TABLES = tables(__file__)


def drawn(seed):
    rng = np.random.default_rng(seed)
    needs = (rng.random((6, 7)) < 0.3).astype(np.int64)
    weights = rng.integers(0, 9, 7)
    return SetUnionKnapsack(rng.integers(0, 5, 6), weights, needs, int(weights.sum() * 0.6))


def weight_of(problem, items):
    return int(problem.weights[problem.needs[list(items)].any(axis=0)].sum())


def largest_profit(problem, capacity):
    """Return the optimum by trying every set of items."""
    places = range(len(problem.profits))
    return max(
        int(problem.profits[list(items)].sum())
        for size in range(len(places) + 1)
        for items in combinations(places, size)
        if weight_of(problem, items) <= capacity
    )


def least_weight(problem, profit):
    """Return the optimum of the fleet, and the items with a chosen server."""
    answer = lo.solve(problem.fleet("fleet", profit), "exact")
    assert answer.objective is not None
    chosen = answer.solution.servers
    return answer.objective, sorted({int(name[1:].partition("-")[0]) - 1 for name in chosen})


@pytest.mark.parametrize("seed", range(8))
def test_the_knapsack_is_the_largest_fleet_within_its_capacity(seed):
    """The least weight rises with N_R; its solution is one of items that fit."""
    problem = drawn(seed)
    found = [least_weight(problem, n) for n in range(int(problem.profits.sum()) + 1)]
    assert [weight for weight, _ in found] == sorted(weight for weight, _ in found)
    best = max(n for n, (weight, _) in enumerate(found) if weight <= problem.capacity)
    assert best == largest_profit(problem, problem.capacity)
    weight, items = found[best]
    assert weight == weight_of(problem, items) <= problem.capacity
    assert problem.profits[items].sum() >= best


@pytest.mark.parametrize("seed", range(4))
def test_reclaiming_is_the_least_capacity_for_unit_profits(seed):
    """Servers are items of profit 1, and jobs are elements."""
    fleet = lo.generate("reclaim", "messy-dist", servers=7, reclaim=3, seed=seed)
    weights = fleet.index.weight
    needs = np.zeros((7, len(weights)), dtype=np.int64)
    for job in range(len(weights)):
        needs[[server for server, _ in fleet.index.base.row(job)], job] = 1
    problem = SetUnionKnapsack(np.ones(7, dtype=np.int64), weights, needs, 0)
    least = next(c for c in range(weights.sum() + 1) if largest_profit(problem, c) >= 3)
    assert least == lo.solve(fleet, "exact").objective


@pytest.mark.parametrize("layout", TABLES["files"])
def test_both_published_layouts_are_read(layout, write):
    file = write(TABLES["files"][layout], f"sukp {layout}.txt")
    problem = read_set_union(file)
    assert (problem.profits.tolist(), problem.weights.tolist()) == ([3, 2], [5, 7, 1])
    assert (problem.needs.tolist(), problem.capacity) == ([[1, 0, 1], [0, 1, 1]], 10)
    fleet = lo.generate("reclaim", "set-union", items=file, reclaim=4)
    assert fleet.name == f"set-union-v1-sukp_{layout}-k4"
    assert lo.solve(fleet, "exact").objective == 13


@pytest.mark.parametrize(("old", "new", "says"), TABLES["damaged"])
def test_damaged_files_are_refused(old, new, says, write):
    path = write(TABLES["files"]["plain"].replace(old, new), "sukp.txt")
    with pytest.raises(lo.UserError, match=says):
        read_set_union(path)


@pytest.mark.parametrize("least_work", [0, 10**18])
def test_shares_of_many_different_spans_do_not_overflow(least_work, monkeypatch):
    """Their least common denominator has more than 123 bits; 2**61 is the radix of its limbs."""
    monkeypatch.setattr("lyra_opt.core.kernels.COMPILE_FROM_WORK", least_work)
    spans = [p for p in range(2, 140) if all(p % q for q in range(2, p))]
    needs = (np.arange(139)[:, None] < np.array(spans)).astype(np.int64)
    ones = np.ones(139, dtype=np.int64)
    fleet = SetUnionKnapsack(ones, np.ones(len(spans), dtype=np.int64), needs, 0).fleet("f", 2)
    assert list(LyraGreedy().choose(fleet, np.random.default_rng(0))) == [137, 138]
