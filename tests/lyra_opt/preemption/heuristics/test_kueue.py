"""Kueue evicts whole gangs in its order, and returns those that turn out to be unnecessary."""

from __future__ import annotations

import pytest

from lyra_opt.preemption import Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.heuristics.kueue import Kueue
from tests.lyra_opt.preemption.heuristics.small import gang, node, pending, victims


@pytest.mark.parametrize(
    ("gangs", "lost"),
    [
        pytest.param(
            # preemption_test.go, "minimal set excludes low priority"
            [gang("low", "n", gpus=1), gang("mid", "n", gpus=2, priority=1)],
            {"mid": 1},
            id="returned",
        ),
        pytest.param(
            # preemption_test.go, "preempt newer workloads with the same priority"
            [gang("old", "n", gpus=2, start_s=1), gang("new", "n", gpus=2, start_s=2)],
            {"new": 1},
            id="newer",
        ),
        pytest.param(
            # preemption_test.go, "workload from different CQ first"
            [gang("own", "n", gpus=2), gang("other", "n", gpus=2, queue="x", priority=5)],
            {"other": 1},
            id="other-queue",
        ),
        pytest.param(
            # KEP 975 (partial preemption) is open: gangs are evicted whole
            [gang("elastic", *["n"] * 4, min_pods=1)],
            {"elastic": 4},
            id="whole",
        ),
    ],
)
def test_order_and_fill_back(gangs, lost):
    held = sum(group.request["gpu"] for each in gangs for group in each.pods)
    instance = Instance(nodes=[node("n", held)], gangs=gangs, demand=pending(1, gpus=2))
    assert victims(Kueue(), instance) == lost


def test_fill_back_sees_the_required_level():
    # the gang of rack r0 comes first in the order, but only rack r1 can be freed
    instance = Instance(
        nodes=[node("n", 2, "r0"), node("m", 2, "r1")],
        gangs=[
            gang("kept", "n", is_protected=True),
            gang("first", "n", priority=0),
            gang("second", "m", gpus=2, priority=1),
        ],
        demand=pending(2, level="rack"),
    )
    assert victims(Kueue(), instance) == {"second": 1}


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
