"""The rules choose what the tests, issues and documents of the imitated programs state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from lyra_opt.core.fields import written
from lyra_opt.core.solver import find_solver
from lyra_opt.preemption import Budget, Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from tests.lyra_opt.preemption.heuristics.small import answer, lost_pods
from tests.reference import preemption as reference
from tests.tables import tables

SCENARIOS = tables(__file__)


def gangs_of(name: str, on: str, gpus: int = 1, request: Any = None, **others: Any) -> list[Gang]:
    pods = [PodGroup(node=node, request=request or {"gpu": gpus}) for node in on.split()]
    if "*" in name:
        return [Gang(id=name.replace("*", each.node), pods=[each], **others) for each in pods]
    return [Gang(id=name, pods=pods, **others)]


def instance_of(given: dict[str, Any]) -> Instance:
    """Return the instance of a scenario; the head of the table explains the keys."""
    gangs = [gang for name, each in given["gangs"].items() for gang in gangs_of(name, **each)]
    held: Counter[str] = Counter()
    for group in (group for gang in gangs for group in gang.pods):
        held[group.node] += group.request["gpu"]
    capacities = given.get("nodes", held)
    must_be_empty, racks = given.get("must_be_empty", ()), given.get("racks", "-" * len(capacities))
    nodes = [
        Node(
            id=name,
            capacity=capacity if isinstance(capacity, dict) else {"gpu": capacity},
            domains={} if rack == "-" else {"rack": rack},
            must_be_empty=name in must_be_empty,
        )
        for (name, capacity), rack in zip(capacities.items(), racks, strict=True)
    ]
    shape = {"count": 1, "gpus": 1} | given.get("pending", {})
    shape = {"request": {"gpu": shape.pop("gpus")}} | shape
    demand = Demand(priority=10, shapes=[Shape(**shape)], **given.get("demand", {}))
    return Instance(
        nodes=nodes,
        gangs=gangs,
        budgets=[
            Budget(id=name, gangs=[name], most=most, is_hard=False)
            for name, most in given.get("budgets", {}).items()
        ],
        demand=None if must_be_empty or "empty_nodes" in given else demand,
        **{name: given[name] for name in ("empty_nodes", "moves", "objective") if name in given},
    )


def outcome(rule: str, instance: Instance) -> Any:
    has_singles = rule != "karpenter-without-single-nodes"
    solver = find_solver("preemption", rule) if has_singles else Karpenter(tries_single_nodes=False)
    solution = answer(solver, instance)
    return solution and {
        "lost": lost_pods(instance, solution),
        "on": sorted(each.node for each in solution.placements),
        "moved": [f"{each.gang} to {each.to}" for each in solution.moved_pods],
        "emptied": list(solution.emptied_nodes),
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_rules_choose_what_is_stated(name):
    given = SCENARIOS[name]
    instance = instance_of(given)
    reversed_ = replace(instance, gangs=instance.gangs[::-1])
    for rule, expected in given["expect"].items():
        for each in [instance, reversed_] if "is_any_order" in given else [instance]:
            found = outcome(rule, each)
            assert found == (None if expected == "nothing" else {**(found or {}), **expected})
    if "optimum" in given:
        optimum = reference.optimum(written(instance))
        assert instance.terms.decode(optimum) == tuple(given["optimum"])
