"""The tree search, its kernel and its prices, against enumeration."""

import dataclasses

import pytest
from hypothesis import given

from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.instances.family import generate
from lyra_opt.reclaim.exact.tree import search as tree_search
from lyra_opt.reclaim.exact.tree.search import TreeSearch
from lyra_opt.reclaim.reduction import reduce_instance
from lyra_opt.testing.strategies import reclaim_instances
from tests.lyra_opt.reclaim.reduced import least_cost

RIGID = reclaim_instances(semantics="rigid", max_servers=8, max_jobs=9, max_weight=6)


def with_picks(reduced, picks):
    return dataclasses.replace(reduced, reclaim_servers=picks)


def search(reduced, limits=Limits()):  # noqa: B008
    with limited_to(limits):
        return TreeSearch(reduced, range(reduced.reclaim_servers), dual_bound=0).search()


@given(RIGID)
def test_search_finds_the_optimum_for_every_number_of_servers(instance):
    """From the worst start and without a bound, the tree alone is exact."""
    reduced = reduce_instance(instance)
    for picks in range(len(reduced.servers) + 1):
        part = with_picks(reduced, picks)
        found = search(part)
        assert found.objective == found.bound == least_cost(part)
        assert len(set(found.places)) == picks
        assert part.objective(found.places) == found.objective
        assert found.stopped_by is None


@given(reclaim_instances(semantics="rigid", max_servers=6, max_jobs=6, max_weight=2**53 - 1))
def test_weights_beyond_64_bits(instance):
    """Prices in 64 bits would overflow: they are then Python's integers."""
    reduced = reduce_instance(instance)
    found = search(reduced)
    assert found.objective == found.bound == least_cost(reduced)


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("nodes", [0, 1, 2, 7, 30, 200])
def test_interrupted_search_brackets_the_optimum(nodes, compiled, monkeypatch):
    """Whatever the node limit, incumbent and bound hold, and no more nodes are used."""
    if compiled:
        monkeypatch.setattr("lyra_opt.core.kernels.COMPILE_FROM_WORK", 0)
    reduced = reduce_instance(generate("reclaim", "hyp8", servers=13, reclaim=5, seed=3))
    optimum = least_cost(reduced)
    found = search(reduced, Limits(nodes=nodes))
    assert found.bound <= optimum <= found.objective == reduced.objective(found.places)
    assert found.nodes <= nodes
    assert (found.stopped_by is StoppedBy.NODES) == (found.bound < found.objective)


def test_memory_limit_ends_the_search_with_a_bound():
    """0.02 MiB is room for 256 open nodes, which this instance exceeds."""
    reduced = reduce_instance(generate("reclaim", "hyp8", servers=40, reclaim=12, seed=1))
    found = search(reduced, Limits(memory_mib=0.02))
    assert found.stopped_by is StoppedBy.MEMORY
    assert 0 < found.bound < found.objective


def test_open_nodes_take_no_more_than_the_memory_limit(monkeypatch):
    """The arrays that hold open nodes are what grows; their size is counted."""
    sizes = []
    grow = tree_search.TreeSearch._grow

    def counting(self, memory_mib):
        grown = grow(self, memory_mib)
        sizes.append(sum(array.nbytes for array in self._tree[:-1]))
        return grown

    monkeypatch.setattr(tree_search.TreeSearch, "_grow", counting)
    reduced = reduce_instance(generate("reclaim", "hyp8", servers=40, reclaim=12, seed=1))
    search(reduced, Limits(memory_mib=0.05))
    assert max(sizes) <= 0.05 * 2**20


def test_interpreted_and_compiled_search_make_the_same_tree(monkeypatch):
    reduced = reduce_instance(generate("reclaim", "reg4", servers=16, reclaim=5, seed=2))
    monkeypatch.setattr("lyra_opt.core.kernels.COMPILE_FROM_WORK", 10**9)
    interpreted = search(reduced, Limits(nodes=40))
    monkeypatch.setattr("lyra_opt.core.kernels.COMPILE_FROM_WORK", 0)
    assert search(reduced, Limits(nodes=40)) == interpreted
