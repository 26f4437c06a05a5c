"""Short ways to write small clusters whose only resource is the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.fields import written
from lyra_opt.core.result import Limits
from lyra_opt.preemption import Demand, Gang, Instance, Node, PodGroup, Shape, Solution
from lyra_opt.preemption.checker import check
from tests.reference import preemption as reference

if TYPE_CHECKING:
    from lyra_opt.preemption.heuristics.base import PreemptionHeuristic


def node(name: str, gpus: int, rack: str | None = None, **others: Any) -> Node:
    domains = {} if rack is None else {"rack": rack}
    return Node(id=name, capacity={"gpu": gpus}, domains=domains, **others)


def gang(name: str, *nodes: str, gpus: int = 1, **others: Any) -> Gang:
    """Return a gang with one pod on each of the given nodes."""
    pods = [PodGroup(node=each, request={"gpu": gpus}) for each in nodes]
    return Gang(id=name, pods=pods, **others)


def pending(count: int, gpus: int = 1, **others: Any) -> Demand:
    return Demand(priority=10, shapes=[Shape(count=count, request={"gpu": gpus})], **others)


def answer(rule: PreemptionHeuristic, instance: Instance) -> Solution | None:
    """Return the rule's solution, which must be valid and have the stated objective."""
    assert rule.supports(instance) is None
    found = rule.solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    if found.solution is not None:
        assert check(instance, found.solution).objective == found.objective
    return found.solution


def victims(rule: PreemptionHeuristic, instance: Instance) -> dict[str, int] | None:
    """Return the number of pods that each gang loses; None if the rule finds nothing."""
    solution = answer(rule, instance)
    if solution is None:
        return None
    sizes = {each.id: each.size for each in instance.gangs}
    lost = {name: sizes[name] for name in solution.lost_gangs}
    for each in solution.lost_pods:
        lost[each.gang] = lost.get(each.gang, 0) + each.count
    return lost


def optimum(instance: Instance) -> Any:
    return reference.optimum(written(instance))
