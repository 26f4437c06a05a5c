"""Draining by hand takes the nodes with the fewest pods, whatever these pods belong to."""

from __future__ import annotations

import pytest

from lyra_opt.preemption.heuristics.drain import FewestPodsFirst
from tests.lyra_opt.preemption.heuristics.small import answer, cluster, gang, pending, victims

RULE = FewestPodsFirst()


@pytest.mark.parametrize("is_protected", [False, True])
def test_a_pod_of_a_large_gang_counts_as_one_pod_unless_it_is_protected(is_protected):
    large = gang("large", "n", "m", "m", "m", is_protected=is_protected)
    instance = cluster({"n": 4, "m": 4, "o": 4}, large, gang("pair", "o", "o"), empty_nodes=1)
    assert answer(RULE, instance).emptied_nodes == (("o",) if is_protected else ("n",))
    assert victims(RULE, instance) == ({"pair": 2} if is_protected else {"large": 4})


def test_the_largest_pod_goes_first_and_makes_room_for_several():
    gangs = [gang("big", "n", gpus=3), gang("tiny", "n"), gang("four", "m", "m", "m", "m")]
    instance = cluster({"n": 4, "m": 4}, *gangs, demand=pending(3))
    assert victims(RULE, instance) == {"big": 1}


def test_a_required_level_chooses_the_domain_with_the_fewest_pods():
    gangs = [gang("two", "n", "n"), gang("one", "m", gpus=2, priority=5)]
    demand = pending(2, level="rack")
    instance = cluster({"n": 2, "m": 2, "o": 2}, *gangs, racks="rs-", demand=demand)
    assert victims(RULE, instance) == {"one": 1}
