"""Volcano's bundles evict what its users report, with and without the proposed trim."""

from __future__ import annotations

import pytest

from lyra_opt.preemption import Instance
from lyra_opt.preemption.heuristics.volcano import VolcanoGang, VolcanoGangTrim
from tests.lyra_opt.preemption.heuristics.small import gang, node, pending, victims


@pytest.mark.parametrize(("rule", "lost"), [(VolcanoGang(), 10), (VolcanoGangTrim(), 1)])
def test_one_pod_evicts_a_whole_safe_bundle(rule, lost):
    # issue 5984 (gangpreempt) and 5994 (gangreclaim): 11 pods, of which 10 are above the minimum
    instance = Instance(
        nodes=[node("n", 11)],
        gangs=[gang("victim", *["n"] * 11, min_pods=1)],
        demand=pending(1),
    )
    assert victims(rule, instance) == {"victim": lost}


def test_safe_pods_of_a_high_priority_go_before_a_low_priority():
    # issue 5945: the order compares the kind of bundle before the priority
    instance = Instance(
        nodes=[node("n", 3)],
        gangs=[gang("train", "n", "n", min_pods=1, priority=5), gang("batch", "n", priority=1)],
        demand=pending(1),
    )
    assert victims(VolcanoGang(), instance) == {"train": 1}


@pytest.mark.parametrize("rule", [VolcanoGang(), VolcanoGangTrim()])
def test_bundles_that_made_no_room_remain_victims(rule):
    # docs/design/gang-aware-eviction-design.md: bundles accumulate until a placement succeeds
    instance = Instance(
        nodes=[node("n", 2), node("m", 3)],
        gangs=[
            gang("kept", "n", is_protected=True),
            gang("oldest", "m", gpus=2, start_s=1),
            gang("older", "m", start_s=2),
            gang("newest", "n", start_s=3),
        ],
        demand=pending(1, gpus=2),
    )
    assert victims(rule, instance) == {"newest": 1, "older": 1, "oldest": 1}


def test_the_first_domain_with_a_plan_wins():
    instance = Instance(
        nodes=[node("n", 2, "r0"), node("m", 2, "r1")],
        gangs=[gang("two", "n", "n", start_s=1), gang("one", "m", gpus=2, start_s=2)],
        demand=pending(1, gpus=2, level="rack"),
    )
    assert victims(VolcanoGang(), instance) == {"two": 2}


@pytest.mark.parametrize(("blocked", "expected"), [(7, {"cheap": 1}), (8, None)])
def test_only_eight_domains_are_examined(blocked, expected):
    # maxDomains in pkg/scheduler/actions/gangpreempt/gangpreempt.go
    racks = [f"r{number}" for number in range(blocked)]
    instance = Instance(
        nodes=[
            node("tiny", 0, "r"),
            *(node(rack, 1, rack) for rack in racks),
            node("n", 1, "last"),
        ],
        gangs=[
            *(gang(f"kept-{rack}", rack, is_protected=True) for rack in racks),
            gang("cheap", "n"),
        ],
        demand=pending(1, level="rack"),
    )
    assert victims(VolcanoGang(), instance) == expected
