"""KAI's generators and simulation choose the victims that its tests and issues describe."""

from __future__ import annotations

import pytest

from lyra_opt.preemption import Instance
from lyra_opt.preemption.heuristics.kai import KAI
from tests.lyra_opt.preemption.heuristics.small import (
    answer,
    gang,
    node,
    optimum,
    pending,
    victims,
)


def test_consolidation_moves_two_pods_where_one_is_enough():
    # integration_tests/consolidation/consolidationGang_test.go expects two evictions
    instance = Instance(
        moves="victims",
        nodes=[node("node0", 3), node("node1", 3)],
        gangs=[gang("running", "node0", "node0", "node1")],
        demand=pending(1, gpus=3),
        objective=["lost_pods", "moved_pods"],
    )
    solution = answer(KAI(), instance)
    assert not solution.lost_gangs
    assert [each.to for each in solution.moved_pods] == ["node1", "node1"]
    assert instance.terms.decode(optimum(instance)) == (0, 1)


@pytest.mark.parametrize(
    ("pods", "gpus", "lost"),
    [
        (2, 1, {"elastic": 1}),  # "preempts single task from elastic train job"
        (4, 2, {"elastic": 2}),  # "preempts several tasks from elastic train job"
        (2, 2, {"elastic": 2}),  # "preempts all tasks from elastic train job"
    ],
)
def test_an_elastic_gang_gives_one_pod_at_a_time(pods, gpus, lost):
    # preempt/preempt_elastic_test.go
    instance = Instance(
        nodes=[node("node0", pods)],
        gangs=[gang("elastic", *["node0"] * pods, min_pods=1)],
        demand=pending(1, gpus=gpus),
    )
    assert victims(KAI(), instance) == lost


def test_a_gang_that_needs_all_nodes_drains_them():
    # preempt/preempt_gang_full_drain_test.go, issue 1591: 11 nodes with four victims each
    names = [f"node{number}" for number in range(11)]
    instance = Instance(
        nodes=[node(name, 4) for name in names],
        gangs=[gang(f"{name}-{number}", name) for name in names for number in range(4)],
        demand=pending(11, gpus=4),
    )
    assert len(victims(KAI(), instance)) == 44


@pytest.mark.parametrize(("moves", "lost"), [("victims", {}), ("none", {"small": 1})])
def test_a_victim_placed_elsewhere_is_moved_or_lost(moves, lost):
    # by_pod_solver.go: victims are allocated again, on any node
    instance = Instance(
        moves=moves,
        nodes=[node("node0", 2), node("node1", 2)],
        gangs=[gang("small", "node0"), gang("kept", "node1", is_protected=True)],
        demand=pending(1, gpus=2),
    )
    assert victims(KAI(), instance) == lost


@pytest.mark.parametrize(("is_required", "racks"), [(True, {"r0"}), (False, {"r0", "r1"})])
def test_a_level_that_cannot_hold_the_gang_is_left_only_if_preferred(is_required, racks):
    # plugins/topology/job_filtering.go: domains of the level, then everything
    instance = Instance(
        nodes=[node("n", 2, "r0"), node("m", 1, "r1"), node("o", 9)],
        gangs=[gang("low", "n"), gang("high", "n", is_protected=not is_required, priority=1)],
        demand=pending(2, level="rack", is_level_required=is_required),
    )
    solution = answer(KAI(), instance)
    rack = {each.id: each.domains.get("rack") for each in instance.nodes}
    assert {rack[each.node] for each in solution.placements} == racks
