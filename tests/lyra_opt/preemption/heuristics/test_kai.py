"""KAI's generators and simulation choose the victims that its tests and issues describe."""

from __future__ import annotations

import pytest

from lyra_opt.core.fields import written
from lyra_opt.preemption.heuristics.kai import KAI
from tests.lyra_opt.preemption.heuristics.small import answer, cluster, gang, pending, victims
from tests.reference import preemption as reference


def test_consolidation_moves_two_pods_where_one_is_enough():
    # integration_tests/consolidation/consolidationGang_test.go expects two evictions
    instance = cluster(
        {"node0": 3, "node1": 3},
        gang("running", "node0", "node0", "node1"),
        moves="victims",
        demand=pending(1, gpus=3),
        objective=["lost_pods", "moved_pods"],
    )
    assert [each.to for each in answer(KAI(), instance).moved_pods] == ["node1", "node1"]
    assert instance.terms.decode(reference.optimum(written(instance))) == (0, 1)


@pytest.mark.parametrize(("pods", "gpus", "lost"), [(2, 1, 1), (4, 2, 2), (2, 2, 2)])
def test_an_elastic_gang_gives_one_pod_at_a_time(pods, gpus, lost):
    # preempt_elastic_test.go: a single task, several tasks, all tasks
    elastic = gang("elastic", *["n"] * pods, min_pods=1)
    assert victims(KAI(), cluster({"n": pods}, elastic, demand=pending(1, gpus=gpus))) == {
        "elastic": lost
    }


@pytest.mark.parametrize(
    ("gangs", "freed"),
    [
        ([gang("old", "n", start_s=1), gang("new", "m", start_s=2)], "m"),
        ([gang("more", "n", priority=1, start_s=2), gang("less", "m", start_s=1)], "m"),
        ([gang("elastic", "n", "m", min_pods=1), gang("new", "o", start_s=2)], "m"),
    ],
)
def test_the_order_of_victims(gangs, freed):
    # plugins/priority and elastic, reversed; eviction_info.go takes the last pod
    nodes = {group.node: 1 for each in gangs for group in each.pods}
    instance = cluster(nodes, *gangs, demand=pending(1))
    assert [each.node for each in answer(KAI(), instance).placements] == [freed]


def test_a_gang_that_needs_all_nodes_drains_them():
    # preempt_gang_full_drain_test.go, issue 1591: 11 nodes with four victims each
    gpus = {f"node{number}": 4 for number in range(11)}
    gangs = [gang(f"{name}-{number}", name) for name in gpus for number in range(4)]
    instance = cluster(gpus, *gangs, demand=pending(11, gpus=4))
    assert len(victims(KAI(), instance)) == 44


@pytest.mark.parametrize(("moves", "lost"), [("victims", {"e": 2}), ("none", {"e": 3, "f": 1})])
def test_node_local_victims_are_placed_again_or_lost(moves, lost):
    # nodelocalgreedy/generator.go takes all given pods of the gangs on a node; of a gang below its
    # minimum only the minimum is placed again (by_pod_solver.go, allocation_info.go)
    elastic = gang("e", "m", "n", "k", min_pods=1, start_s=1)
    gpus = {"m": 2, "n": 1, "k": 1, "o": 1}
    instance = cluster(gpus, elastic, gang("f", "m"), moves=moves, demand=pending(1, 2))
    assert victims(KAI(), instance) == lost


@pytest.mark.parametrize(
    ("gpus", "priority", "targets"),
    [({"a": 2, "b": 2}, 0, ["c", "c"]), ({"a": 4}, 0, ["c"]), ({"a": 4}, 20, None)],
)
def test_victims_are_placed_by_priority_and_prefer_nodes_with_idle_room(gpus, priority, targets):
    # nodeavailability.go before nodeplacement/pack.go; order of jobs in actions/common/action.go
    whole = gang("whole", *gpus, gpus=2, priority=priority)
    demand = pending(1, gpus["a"], level="rack")
    racks = "r" * len(gpus) + "--"
    instance = cluster(gpus | {"d": 9, "c": 5}, whole, racks=racks, moves="any", demand=demand)
    solution = answer(KAI(), instance)
    assert (solution and [each.to for each in solution.moved_pods]) == targets


def test_consolidation_loses_nobody():
    # consolidation.go, allPodsReallocated
    kept = gang("kept", "n", is_protected=True, start_s=1)
    instance = cluster({"n": 1, "m": 1}, kept, gang("low", "m"), moves="any", demand=pending(1))
    assert victims(KAI(), instance) == {"low": 1}


@pytest.mark.parametrize(("is_required", "nodes"), [(True, {"n"}), (False, {"n", "m"})])
def test_a_level_that_cannot_hold_the_gang_is_left_only_if_preferred(is_required, nodes):
    # plugins/topology/job_filtering.go: domains of the level, then everything
    high = gang("high", "n", is_protected=not is_required, priority=1)
    demand = pending(2, level="rack", is_level_required=is_required)
    gpus = {"n": 2, "m": 1, "o": 9}
    instance = cluster(gpus, gang("low", "n"), high, racks="rs-", demand=demand)
    assert {each.node for each in answer(KAI(), instance).placements} == nodes
