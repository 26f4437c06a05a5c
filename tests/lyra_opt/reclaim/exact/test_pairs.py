"""The branch and bound with semidefinite bounds, against enumeration."""

import pytest
from hypothesis import given, settings

from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.reclaim.bounds.pair_ascent import PairAscent
from lyra_opt.reclaim.bounds.pair_certificate import pair_form
from lyra_opt.reclaim.exact.pairs import PairSearch
from lyra_opt.reclaim.exact.tree.search import TreeSearch
from tests.lyra_opt.reclaim.bounds.test_pair_certificate import graphs, reg4
from tests.lyra_opt.reclaim.reduced import least_cost


def search(reduced, **limits):
    told = []
    with limited_to(Limits(**limits)):
        pairs = PairSearch(
            reduced,
            pair_form(reduced),
            range(reduced.reclaim_servers),
            0,
            lambda what, value: told.append((what, value)),
        )
        return pairs, pairs.search(), told


@given(graphs())
@settings(max_examples=30)
def test_search_finds_the_optimum_whatever_the_bounds(reduced):
    """From the worst start, with ascents that are cut short, so that the tree must be complete."""
    with pytest.MonkeyPatch.context() as patch:
        for run in (PairAscent.run, lambda ascent: None):
            patch.setattr(PairAscent, "run", run)
            _, found, _ = search(reduced)
            assert found.objective == found.bound == least_cost(reduced)
            assert reduced.objective(found.places) == found.objective
            assert len(set(found.places)) == reduced.reclaim_servers
            assert found.stopped_by is None


def test_branching_raises_the_bound_within_the_limits(monkeypatch):
    """A search that resumes ends as one without a limit, and as the tree on jobs."""
    monkeypatch.setattr(PairAscent, "exchange_cuts", lambda *_: None)
    reduced = reg4(20, 6, 1)
    optimum = TreeSearch(reduced, range(6), 0).search().objective
    pairs, root, _ = search(reduced, nodes=1)
    assert root.stopped_by is StoppedBy.NODES
    assert root.nodes == 1
    assert 0 < root.bound < optimum <= root.objective
    found = pairs.search()
    whole, found_at_once, told = search(reduced)
    assert found.objective == found.bound == found_at_once.bound == optimum
    assert whole.nodes == pairs.nodes == root.nodes + found.nodes
    assert told[-1] == ("dual_bound", optimum)
    bounds = [value for what, value in told if what == "dual_bound"]
    assert bounds == sorted(set(bounds))


@pytest.mark.parametrize(
    ("limits", "stopped_by"),
    [({"memory_mib": 1e-4}, StoppedBy.MEMORY), ({"time_s": 1e-9}, StoppedBy.TIME)],
)
def test_limits_end_the_search_with_a_bound(limits, stopped_by, monkeypatch):
    monkeypatch.setattr(PairAscent, "exchange_cuts", lambda *_: None)
    _, found, _ = search(reg4(20, 6, 1), **limits)
    assert found.stopped_by is stopped_by
    assert found.bound <= found.objective


def test_an_interrupted_node_keeps_the_bound_of_its_parent(monkeypatch):
    """The time ends within an ascent of the tree."""
    monkeypatch.setattr(PairAscent, "exchange_cuts", lambda *_: None)
    reduced = reg4(20, 6, 1)
    pairs, root, _ = search(reduced, nodes=1)
    run = PairAscent.run

    def interrupted(ascent):
        with limited_to(Limits(time_s=1e-9)):
            run(ascent)

    monkeypatch.setattr(PairAscent, "run", interrupted)
    with limited_to(Limits(nodes=9)):
        found = pairs.search()
    assert root.bound <= found.bound < found.objective
