"""Decisions of a simulated run of Dally, as standalone instances with the timers of that moment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.delay_scheduling import DelayScheduling
from lyra_opt.network.instance import (
    GangPlacement,
    Machine,
    NetworkInstance,
    NetworkSolution,
    Objective,
    WaitingJob,
)
from lyra_opt.network.links import Tier
from lyra_opt.network.timers import AutoTuner
from lyra_opt.simulation.leases.engine import LeaseSimulation

if TYPE_CHECKING:
    from lyra_opt.network.policy import Grant, PlacementState
    from lyra_opt.network.timers import TimerRule
    from lyra_opt.simulation.leases.setup import LeaseOptions, NetworkCluster, NetworkWorkload

FEWEST_GANGS = 2
"""That wait; with one, there is no choice of who goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A decision that was taken.

    Parameters
    ----------
    instance
        What it was on.
    solution
        What Dally decided.
    """

    instance: NetworkInstance
    solution: NetworkSolution


def captured_decisions(
    workload: NetworkWorkload, cluster: NetworkCluster, options: LeaseOptions, *, every: int
) -> list[Captured]:
    """Return every so-manieth decision of Dally, its gangs in the order of submission.

    Parameters
    ----------
    every
        At least 1; decisions on a single gang are not counted.
    """
    policy = _WatchedDally(AutoTuner(), every)
    LeaseSimulation(workload, cluster, policy, options=options).run()
    return policy.found


class _WatchedDally(DelayScheduling):
    """Dally, which keeps some of what it decides on."""

    def __init__(self, timers: TimerRule, every: int) -> None:
        super().__init__("dally", timers)
        self.found: list[Captured] = []
        self._every = every
        self._seen = 0

    def decide(self, state: PlacementState) -> list[Grant]:
        """Decide as Dally does."""
        is_kept = len(state.waiting) >= FEWEST_GANGS and self._seen % self._every == 0
        self._seen += len(state.waiting) >= FEWEST_GANGS
        if not is_kept:
            return super().decide(state)
        timers_s = [self._timers.timers_s(state, job) for job in range(len(state.waiting))]
        instance = instance_of(state, timers_s, f"decision-{self._seen}")
        grants = super().decide(state)
        self.found.append(Captured(instance=instance, solution=_solution(instance, grants)))
        return grants


def _solution(instance: NetworkInstance, grants: list[Grant]) -> NetworkSolution:
    return NetworkSolution(
        tuple(
            GangPlacement(
                job=instance.jobs[grant.job].id,
                tier=grant.tier.label,
                gpus={instance.machines[place].id: count for place, count in grant.gpus.items()},
            )
            for grant in grants
        )
    )


def instance_of(
    state: PlacementState, timers_s: list[tuple[float, float]], name: str
) -> NetworkInstance:
    """Return a decision as an instance.

    Parameters
    ----------
    timers_s
        Of each waiting gang, for a rack and for the network; inf for ever.
    name
        Of the instance.
    """
    machines, waiting = state.machines, state.waiting
    sizes = np.diff(machines.first_machine_of_rack)
    rack_of = np.repeat(np.arange(len(sizes)), sizes)
    return NetworkInstance(
        name=name,
        objective=Objective.EPOCH,
        waiting_weight_per_s=state.waiting_weight_per_s,
        machines=tuple(
            Machine(
                id=f"m{place}",
                rack=f"r{rack_of[place]}",
                gpus=int(gpus),
                free_gpus=int(machines.free_gpus[place]),
                affinity=int(machines.affinity[place]) or None,
            )
            for place, gpus in enumerate(machines.gpus)
        ),
        jobs=tuple(
            WaitingJob(
                id=str(job_id),
                gang=int(waiting.gang[place]),
                efficiency={
                    tier.label: float(waiting.efficiency[place, tier])
                    for tier in Tier
                    if waiting.efficiency[place, tier] > 0
                },
                score=float(waiting.score[place]),
                waiting_s=float(waiting.waiting_s[place]),
                weight=float(waiting.weight[place]),
                rack_timer_s=_seconds(rack_s),
                network_timer_s=_seconds(network_s),
                remaining_s=float(waiting.remaining_s[place]),
                attained_gpu_s=float(waiting.attained_gpu_s[place]),
                needs_consolidation=bool(waiting.needs_consolidation[place]),
            )
            for place, (job_id, (rack_s, network_s)) in enumerate(
                zip(waiting.ids, timers_s, strict=True)
            )
        ),
    )


def _seconds(timer_s: float) -> float | None:
    return None if math.isinf(timer_s) else timer_s
