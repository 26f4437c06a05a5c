"""Volcano's bundles evict what its users report, with and without the proposed trim."""

from __future__ import annotations

import pytest

from lyra_opt.preemption.heuristics.volcano import VolcanoGang, VolcanoGangTrim
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending, victims


@pytest.mark.parametrize(("rule", "lost"), [(VolcanoGang(), 10), (VolcanoGangTrim(), 1)])
def test_one_pod_evicts_a_whole_safe_bundle(rule, lost):
    # issues 5984 and 5994: 11 pods, of which 10 are above the minimum
    victim = gang("victim", *["n"] * 11, min_pods=1)
    assert victims(rule, cluster({"n": 11}, victim, demand=pending(1))) == {"victim": lost}


def test_safe_pods_of_a_high_priority_go_before_a_low_priority():
    # issue 5945: the order compares the kind of bundle before the priority
    train = gang("train", "n", "n", min_pods=1, priority=5)
    instance = cluster({"n": 3}, train, gang("batch", "n", priority=1), demand=pending(1))
    assert victims(VolcanoGang(), instance) == {"train": 1}


def test_bundles_that_made_no_room_remain_victims():
    # design document: bundles accumulate, newest first, until a placement succeeds
    instance = cluster(
        {"n": 2, "m": 3},
        gang("kept", "n", is_protected=True),
        gang("enough", "m", gpus=2, start_s=1),
        gang("older", "m", start_s=2),
        gang("newest", "n", start_s=3),
        demand=pending(1, gpus=2),
    )
    assert victims(VolcanoGangTrim(), instance) == {"newest": 1, "older": 1, "enough": 1}


@pytest.mark.parametrize(("blocked", "expected"), [(7, {"dear": 2}), (8, None)])
def test_the_first_of_eight_domains_wins(blocked, expected):
    # gangpreempt.go: maxDomains; domains are not compared
    gpus = {f"n{number}": 2 for number in range(blocked)} | {"dear": 2, "cheap": 2}
    instance = cluster(
        gpus,
        *(gang(name, name, is_protected=True) for name in list(gpus)[:blocked]),
        gang("dear", "dear", "dear"),
        gang("cheap", "cheap"),
        racks="abcdefghij"[: len(gpus)],
        demand=pending(2, level="rack"),
    )
    assert victims(VolcanoGang(), instance) == expected
