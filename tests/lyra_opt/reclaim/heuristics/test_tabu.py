"""Tabu search: exact changes, never worse than its starts, compiled or not."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core import kernels
from lyra_opt.reclaim.heuristics.base import preempted_weight
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy, LyraGreedyElastic, Marginal, Peeling
from lyra_opt.reclaim.heuristics.tabu import LONGEST_BAN, Tabu, _SwapSearch, search_by_swaps
from lyra_opt.reclaim.reduction import reduce_instance
from lyra_opt.testing.strategies import reclaim_instances
from tests.draws import draws
from tests.optima import optimum

HUGE = 2**70
LARGEST_WEIGHT = 2**53 - 1
SEMANTICS = ["rigid", "interchangeable"]


def cluster(servers, reclaim, semantics, seed=0):
    return lo.generate(
        "reclaim", "messy-dist", servers=servers, reclaim=reclaim, semantics=semantics, seed=seed
    )


def starts_of(instance):
    """Return the objectives of the rules that the search starts from."""
    rigid = instance.semantics == "rigid"
    rules = [Peeling(), LyraGreedy() if rigid else LyraGreedyElastic(), Marginal()]
    return [
        preempted_weight(instance.index, rule.choose(instance, np.random.default_rng(0)))
        for rule in rules
    ]


def scaled(reduced, factor):
    """Return the same with all weights and costs times the factor, as Python integers."""
    return replace(
        reduced,
        server_cost=reduced.server_cost.astype(object) * factor,
        weight=reduced.weight.astype(object) * factor,
    )


def first_places(reduced):
    return list(range(reduced.reclaim_servers))


def searched(reduced, moves, *starts, bound=0):
    rng = np.random.default_rng(0)
    return search_by_swaps(reduced, starts, moves_per_start=moves, rng=rng, bound=bound)


class TestWalk:
    """What a walk knows of its choice is what one would find by looking."""

    @pytest.mark.parametrize("factor", [1, HUGE])
    def test_what_is_kept_up_to_date_equals_what_is_computed_anew(self, mode, factor):
        """After any number of swaps: objective, excess and the change of every server."""

        @given(
            reclaim_instances(min_servers=2, max_servers=8, max_jobs=9),
            st.lists(st.integers(1, 4), max_size=5),
            st.integers(0, 9),
        )
        @draws(50)
        def is_exact(instance, slices, seed):
            reduced = reduce_instance(instance)
            if factor > 1:
                reduced = scaled(reduced, factor)
            rng = np.random.default_rng(seed)
            walk = _SwapSearch(reduced, first_places(reduced), 100)
            for moves in slices:
                if walk.is_over:
                    return
                walk.advance(moves, -1, rng)
                then = walk.walk
                places = [place for place, flag in enumerate(then.is_chosen) if flag]
                assert sorted(then.order[: len(places)]) == places
                assert sorted(then.order) == list(range(len(then.is_chosen)))
                positions = [int(reduced.servers[place]) for place in places]
                assert walk._objective == preempted_weight(instance.index, positions) * factor
                anew = _SwapSearch(reduced, places, 100)
                assert walk._objective == anew._objective
                assert list(then.excess) == anew.walk.excess.tolist()
                assert list(then.change) == anew.walk.change.tolist()

        is_exact()

    @pytest.mark.parametrize("semantics", SEMANTICS)
    def test_what_moved_stays_unless_it_makes_the_best(self, mode, semantics):
        """A server moves twice within a ban only towards a new best objective."""
        reduced = reduce_instance(cluster(40, 12, semantics))
        walk = _SwapSearch(reduced, first_places(reduced), 200)
        rng = np.random.default_rng(1)
        returned_early = 0
        for move in range(200):
            ban_end, was_chosen, best = (
                list(walk.walk.ban_end),
                list(walk.walk.is_chosen),
                walk.best_objective,
            )
            walk.advance(1, -1, rng)
            for place, flag in enumerate(walk.walk.is_chosen):
                if flag != was_chosen[place] and ban_end[place] > move:
                    returned_early += 1
                    assert flag
                    assert walk._objective == walk.best_objective < best
                assert walk.walk.ban_end[place] <= move + 1 + LONGEST_BAN
        assert returned_early < 20

    @pytest.mark.parametrize("semantics", SEMANTICS)
    def test_interpreted_and_compiled_walk_alike(self, semantics):
        """The same kernel in both ways, and in one way after the other."""
        reduced = reduce_instance(cluster(60, 18, semantics))

        def memory(*thresholds):
            walk = _SwapSearch(reduced, first_places(reduced), 400)
            rng = np.random.default_rng(5)
            for threshold in thresholds:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(kernels, "COMPILE_FROM_WORK", threshold)
                    walk.advance(100, 0, rng)
            return [[walk.moves, walk.best_objective], *(list(array) for array in walk.walk)]

        assert (
            memory(0, 0, 0, 0)
            == memory(*[10**18] * 4)
            == memory(0, 10**18, 0, 10**18)
            == memory(10**18, 0, 10**18, 0)
        )


class TestSearch:
    """Starts, bounds and the end of the search."""

    def test_ends_at_the_bound(self):
        """A lower bound that is met saves the rest."""
        reduced = reduce_instance(cluster(60, 18, "rigid"))
        start = first_places(reduced)
        whole = searched(reduced, 2_000, start)
        assert whole.moves == 2_000
        short = searched(reduced, 2_000, start, bound=whole.objective)
        assert (short.objective, short.places) == (whole.objective, whole.places)
        assert short.moves < whole.moves
        assert short.stopped_by is None

    def test_searches_once_from_equal_starts(self):
        """In whatever order they name their servers."""
        reduced = reduce_instance(cluster(30, 9, "rigid"))
        start = first_places(reduced)
        assert searched(reduced, 50, start, start[::-1]).moves == 50


class TestTabu:
    """The solver."""

    @given(reclaim_instances(), st.integers(0, 3), st.integers(0, 60))
    def test_is_no_worse_than_its_starts(self, instance, seed, moves):
        """The checker confirms its objective, for any number of moves."""
        answer = lo.solve(instance, Tabu(moves), seed=seed)
        assert answer.status == "feasible", answer.message
        assert answer.objective <= min(starts_of(instance))

    @pytest.mark.parametrize("semantics", SEMANTICS)
    def test_finds_the_optimum_of_small_clusters(self, semantics):
        """Of all forty, with a fixed seed."""
        for seed, reclaim in product(range(10), (2, 4, 6, 8)):
            instance = cluster(11, reclaim, semantics, seed)
            assert lo.solve(instance, Tabu).objective == optimum(instance)

    @pytest.mark.parametrize("semantics", SEMANTICS)
    def test_improves_on_its_starts(self, semantics):
        """Where they leave something: fifteen fragmented clusters of 100 servers."""
        cases = [cluster(100, *case) for case in product((10, 30, 50), (semantics,), range(5))]
        starts = sum(min(starts_of(instance)) for instance in cases)
        assert sum(lo.solve(instance, Tabu).objective for instance in cases) < starts

    def test_weights_whose_sum_leaves_64_bits(self):
        """The same search in Python's integers: all jobs weigh as much as a job may."""
        instance = lo.generate("reclaim", "messy-trace", servers=250, reclaim=75)
        heaviest = tuple(replace(job, weight=LARGEST_WEIGHT) for job in instance.jobs)
        heavy = replace(instance, jobs=heaviest)
        assert heavy.total_weight > 2**62
        plain, huge = (lo.solve(one, Tabu(20)) for one in (instance, heavy))
        assert huge.objective == plain.objective * LARGEST_WEIGHT
        assert huge.solution == plain.solution

    def test_refuses_a_negative_number_of_moves(self):
        with pytest.raises(ValueError, match="moves_per_start must be at least 0, not -1"):
            Tabu(-1)
