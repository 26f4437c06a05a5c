"""The heuristic `fast` answers without time, and empties nodes by moves alone if possible."""

import numpy as np
import pytest

from lyra_opt import library, load
from lyra_opt.core.result import Limits, StoppedBy
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.heuristics.fast import Fast
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending


def test_a_solution_is_returned_when_there_is_no_time():
    nodes = {f"n{n}": 8 for n in range(40)}
    ring = zip(nodes, [*nodes][1:] + [*nodes][:1], strict=True)
    gangs = [gang(f"g{n}", *pair, gpus=3) for n, pair in enumerate(ring)]
    instance = cluster(nodes, *gangs, demand=pending(13, 8))
    with limited_to(Limits(time_s=0)):
        found = Fast().apply(instance, np.random.default_rng(0))
    assert found.stopped_by is StoppedBy.TIME
    assert check(instance, found.solution).objective == found.objective


@pytest.mark.parametrize("name", ["kubernetes-consolidate-5", "rule-trap-v1-prefix-k3"])
def test_nodes_that_can_be_emptied_by_moves_alone_are_emptied(name: str):
    """The random exchanges alone find no solution of these drains."""
    instance = load(name)
    found = Fast().apply(instance, np.random.default_rng(0))
    assert check(instance, found.solution).objective == found.objective
    assert found.objective == library("preemption").best_known[name]
