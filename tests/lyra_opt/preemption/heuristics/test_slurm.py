"""Slurm selects nodes from the tightest group, as its two functions `_eval_nodes` do."""

import pytest

from lyra_opt.preemption import Demand, Shape
from lyra_opt.preemption.heuristics import slurm
from lyra_opt.preemption.heuristics.base import State
from tests.lyra_opt.preemption.heuristics.small import cluster
from tests.tables import tables

CASES = tables(__file__)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nodes_come_from_the_tightest_group(case):
    gpus, racks, tasks, most, is_required, selected = case
    shape = Shape(count=tasks, request={"gpu": 1}, max_per_node=most or None)
    level = "rack" if racks else None
    demand = Demand(priority=1, shapes=[shape], level=level, is_level_required=is_required)
    nodes = {f"n{position}": int(each) for position, each in enumerate(gpus)}
    found = slurm._select(State(cluster(nodes, racks=racks, demand=demand)))
    assert "".join(map(str, found)) == selected
