"""The reductions against the checker: costs are kept, nothing is left to reduce."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.reclaim import reduction
from lyra_opt.reclaim.reduction import (
    dominance_pairs,
    reduce_instance,
    reduce_with_rows,
    respect_dominance,
)
from lyra_opt.testing.strategies import reclaim_instances
from tests.lyra_opt.reclaim.examples import fleet, job_on
from tests.lyra_opt.reclaim.reduced import cost_of
from tests.optima import objective


def rows_of(reduced):
    """Return (counts by place, slack, weight) of each job."""
    return [
        (dict(reduced.losses.row(job)), slack, weight)
        for job, (slack, weight) in enumerate(
            zip(reduced.slack.tolist(), reduced.weight.tolist(), strict=True)
        )
    ]


def assert_costs_are_kept(instance):
    """Hold the cost of every choice of servers against the checker."""
    reduced = reduce_instance(instance)
    for size in range(len(reduced.servers) + 1):
        sized = replace(instance, reclaim_servers=size)
        for chosen in combinations(range(len(reduced.servers)), size):
            assert cost_of(reduced, chosen) == objective(sized, reduced.solution(sized, chosen))
    return reduced


def test_thousands_of_servers_without_shared_jobs_form_one_chain():
    """As many pairs as servers, not as many as pairs of servers."""
    servers = [f"s{number}" for number in range(3000)]
    jobs = [job_on(f"j{n}", [server], weight=n % 7) for n, server in enumerate(servers)]
    pairs = dominance_pairs(reduce_instance(fleet(servers, *jobs, reclaim=5)))
    assert len(pairs) == 2999
    assert respect_dominance(pairs, range(2995, 3000)) == [0, 7, 14, 21, 28]


def test_weights_beyond_64_bits_stay_exact():
    """The total of 1200 times 2^53 - 1 is above 2^63: half of it on a pair, half on one server."""
    heaviest = 2**53 - 1
    jobs = [job_on(f"j{n}", ("st", "u")[n % 2], weight=heaviest) for n in range(1200)]
    reduced = assert_costs_are_kept(fleet("stu", *jobs, reclaim=0))
    assert reduced.weight.tolist() == [600 * heaviest]
    assert reduced.server_cost.tolist() == [0, 0, 600 * heaviest]


@given(reclaim_instances())
def test_every_choice_costs_what_it_did(instance):
    assert_costs_are_kept(instance)


@given(reclaim_instances())
def test_nothing_is_left_to_reduce(instance):
    reduced = reduce_instance(instance)
    rows = rows_of(reduced)
    for row, slack, weight in rows:
        assert len(row) >= 2
        assert weight >= 1
        assert sum(row.values()) > slack
        assert all(1 <= count <= slack + 1 for count in row.values())
    assert len({(tuple(sorted(row.items())), slack) for row, slack, _ in rows}) == len(rows)
    assert reduced.server_cost.dtype == reduced.weight.dtype == np.int64


def dominates(reduced, s, t):
    """Whether s dominates t, by the definition."""
    rows = [row for row, _, _ in rows_of(reduced)]
    fewer = all(row.get(s, 0) <= row.get(t, 0) for row in rows)
    equal = all(row.get(s, 0) == row.get(t, 0) for row in rows)
    cost_s, cost_t = reduced.server_cost[[s, t]].tolist()
    return fewer and (cost_s, s) < (cost_t, t) if equal else fewer and cost_s <= cost_t


def implied_pairs(pairs, servers):
    """Return the transitive closure."""
    closure = set(pairs)
    for middle in range(servers):
        closure |= {
            (s, t)
            for s in range(servers)
            for t in range(servers)
            if (s, middle) in closure and (middle, t) in closure
        }
    return closure


@given(reclaim_instances())
def test_dominance_pairs_imply_the_whole_relation_and_none_is_idle(instance):
    reduced = reduce_instance(instance)
    servers = len(reduced.servers)
    pairs = dominance_pairs(reduced)
    relation = {
        (s, t)
        for s in range(servers)
        for t in range(servers)
        if s != t and dominates(reduced, s, t)
    }
    assert implied_pairs(pairs, servers) == relation
    for pair in pairs:
        assert pair not in implied_pairs(set(pairs) - {pair}, servers)


@given(reclaim_instances(), st.data())
def test_choice_moved_to_respect_dominance_costs_no_more(instance, data):
    reduced = reduce_instance(instance)
    pairs = dominance_pairs(reduced)
    chosen = {place for place in range(len(reduced.servers)) if data.draw(st.booleans())}
    moved = respect_dominance(pairs, chosen)
    assert len(set(moved)) == len(moved) == len(chosen)
    assert all(t not in moved or s in moved for s, t in pairs)
    assert cost_of(reduced, moved) <= cost_of(reduced, chosen)
    assert respect_dominance(pairs, moved) == moved


@given(reclaim_instances())
def test_row_that_stands_for_a_job(instance):
    """Each row weighs what its jobs do together, and every other job is folded or costs nothing."""
    reduced, row = reduce_with_rows(instance)
    weight = [0] * len(reduced.weight)
    folded = 0
    for job, number in zip(instance.jobs, row.tolist(), strict=True):
        if number >= 0:
            weight[number] += job.weight
        else:
            folded += job.weight
    assert weight == reduced.weight.tolist()
    assert sum(reduced.server_cost.tolist()) <= folded


@given(reclaim_instances())
def test_merging_does_not_rest_on_the_hash(instance):
    """Jobs with equal fingerprints are compared in full: here all have the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduction, "_mix", lambda values: np.zeros(len(values), dtype=np.uint64))
        reduced, row = reduce_with_rows(instance)
    expected, expected_row = reduce_with_rows(instance)
    assert rows_of(reduced) == rows_of(expected)
    assert row.tolist() == expected_row.tolist()
