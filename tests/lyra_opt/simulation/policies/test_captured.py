"""Decisions of a simulated run as instances: the very ones that were taken."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.core.problem import find_problem
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.instances.network.jobs import dally_batch
from lyra_opt.network.checker import check, value_of
from lyra_opt.network.heuristics.delay_scheduling import AutoTuner, DelayScheduling
from lyra_opt.network.heuristics.policy_solver import Epoch, solution_of, state_of
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.communication import ClosedForm
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.policies.placing_gangs import PlacingGangs, instance_of
from lyra_opt.simulation.series import CaptureObserver
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.topology import Topology
from tests.lyra_opt.network.heuristics.cases import gang, state_for

if TYPE_CHECKING:
    from lyra_opt.network.heuristics.policy import Grant, PlacementState
    from lyra_opt.network.instance import Instance, Solution


class WatchedDally(DelayScheduling):
    """Dally, which keeps what it decides on, and what it decides."""

    def __init__(self) -> None:
        super().__init__("dally", AutoTuner())
        self.found: list[tuple[Instance, Solution]] = []

    def decide(self, state: PlacementState) -> list[Grant]:
        """Decide as Dally does."""
        if len(state.waiting) < 2:
            return super().decide(state)
        instance = instance_of(state, name="decision", timers_s=self.held_s(state))
        grants = super().decide(state)
        epoch = Epoch(state=state, machine_order=range(len(instance.machines)))
        self.found.append((instance, solution_of(instance, epoch, grants)))
        return grants


@pytest.fixture(scope="module")
def decisions() -> list[tuple[Instance, Solution]]:
    """What is decided on 30 jobs, on 32 GPUs in two racks; it is what an observer is given."""
    captured: list[Any] = []
    dally = WatchedDally()
    cluster = Cluster.of_racks(
        Topology.uniform(racks=2, machines_per_rack=2),
        ClosedForm(links=LINK_SETS["congested-2"]),
    )
    workload = dally_batch(seed=1, jobs=30)
    jobs = [job for job in workload.jobs if job.min_gpus <= cluster.gpus]
    policy = PlacingGangs(lambda: dally, reclaimer=None)
    Kernel(
        replace(workload, jobs=tuple(jobs)),
        cluster,
        policy,
        tenure=Leases(),
        observers=[
            CaptureObserver(lambda _, decision: captured.append(decision), frozenset({"network"}))
        ],
    ).run()
    several = [decision.jobs for decision in captured if len(decision.jobs) > 1]
    assert several == [instance.jobs for instance, _ in dally.found]
    return dally.found


def test_dally_decides_by_itself_as_it_did_in_the_run(
    decisions: list[tuple[Instance, Solution]],
) -> None:
    """With the timers of the moment in the instance its decision is worth the same."""
    held = [instance for instance, _ in decisions if any(job.rack_timer_s for job in instance.jobs)]
    assert len(held) > 10
    for instance, taken in decisions:
        alone = solve_and_check(
            find_problem("network"), instance, find_solver("network", "dally"), certify=False
        )
        assert alone.objective == pytest.approx(check(instance, taken).objective)


def test_instance_of_a_state_and_back(
    decisions: list[tuple[Instance, Solution]],
) -> None:
    """No number is lost on the way, timers among them."""
    for instance, _ in decisions:
        assert instance_of(state_of(instance).state, name="decision") == instance


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.5])
def test_gangs_on_gpus_of_any_speed_are_worth_what_they_are(pace: float) -> None:
    """Weight times what it computes, and time over what it computes, also where that is above 1."""
    state = state_for([[8, 8]], gang(4, weight=3.0, remaining_s=600.0))
    waiting = replace(state.waiting, efficiency=state.waiting.efficiency * pace)
    instance = instance_of(replace(state, waiting=waiting), name="fast")
    (job,) = instance.jobs
    waits = 1 + Fraction(instance.waiting_weight_per_s) * Fraction(job.waiting_s)
    for tier in (Tier.MACHINE, Tier.RACK):
        efficiency = float(waiting.efficiency[0, tier])
        worth = float(value_of(instance, job, tier))
        assert worth == pytest.approx(3.0 * 4 * efficiency * float(waits))
        assert job.remaining_s / job.efficiency[tier.label] == pytest.approx(600 / efficiency)
