"""The rules choose what the tests, issues and documents of the imitated programs state."""

from collections import Counter
from dataclasses import replace

import pytest

from lyra_opt.core.fields import written
from lyra_opt.core.solver import find_solver
from lyra_opt.preemption import Budget
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from tests.lyra_opt.preemption.heuristics import small
from tests.lyra_opt.preemption.heuristics.small import answer, cluster, gang, lost_pods
from tests.reference import preemption as reference
from tests.tables import tables

SCENARIOS = tables(__file__)


def gangs_of(name, on, **others):
    nodes = on.split()
    if "*" in name:
        return [gang(name.replace("*", node), node, **others) for node in nodes]
    return [gang(name, *nodes, **others)]


def instance_of(*, gangs, nodes=None, budgets=None, pending=None, **others):
    """Return the instance of a scenario; the head of the table explains the keys."""
    running = [each for name, given in gangs.items() for each in gangs_of(name, **given)]
    held = Counter()
    for group in (group for each in running for group in each.pods):
        held[group.node] += group.request["gpu"]
    is_drain = {"must_be_empty", "empty_nodes"} & others.keys()
    return cluster(
        nodes or held,
        *running,
        demand=None if is_drain else small.pending(**(pending or {})),
        budgets=[
            Budget(id=name, gangs=[name], most=most, is_hard=False)
            for name, most in (budgets or {}).items()
        ],
        **others,
    )


def outcome(rule, instance):
    has_singles = rule != "karpenter-without-single-nodes"
    solver = find_solver("preemption", rule) if has_singles else Karpenter(tries_single_nodes=False)
    if (why_not := solver.supports(instance)) is not None:
        return why_not.reason
    if (solution := answer(solver, instance)) is None:
        return "nothing"
    return {
        "lost": lost_pods(instance, solution),
        "on": sorted(each.node for each in solution.placements),
        "moved": [f"{each.gang} to {each.to}" for each in solution.moved_pods],
        "emptied": list(solution.emptied_nodes),
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_rules_choose_what_is_stated(name):
    given = dict(SCENARIOS[name])
    expect, optimum = given.pop("expect"), given.pop("optimum", None)
    is_any_order = given.pop("is_any_order", False)
    instance = instance_of(**given)
    reversed_ = replace(instance, gangs=instance.gangs[::-1])
    for rule, expected in expect.items():
        for each in [instance, reversed_] if is_any_order else [instance]:
            found = outcome(rule, each)
            assert found == (expected if isinstance(expected, str) else {**found, **expected})
    if optimum is not None:
        assert instance.terms.decode(reference.optimum(written(instance))) == tuple(optimum)
