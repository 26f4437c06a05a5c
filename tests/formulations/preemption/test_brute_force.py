"""Brute force against the reference, which enumerates the documents by itself."""

import numpy as np

from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.solving import solve_and_check
from lyra_opt.formulations.preemption.brute_force import BruteForce
from lyra_opt.preemption import Gang, PodGroup
from tests.lyra_opt.preemption.heuristics.small import cluster

PREEMPTION = find_problem("preemption")


def crowded(nodes):
    """Return nodes with a gang each, of which all but one must leave."""
    gpus = {f"n{n}": 4 for n in range(nodes)}
    pods = {node: [PodGroup(node=node, request={"gpu": 1}, count=4)] for node in gpus}
    gangs = (Gang(id=node, min_pods=1, pods=pods[node]) for node in gpus)
    return cluster(gpus, *gangs, empty_nodes=nodes - 1)


def test_too_many_choices_are_declined_with_their_number():
    assert BruteForce().supports(crowded(5)) is None
    ways = 15 * 5**15  # which node stays, and how many pods of each gang are lost
    assert f"in {ways} ways" in BruteForce().supports(crowded(15)).reason
    assert "1000 nodes and pods" in BruteForce().supports(crowded(200)).reason


def test_time_limit_leaves_a_bound_and_the_warm_start():
    instance = crowded(5)
    start = solve_and_check(PREEMPTION, instance, BruteForce()).solution
    for warm_start in (None, start):
        result = BruteForce().solve(
            instance, limits=Limits(time_s=0), rng=np.random.default_rng(0), warm_start=warm_start
        )
        assert (result.solution, result.stopped_by) == (warm_start, StoppedBy.TIME)
        assert result.dual_bound == 0
