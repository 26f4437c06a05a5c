"""Fast answers are certified, and never worse than those of Lyra's rule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.result import Limits
from lyra_opt.reclaim.exact.solver import Exact
from lyra_opt.reclaim.heuristics.fast import Fast
from lyra_opt.reclaim.heuristics.greedy import (
    LyraGreedy,
    RandomChoice,
    ShareRule,
    TieRule,
    peel_places,
    peel_servers,
)
from lyra_opt.reclaim.reduction import reduce_with_rows
from lyra_opt.testing.strategies import reclaim_instances


@pytest.mark.parametrize("semantics", ["rigid", "interchangeable"])
@pytest.mark.parametrize("family", ["messy-trace", "messy-dist", "rnd-dist", "bf-trace"])
def test_proves_most_of_what_it_finds_optimal(family, semantics):
    """On fleets of some size, compiled: never worse than Lyra's rule, proofs hold."""
    instance = lo.generate(
        "reclaim", family, servers=120, reclaim=36, seed=2, semantics=semantics, off_loan_percent=10
    )
    answer = lo.solve(instance, "fast")
    greedy = lo.solve(instance, "lyra-greedy", certify=True)
    assert answer.status in ("optimal", "feasible"), answer.message
    assert answer.objective <= greedy.objective
    assert answer.dual_bound == greedy.dual_bound or answer.status == "optimal"


def test_completion_is_the_rule_from_where_it_stands(mode):
    """What Lyra's rule takes first, given to it as taken, makes it take the same others."""

    @given(reclaim_instances(), st.data())
    def same(instance, data):
        whole = LyraGreedy().choose(instance, np.random.default_rng(0))
        first = whole[: data.draw(st.integers(0, len(whole)))]
        span = instance.index.base.span()
        rule = ShareRule(instance, span, TieRule.MOST_VACATED)
        assert rule.take(first) == list(whole)
        assert rule.take() == list(whole)  # what it computed once is left as it was

    same()


def test_quick_choices_are_the_answers_of_the_solvers(mode):
    """Where no job must be preempted, the simulation makes no instance."""

    @given(reclaim_instances(semantics="rigid", max_servers=8, max_jobs=6), st.data())
    def same(instance, data):
        servers = tuple(replace(server, on_loan=True) for server in instance.servers)
        jobs = tuple(replace(job, weight=max(1, job.weight)) for job in instance.jobs)
        instance = replace(instance, servers=servers, jobs=jobs)
        idle = np.flatnonzero(np.diff(instance.index.base.server_start) == 0).tolist()
        assume(idle)
        instance = replace(instance, reclaim_servers=data.draw(st.integers(0, len(idle))))
        for solver in (LyraGreedy(), RandomChoice(), Fast(), Exact()):
            found = solver.solve(instance, limits=Limits(), rng=np.random.default_rng(1)).solution
            given = len(servers), idle, instance.reclaim_servers
            chosen = solver.quick_choice(*given, np.random.default_rng(1))
            assert found.positions(instance) == sorted(chosen)

    same()


def test_peeling_the_reduced_instance(mode):
    """Folded jobs count as their server's cost: the servers left are those of the instance."""

    @given(reclaim_instances(semantics="rigid", max_servers=8, max_jobs=9), st.booleans())
    def same(instance, by_share):
        reduced, row = reduce_with_rows(instance)
        assume(len(reduced.weight) == np.count_nonzero(row >= 0))  # merged ones round otherwise
        left = peel_places(reduced, np.ones_like(reduced.servers), by_share=by_share)
        expected = peel_servers(instance, instance.index.is_on_loan, by_share=by_share)
        assert reduced.servers[left].tolist() == expected

    same()


def test_a_time_limit_keeps_the_first_answer_and_the_bound():
    """Stopped after one heuristic."""
    instance = lo.generate("reclaim", "messy-dist", servers=60, reclaim=18, seed=0)
    result = lo.solve(instance, "fast", time_limit_s=1e-9)
    assert (result.status, result.stopped_by) == ("feasible", "time")
    assert result.counters["heuristics"] == 1
    assert 0 < result.dual_bound < result.objective
