"""Draining by hand takes the nodes with the fewest pods, whatever these pods belong to."""

from __future__ import annotations

from lyra_opt.preemption import Instance
from lyra_opt.preemption.heuristics.drain import FewestPodsFirst
from tests.lyra_opt.preemption.heuristics.small import answer, gang, node, pending, victims

RULE = FewestPodsFirst()


def test_one_pod_of_a_large_gang_counts_as_one_pod():
    instance = Instance(
        nodes=[node("n", 4), node("m", 4)],
        gangs=[gang("large", "n", "m", "m", "m"), gang("pair", "m")],
        empty_nodes=1,
    )
    assert answer(RULE, instance).emptied_nodes == ("n",)
    assert victims(RULE, instance) == {"large": 4}


def test_nodes_with_a_protected_pod_are_left_out():
    instance = Instance(
        nodes=[node("n", 4), node("m", 4)],
        gangs=[gang("kept", "n", is_protected=True), gang("pair", "m", "m")],
        empty_nodes=1,
    )
    assert answer(RULE, instance).emptied_nodes == ("m",)


def test_the_largest_pod_goes_first_and_makes_room_for_several():
    instance = Instance(
        nodes=[node("n", 4), node("m", 4)],
        gangs=[gang("big", "n", gpus=3), gang("tiny", "n"), gang("four", "m", "m", "m", "m")],
        demand=pending(3),
    )
    assert victims(RULE, instance) == {"big": 1}


def test_a_required_level_chooses_the_domain_with_the_fewest_pods():
    instance = Instance(
        nodes=[node("n", 2, "r0"), node("m", 2, "r1"), node("o", 2)],
        gangs=[gang("two", "n", "n"), gang("one", "m", gpus=2, priority=5), gang("out", "o")],
        demand=pending(2, level="rack"),
    )
    assert victims(RULE, instance) == {"one": 1}


def test_nodes_are_emptied_before_room_is_made():
    instance = Instance(
        nodes=[node("n", 2), node("m", 2)],
        gangs=[gang("one", "n"), gang("two", "m", "m")],
        demand=pending(1),
        empty_nodes=1,
    )
    assert answer(RULE, instance).emptied_nodes == ("n",)
    assert victims(RULE, instance) == {"one": 1, "two": 2}
