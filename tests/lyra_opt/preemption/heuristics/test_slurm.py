"""Slurm preempts whole jobs in order, and reorders them by the nodes that were selected."""

from __future__ import annotations

import pytest
from hypothesis import given

from lyra_opt.preemption import Demand, Shape
from lyra_opt.preemption.heuristics import slurm
from lyra_opt.preemption.heuristics.base import State
from lyra_opt.preemption.heuristics.slurm import Slurm
from tests.draws import draws
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending, victims
from tests.lyra_opt.preemption.heuristics.test_production_rules import instances, require_valid


@draws(150)
@given(instance=instances())
def test_answers_are_valid_and_not_below_the_optimum(instance):
    require_valid("slurm", instance)


@pytest.mark.parametrize(
    ("gangs", "lost"),
    [
        # partition_prio: the lower tier first, although it is the larger job
        ([gang("high", "n", priority=1), gang("low", "m", "o")], {"low": 2}),
        # then the job on fewer nodes
        ([gang("wide", "n", "m"), gang("small", "o")], {"small": 1}),
        # then file order; the start does not matter without preempt_youngest_first
        ([gang("first", "n"), gang("second", "m", start_s=9)], {"first": 1}),
        # a job is never shrunk
        ([gang("job", "n", "m", "o", min_pods=1)], {"job": 3}),
    ],
)
def test_jobs_leave_whole_in_order_of_tier_and_nodes(gangs, lost):
    gpus = {
        node: sum(group.node == node for each in gangs for group in each.pods) for node in "nmo"
    }
    assert victims(Slurm(), cluster(gpus, *gangs, demand=pending(1))) == lost


@pytest.mark.parametrize(("reorders", "lost"), [(-2, {"a": 1, "b": 1}), (1, {"b": 1})])
def test_reordering_saves_the_jobs_that_left_in_vain(monkeypatch, reorders, lost):
    # doc/html/preempt.shtml: the last job comes first, so that fewer jobs are preempted
    monkeypatch.setattr(slurm, "REORDER_COUNT", reorders)
    jobs = [gang("a", "n"), gang("b", "n", gpus=6), gang("c", "m", gpus=8, priority=1)]
    assert victims(Slurm(), cluster({"n": 8, "m": 8}, *jobs, demand=pending(1, 6))) == lost


def test_a_job_is_no_victim_if_its_nodes_are_not_selected():
    jobs = [gang("elsewhere", "m"), gang("here", "n", priority=1)]
    instance = cluster({"m": 1, "n": 2, "o": 1}, *jobs, demand=pending(1, 2))
    assert victims(Slurm(), instance) == {"here": 1}


@pytest.mark.parametrize(
    ("free", "tasks", "selected"),
    [
        # the run of nodes that is just large enough
        ("xx.xxx.xxxx", 3, [3, 4, 5]),
        # the first of equal runs
        ("xx.xx", 2, [0, 1]),
        # the largest run if no run is large enough, then the one that just holds the rest
        ("xx.xxx.x", 4, [3, 4, 5, 7]),
    ],
)
def test_nodes_come_from_the_tightest_run(free, tasks, selected):
    gpus = {f"n{position}": int(each == "x") for position, each in enumerate(free)}
    shape = Shape(count=tasks, request={"gpu": 1}, max_per_node=1)
    instance = cluster(gpus, demand=Demand(priority=1, shapes=[shape]))
    assert slurm._select(State(instance)).nonzero()[0].tolist() == selected


def test_tasks_share_the_node_that_just_holds_them():
    instance = cluster({"n": 4, "m": 3, "o": 9}, demand=pending(3))
    assert slurm._select(State(instance)).tolist() == [0, 3, 0]


def test_a_level_is_the_leaf_switch_with_the_tightest_fit():
    racks = "rsrsr"
    gpus = {f"n{position}": 1 for position in range(5)}
    for is_required in (True, False):
        demand = pending(2, level="rack", is_level_required=is_required)
        instance = cluster(gpus, racks=racks, demand=demand)
        assert slurm._select(State(instance)).tolist() == [0, 1, 0, 1, 0]
    wide = cluster(gpus, racks=racks, demand=pending(4, level="rack", is_level_required=False))
    assert slurm._select(State(wide)).tolist() == [1, 1, 1, 0, 1]
