"""The toolkit's own lower bound by hand; the tests of `exact` compare it with brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lyra_opt.core.fields import written
from lyra_opt.preemption.bounds.dual_bound import dual_bound
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending
from tests.reference import preemption as reference

GPUS = {"a": 4, "b": 4, "c": 4}
PAIR, SINGLE = gang("pair", "a", "b", gpus=4), gang("single", "c", gpus=4)
CASES = {
    "the cheapest node": (cluster(GPUS, PAIR, SINGLE, demand=pending(1, 4)), "lost:gpu", 4, 4),
    "both nodes of a gang": (cluster(GPUS, PAIR, SINGLE, demand=pending(2, 4)), "lost:gpu", 8, 8),
    "half of a gang, rounded up": (cluster(GPUS, PAIR, demand=pending(2, 4)), "lost_gangs", 1, 1),
    "pods outside of the rack count": (
        cluster(GPUS, PAIR, SINGLE, racks="xyy", demand=pending(2, 4, level="rack")),
        "lost:gpu",
        12,
        12,
    ),
    "the best rack": (
        cluster(GPUS, PAIR, SINGLE, racks="xyz", demand=pending(1, 4, level="rack")),
        "lost:gpu",
        4,
        4,
    ),
    "a move costs no loss": (
        cluster({**GPUS, "d": 4}, PAIR, SINGLE, demand=pending(1, 4), moves="victims"),
        "lost:gpu",
        0,
        0,
    ),
    "nodes to be emptied": (cluster(GPUS, PAIR, SINGLE, empty_nodes=2), "lost:gpu", 8, 8),
    "a weaker bound than the optimum": (
        cluster({"a": 4, "b": 4}, gang("pair", "a", "b", gpus=4), demand=pending(1, 4)),
        "lost:gpu",
        4,
        8,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values_by_hand(case):
    """The bound has the stated value, and the optimum is the last number."""
    instance, term, bound, best = CASES[case]
    instance = replace(instance, objective=[term])
    assert dual_bound(instance) == bound
    assert reference.optimum(written(instance)) == best


def test_an_impossible_demand_has_the_largest_bound():
    """No valid solution can contradict it."""
    instance = cluster(GPUS, PAIR, demand=pending(1, 5))
    assert dual_bound(instance) == instance.terms.largest
