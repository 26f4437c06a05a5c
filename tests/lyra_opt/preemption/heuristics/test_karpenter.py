"""Karpenter's prefixes empty nodes by moves, and miss the plans that its issues report."""

from __future__ import annotations

import pytest

from lyra_opt.preemption import Instance
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from tests.lyra_opt.preemption.heuristics.small import answer, gang, node, pending


@pytest.mark.parametrize(("tries_single_nodes", "expected"), [(False, None), (True, ["a", "c"])])
def test_an_early_node_that_blocks_hides_later_prefixes(tries_single_nodes, expected):
    # issue 1962: candidates a, b, c in this order; the pod of b fits nowhere else
    instance = Instance(
        moves="any",
        nodes=[node("a", 1), node("b", 4), node("c", 3), node("target", 4)],
        gangs=[
            gang("one", "a"),
            gang("large", "b", gpus=4),
            gang("two", "c", "c"),
            gang("fixed", "target", is_movable=False),
        ],
        empty_nodes=2,
    )
    solution = answer(Karpenter(tries_single_nodes=tries_single_nodes), instance)
    assert (solution and list(solution.emptied_nodes)) == expected


def test_the_cheapest_nodes_are_emptied_together():
    # consolidation.go, types.go: the cost of a pod grows with its priority
    instance = Instance(
        moves="victims",
        nodes=[node(name, 2) for name in ("dear", "a", "b", "target")],
        gangs=[
            gang("important", "dear", priority=2**25),
            gang("one", "a"),
            gang("two", "b"),
            gang("fixed", "target", is_movable=False),
        ],
        empty_nodes=2,
    )
    solution = answer(Karpenter(), instance)
    assert solution.emptied_nodes == ("a", "b")
    assert {each.gang: each.to for each in solution.moved_pods} == {"one": "dear", "two": "target"}


def test_a_node_with_a_pod_that_may_not_move_is_no_candidate():
    # types.go: a node with a pod that blocks eviction is not a candidate
    instance = Instance(
        moves="any",
        nodes=[node("a", 1), node("b", 2), node("target", 4)],
        gangs=[gang("fixed", "a", "target", is_movable=False), gang("two", "b", "b")],
        empty_nodes=1,
    )
    assert answer(Karpenter(), instance).emptied_nodes == ("b",)


def test_pods_of_a_named_node_are_lost_if_they_fit_nowhere():
    instance = Instance(
        moves="any",
        nodes=[node("old", 4, must_be_empty=True), node("new", 2)],
        gangs=[gang("large", "old", gpus=3), gang("small", "old")],
    )
    solution = answer(Karpenter(), instance)
    assert solution.lost_gangs == ("large",)
    assert [each.gang for each in solution.moved_pods] == ["small"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"demand": pending(1)}, "karpenter empties nodes and does not handle pending pods"),
        (
            {"moves": "none"},
            "karpenter supports victims and any instances only; this instance is none",
        ),
    ],
)
def test_what_it_does_not_support(changes, reason):
    given = {"moves": "any", "nodes": [node("n", 1)], "empty_nodes": 1} | changes
    assert Karpenter().supports(Instance(**given)).reason == reason
