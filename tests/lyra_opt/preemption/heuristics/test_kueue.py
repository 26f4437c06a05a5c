"""Kueue evicts whole gangs in its order, and returns those that turn out to be unnecessary."""

from __future__ import annotations

import pytest

from lyra_opt.preemption import Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.heuristics.kueue import Kueue
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending, victims


@pytest.mark.parametrize(
    ("gangs", "lost"),
    [
        # pkg/scheduler/preemption/preemption_test.go, "minimal set excludes low priority"
        ([gang("low", "n"), gang("mid", "n", gpus=2, priority=1)], {"mid": 1}),
        # "preempt newer workloads with the same priority"
        ([gang("old", "n", gpus=2), gang("new", "n", gpus=2, start_s=2)], {"new": 1}),
        # "workload from different CQ first"
        ([gang("own", "n", gpus=2), gang("it", "n", gpus=2, queue="x", priority=5)], {"it": 1}),
        # KEP 975 (partial preemption) is open: gangs are evicted whole
        ([gang("elastic", *["n"] * 4, min_pods=1)], {"elastic": 4}),
    ],
)
def test_order_and_fill_back(gangs, lost):
    held = sum(group.request["gpu"] for each in gangs for group in each.pods)
    assert victims(Kueue(), cluster({"n": held}, *gangs, demand=pending(1, gpus=2))) == lost


def test_a_gang_without_a_requested_resource_blocks_its_node():
    # issue 10497: a pod without GPUs takes one of the two pods that the node can hold
    def running(name: str, gpus: int) -> Gang:
        return Gang(id=name, pods=[PodGroup(node="n", request={"gpu": gpus, "pods": 1})])

    instance = Instance(
        nodes=[Node(id="n", capacity={"gpu": 8, "pods": 2})],
        gangs=[running("low-gpu", 8), running("low-cpu", 0)],
        demand=Demand(priority=10, shapes=[Shape(count=2, request={"gpu": 4, "pods": 1})]),
    )
    assert victims(Kueue(), instance) is None
