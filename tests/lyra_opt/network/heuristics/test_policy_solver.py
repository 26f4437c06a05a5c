"""Policies as solvers: one decision, named in the instance's own words."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given

import lyra_opt as lo
from lyra_opt.core.solver import find_solver
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES, state_of
from lyra_opt.network.instance import GangPlacement, Machine, Solution
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import gang, instance_of

NAMES = [name for name in PLACEMENT_POLICIES if name != "priced-placement"]
KEEP_TIMERS = {"consolidated", "dally"}


@pytest.mark.parametrize("name", NAMES)
def test_takes_timers_or_says_that_it_does_not(name):
    """A rule with no ear for timers refuses the gang that one holds back, and names it."""
    held = gang(4, "held", waiting_s=1.0, rack_timer_s=2.0)
    skip = find_solver("network", name).supports(instance_of([[3, 3]], [gang(2, "a"), held]))
    assert (skip is None) == (name in KEEP_TIMERS)
    assert skip is None or "'held'" in skip.reason
    over = replace(held, waiting_s=2.0)
    assert find_solver("network", name).supports(instance_of([[3, 3]], [over])) is None


@given(network_instances(with_timers=False))
@draws(30)
def test_state_says_what_the_instance_does(instance):
    """Machines of a rack are next to each other, and lead back to their place in the file."""
    epoch = state_of(instance)
    machines = epoch.state.machines
    assert sorted(epoch.machine_order) == list(range(len(instance.machines)))
    ordered = [instance.machines[position] for position in epoch.machine_order]
    assert machines.free_gpus.tolist() == [machine.free_gpus for machine in ordered]
    assert machines.gpus.tolist() == [machine.gpus for machine in ordered]
    first = machines.first_machine_of_rack.tolist()
    racks = [{machine.rack for machine in ordered[a:b]} for a, b in pairwise(first)]
    assert [len(rack) for rack in racks] == [1] * len(instance.racks)
    assert machines.largest_machine_gpus == instance.largest_machine_gpus
    assert machines.largest_rack_gpus == instance.largest_rack_gpus


def test_defaults_become_numbers():
    """No timer is inf, no affinity 0, a tier that is left out has efficiency 0."""
    job = gang(2, efficiency={"rack": 0.5}, rack_timer_s=None, network_timer_s=None)
    state = state_of(instance_of([[1, 1]], [job])).state
    assert state.waiting.efficiency.tolist() == [[0.0, 0.5, 0.0]]
    assert state.waiting.rack_timer_s.tolist() == [math.inf]
    assert state.waiting.network_timer_s.tolist() == [math.inf]
    assert state.machines.affinity.tolist() == [0, 0]


def test_racks_whose_machines_are_scattered_in_the_file():
    """A gang of a rack gets that rack's machines by name, wherever they stand."""
    machines = tuple(
        Machine(id=name, rack=name[0], gpus=8, free_gpus=free)
        for name, free in (("a1", 1), ("b1", 2), ("a2", 3), ("b2", 4))
    )
    answer = lo.solve(replace(instance_of([[1]], [gang(6)]), machines=machines), "no-wait")
    placed = GangPlacement(job="x", tier="rack", gpus={"b1": 2, "b2": 4})
    assert answer.solution == Solution((placed,))


def test_dally_keeps_the_instances_timers():
    """The tuner has nothing to learn from in one decision: timers are the file's."""
    held = gang(4, "held", waiting_s=1.0, rack_timer_s=2.0, network_timer_s=2.0)
    free = gang(4, "free", waiting_s=1.0, rack_timer_s=1.0, score=0.9)
    answer = lo.solve(instance_of([[3, 3]], [held, free]), "dally")
    assert [entry.job for entry in answer.solution.placements] == ["free"]
