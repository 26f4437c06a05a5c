"""Karpenter's prefixes empty nodes by moves, and miss the plans that its issues report."""

from __future__ import annotations

import pytest

from lyra_opt.preemption import Instance, Node
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from tests.lyra_opt.preemption.heuristics.small import answer, cluster, gang


@pytest.mark.parametrize(("tries_single_nodes", "expected"), [(False, None), (True, ("a", "c"))])
def test_an_early_node_that_blocks_hides_later_prefixes(tries_single_nodes, expected):
    # issue 1962: candidates a, b, c in this order; the pod of b fits nowhere else
    instance = cluster(
        {"a": 1, "b": 4, "c": 3, "target": 4},
        gang("one", "a"),
        gang("large", "b", gpus=4),
        gang("two", "c", "c"),
        gang("fixed", "target", is_movable=False),
        moves="any",
        empty_nodes=2,
    )
    solution = answer(Karpenter(tries_single_nodes=tries_single_nodes), instance)
    assert (solution and solution.emptied_nodes) == expected


def test_the_cheapest_candidates_are_emptied_together():
    # types.go: the cost of a pod grows with its priority; blocked nodes are no candidates
    instance = cluster(
        {"dear": 2, "fixed": 2, "a": 2, "b": 2},
        gang("important", "dear", priority=2**25),
        gang("fixed", "fixed", is_movable=False),
        gang("one", "a"),
        gang("two", "b"),
        moves="victims",
        empty_nodes=2,
    )
    solution = answer(Karpenter(tries_single_nodes=False), instance)
    assert solution.emptied_nodes == ("a", "b")
    assert {each.gang: each.to for each in solution.moved_pods} == {"one": "dear", "two": "fixed"}


def test_pods_of_a_named_node_are_lost_if_they_fit_nowhere():
    nodes = [
        Node(id="old", capacity={"gpu": 4}, must_be_empty=True),
        Node(id="n", capacity={"gpu": 2}),
    ]
    gangs = [gang("large", "old", gpus=3), gang("small", "old")]
    solution = answer(Karpenter(), Instance(moves="any", nodes=nodes, gangs=gangs))
    assert solution.lost_gangs == ("large",)
    assert [each.gang for each in solution.moved_pods] == ["small"]
