"""Slurm selects nodes from the tightest group, as its two functions `_eval_nodes` do."""

import pytest

from lyra_opt.preemption import Demand, Shape
from lyra_opt.preemption.heuristics import slurm
from lyra_opt.preemption.heuristics.base import State
from tests.lyra_opt.preemption.heuristics.small import cluster


@pytest.mark.parametrize(
    ("gpus", "racks", "tasks", "most", "is_required", "selected"),
    [
        # the run of nodes that is just large enough
        ("11011101111", "", 3, 1, True, "00011100000"),
        # the first of equal runs
        ("11011", "", 2, 1, True, "11000"),
        # the largest run if no run is large enough, then the one that just holds the rest
        ("11011101", "", 4, 1, True, "00011101"),
        # the node that just holds all tasks
        ("439", "", 3, None, True, "030"),
        # the leaf switch with the tightest fit, whether or not one switch is required
        ("11111", "rsrsr", 2, None, True, "01010"),
        ("11111", "rsrsr", 2, None, False, "01010"),
        # the largest switch first if none is large enough
        ("11111", "rsrsr", 4, None, False, "11101"),
    ],
)
def test_nodes_come_from_the_tightest_group(gpus, racks, tasks, most, is_required, selected):
    shape = Shape(count=tasks, request={"gpu": 1}, max_per_node=most)
    level = "rack" if racks else None
    demand = Demand(priority=1, shapes=[shape], level=level, is_level_required=is_required)
    nodes = {f"n{position}": int(each) for position, each in enumerate(gpus)}
    found = slurm._select(State(cluster(nodes, racks=racks, demand=demand)))
    assert "".join(map(str, found)) == selected
