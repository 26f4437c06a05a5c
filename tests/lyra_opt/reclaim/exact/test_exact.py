"""The solver `exact`: against enumeration, general solvers, heuristics, and itself renamed."""

from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given

from lyra_opt.core import stopwatch
from lyra_opt.core.result import Limits, Status, StoppedBy
from lyra_opt.core.solver import find_solver
from lyra_opt.instances.family import generate
from lyra_opt.reclaim.exact import solver
from lyra_opt.reclaim.exact.components import search_components
from lyra_opt.reclaim.exact.solver import Exact
from lyra_opt.reclaim.exact.tree.search import TreeSearch
from lyra_opt.reclaim.reduction import reduce_instance
from lyra_opt.testing.strategies import reclaim_instances

SEMANTICS = ("rigid", "interchangeable")


def run(solver, instance, **limits):
    return solver.solve(instance, limits=Limits(**limits), rng=np.random.default_rng(0))


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize(
    ("family", "size"),
    [
        *((family, {"servers": 40}) for family in ("bf-trace", "rnd-trace", "messy-trace")),
        *((family, {"servers": 40}) for family in ("bf-dist", "rnd-dist", "messy-dist")),
        *((family, {"servers": 20}) for family in ("span", "reg4", "hyp8", "planted")),
        pytest.param("grid", {"servers": 20}, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_general_solvers_agree_on_every_family(family, size, semantics):
    """CP-SAT and HiGHS share no code with it, nor with each other."""
    for picks in (size["servers"] // 8, size["servers"] // 3):
        instance = generate("reclaim", family, reclaim=picks, seed=5, semantics=semantics, **size)
        answers = [
            run(solver, instance)
            for solver in (
                Exact(),
                find_solver("reclaim", "cpsat-strengthened"),
                find_solver("reclaim", "pulp-highs-strengthened"),
            )
        ]
        assert all(answer.status is Status.OPTIMAL for answer in answers)
        assert len({answer.objective for answer in answers}) == 1


@pytest.mark.parametrize("family", ["net", "net-joined"])
def test_the_trap_of_all_heuristics_is_solved(family):
    """On these, every heuristic of this package enters the net; see the family."""
    answer = run(Exact(), generate("reclaim", family, reclaim=6, seed=0))
    assert answer.status is Status.OPTIMAL
    assert answer.objective == {"net": 8, "net-joined": 9}[family]


@given(reclaim_instances(semantics="rigid", max_servers=10, max_jobs=6, max_weight=6))
def test_components_bracket_the_optimum_and_return_the_set(instance):
    """Few jobs on many servers: many components, small and separable ones."""
    reduced = reduce_instance(instance)
    worst = range(reduced.reclaim_servers)
    found = search_components(reduced, worst, dual_bound=0)
    best = TreeSearch(reduced, worst, dual_bound=0).search().objective
    assert found.bound <= best <= found.objective == reduced.objective(found.places)
    assert len(set(found.places)) == reduced.reclaim_servers


def test_components_alone_prove_best_fit_fleets():
    """Jobs on few servers each: hundreds of small components, put together by the knapsack."""
    reduced = reduce_instance(generate("reclaim", "bf-dist", servers=200, reclaim=100, seed=1))
    found = search_components(reduced, range(100), dual_bound=0)
    assert found.objective == found.bound == reduced.objective(found.places)


def test_a_trial_of_the_tree_leaves_time_to_the_solver(monkeypatch):
    """One tree is tried for a part of the time; then a better bound is sought, and it goes on.

    The clock moves on by a second with each look at it, however busy the machine is.
    """
    ends, trees, search = [], set(), TreeSearch.search

    def noted(tree):
        found = search(tree)
        ends.append(found.stopped_by)
        trees.add(tree)
        return found

    monkeypatch.setattr(TreeSearch, "search", noted)
    monkeypatch.setattr(solver, "SHORT_SEARCH", 1)
    monkeypatch.setattr(solver, "LONG_WALK", 1)
    monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=count(0.0).__next__))
    instance = generate("reclaim", "hyp8", servers=100, reclaim=30, seed=1)
    answer = run(Exact(), instance, time_s=400)
    assert ends == [StoppedBy.NODES, StoppedBy.TIME, StoppedBy.TIME]
    assert len(trees) == 1
    assert answer.stopped_by is StoppedBy.TIME
    assert 0 < answer.dual_bound < answer.objective
