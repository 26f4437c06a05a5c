"""Dynamic programming where one node is left for the pending pods."""

import numpy as np
from hypothesis import given

from lyra_opt.core.result import Status
from lyra_opt.preemption import Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.exact.cover import cheapest_cover
from tests.draws import draws
from tests.lyra_opt.preemption.exact.test_exact import (
    SEEDS,
    require_agreement,
    require_valid,
    solve,
)
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending

OBJECTIVES = (None, ["lost:gpu"], ["weighted_gangs"], ["lost_pods_by_priority", "lost_gangs"])


def on_one_node(rng):
    """Return an instance whose pending pods can only come to node a, with gangs on a and b."""
    unit, size = int(rng.choice([1, 1, 2, 10**9])), int(rng.integers(4, 13))
    left, gangs = size, []
    for number in range(int(rng.integers(0, 7))):
        gpus, pods, elsewhere = rng.integers(1, 4, 3).tolist()
        if gpus * pods <= left:
            left -= gpus * pods
            groups = [PodGroup(node="a", request={"gpu": gpus * unit}, count=pods)]
            if elsewhere < 3 and number % 2:
                groups.append(PodGroup(node="b", request={"gpu": unit}, count=elsewhere))
            others = dict(
                zip(("priority", "weight", "start_s"), rng.integers(0, 4, 3).tolist(), strict=True)
            )
            least = int(rng.integers(1, sum(group.count for group in groups) + 1))
            protected = bool(rng.random() < 0.1)
            gangs.append(
                Gang(id=f"g{number}", pods=groups, min_pods=least, is_protected=protected, **others)
            )
    gpus = int(rng.integers(1, 4))
    return cluster(
        {"a": size * unit, "b": 20 * unit},
        *gangs,
        racks="r-",
        demand=pending(int(rng.integers(1, size // gpus + 1)), gpus * unit, level="rack"),
        objective=OBJECTIVES[rng.integers(len(OBJECTIVES))],
    )


@draws(200)
@given(SEEDS)
def test_the_cheapest_cover_is_an_optimum(seed):
    instance = on_one_node(np.random.default_rng(seed))
    found = solve(instance)
    require_valid(instance, found)
    require_agreement(instance)
    if found.status is Status.OPTIMAL:
        assert cheapest_cover(instance).solution(instance) == found.solution


def test_of_equally_good_gangs_the_latest_is_lost():
    """The last to start, then the last in the file; a larger gang that started later stays."""
    ages = [("old", 0), ("new", 2), ("new too", 2)]
    gangs = [gang(name, "a", gpus=2, start_s=start_s) for name, start_s in ages]
    instance = cluster(
        {"a": 9}, *gangs, gang("large", "a", gpus=3, start_s=3), demand=pending(1, 2)
    )
    assert solve(instance).solution.lost_gangs == ("new too",)


def test_pods_that_request_nothing_have_no_cover():
    """No resource is short then, and the instance lacks resources."""
    bare = Instance(
        nodes=[Node(id="a", capacity={}), Node(id="b", capacity={}, labels={"zone": "b"})],
        demand=Demand(priority=10, shapes=[Shape(count=1, request={}, selector={"zone": "b"})]),
    )
    assert not bare.resources
    assert cheapest_cover(bare) is None
    require_agreement(bare)
