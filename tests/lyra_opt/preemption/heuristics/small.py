"""Small clusters whose only resource is the GPU, and what a rule does to them."""

from collections import Counter

import numpy as np

from lyra_opt.core.result import Limits
from lyra_opt.preemption import Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.checker import check


def gang(name, *nodes, gpus=1, request=None, **others):
    """Return a gang with one pod on each of the given nodes."""
    pods = [PodGroup(node=each, request=request or {"gpu": gpus}) for each in nodes]
    return Gang(id=name, pods=pods, **others)


def pending(count=1, gpus=1, min_count=None, request=None, **others):
    shape = Shape(count=count, min_count=min_count, request=request or {"gpu": gpus})
    return Demand(priority=10, shapes=[shape], **others)


def cluster(gpus, *gangs, racks="", must_be_empty=(), **others):
    """Return a cluster of nodes, each given with its GPUs or its capacity.

    `racks` has one letter per node, `-` for none.
    """
    nodes = [
        Node(
            id=name,
            capacity=each if isinstance(each, dict) else {"gpu": each},
            domains={} if rack == "-" else {"rack": rack},
            must_be_empty=name in must_be_empty,
        )
        for (name, each), rack in zip(gpus.items(), racks or "-" * len(gpus), strict=True)
    ]
    return Instance(nodes=nodes, gangs=gangs, **others)


def answer(rule, instance):
    """Return the rule's solution, which must be valid and have the stated objective."""
    assert rule.supports(instance) is None
    found = rule.solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    if found.solution is not None:
        assert check(instance, found.solution).objective == found.objective
    return found.solution


def lost_pods(instance, solution):
    """Return the number of pods that each gang loses."""
    lost = Counter(
        {each.id: each.size for each in instance.gangs if each.id in solution.lost_gangs}
    )
    for each in solution.lost_pods:
        lost[each.gang] += each.count
    return lost
