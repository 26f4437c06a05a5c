"""A placement policy as a solver: one decision on a standalone instance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.plugins import maker_of
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver, Unsupported
from lyra_opt.network.checker import objective_of
from lyra_opt.network.heuristics import policy as rules
from lyra_opt.network.heuristics.dally import dally_with_given_timers
from lyra_opt.network.heuristics.policies import PLACEMENT_POLICIES, SUMMARIES
from lyra_opt.network.heuristics.policy import MachineState, PlacementState, WaitingGangs
from lyra_opt.network.instance import (
    GangPlacement,
    Instance,
    Objective,
    Solution,
)
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy

LEASE_S = 3600.0
"""What a lease is for rules that count their timers in leases; instances have none."""


class Epoch(NamedTuple):
    """An instance as policies see it."""

    state: PlacementState
    """Machines, those of a rack next to each other, racks by their first machine in the file;
    and jobs in file order."""
    machine_order: Sequence[int]
    """File position of each machine of the state."""


def state_of(instance: Instance, lease_s: float = LEASE_S) -> Epoch:
    """Return what a policy decides on, at time 0, in O(machines + jobs)."""
    order = [position for rack in instance.racks.values() for position in rack]
    machines = [instance.machines[position] for position in order]
    sizes = [len(rack) for rack in instance.racks.values()]
    jobs = instance.jobs
    efficiency = [[job.efficiency.get(tier.label, 0.0) for tier in Tier] for job in jobs]
    waiting = WaitingGangs(
        ids=[job.id for job in jobs],
        gang=np.array([job.gang for job in jobs], np.int64),
        efficiency=np.array(efficiency),
        score=np.array([job.score for job in jobs]),
        waiting_s=np.array([job.waiting_s for job in jobs]),
        weight=np.array([job.weight for job in jobs]),
        remaining_s=np.array([job.remaining_s for job in jobs]),
        attained_gpu_s=np.array([job.attained_gpu_s for job in jobs]),
        needs_consolidation=np.array([job.needs_consolidation for job in jobs]),
        rack_timer_s=np.array([_seconds(job.rack_timer_s) for job in jobs]),
        network_timer_s=np.array([_seconds(job.network_timer_s) for job in jobs]),
    )
    state = PlacementState(
        now_s=0.0,
        lease_s=lease_s,
        machines=MachineState(
            gpus=np.array([machine.gpus for machine in machines], np.int64),
            free_gpus=np.array([machine.free_gpus for machine in machines], np.int64),
            first_machine_of_rack=np.concatenate(([0], np.cumsum(sizes))),
            affinity=np.array([machine.affinity or 0 for machine in machines], np.int64),
        ),
        waiting=waiting,
        waiting_weight_per_s=instance.waiting_weight_per_s,
    )
    return Epoch(state=state, machine_order=order)


def _seconds(timer_s: float | None) -> float:
    return math.inf if timer_s is None else timer_s


def solution_of(instance: Instance, epoch: Epoch, grants: Sequence[Grant]) -> Solution:
    """Return what a policy decided in the instance's own names."""
    names = [instance.machines[position].id for position in epoch.machine_order]
    return Solution(
        tuple(
            GangPlacement(
                job=instance.jobs[grant.job].id,
                tier=grant.tier.label,
                gpus={names[machine]: count for machine, count in grant.gpus.items()},
            )
            for grant in grants
        )
    )


class PlacementPolicySolver(HeuristicSolver):
    """Asks a placement policy for one decision on an instance.

    The policy sees the instance's jobs as waiting and nobody as running. Jobs are in file order
    where it asks for the order of submission. Complexity and guarantee are those of the policy's
    decision.

    Parameters
    ----------
    policy
        Name of one in `PLACEMENT_POLICIES`; or a policy of your own: a class, a function that makes
        one, or an object, of which each run has a copy.
    keeps_timers
        Whether it never places a gang that its timers hold back. Rules that do not ask for the
        instance's timers take only instances in which none holds anybody back.
    """

    problem = "network"
    variants = tuple(Objective)

    def __init__(
        self,
        policy: str | PlacementPolicy | Callable[[], PlacementPolicy],
        *,
        keeps_timers: bool = False,
    ) -> None:
        make = PLACEMENT_POLICIES[policy] if isinstance(policy, str) else maker_of(policy)
        self._make: Callable[[], PlacementPolicy] = make
        self.name = policy if isinstance(policy, str) else make().name
        self._keeps_timers = keeps_timers

    @property
    def summary(self) -> str:
        """What the policy does, where that is said; else as of every solver."""
        said = SUMMARIES.get(self.name, super().summary)
        return said[:1].upper() + said[1:]

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the policy cannot answer the instance, None if it can."""
        for job in instance.jobs if not self._keeps_timers else ():
            if len(instance.tiers_of(job)) < len(job.efficiency):
                return Unsupported(
                    f"{self.name} does not ask for timers; job {job.id!r} is held back by one"
                )
        return super().supports(instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:
        """Ask the policy."""
        policy = self._make()
        epoch = state_of(instance)
        policy.prepare(epoch.state.machines, epoch.state.lease_s, rng)
        grants = policy.decide(epoch.state)
        gangs, machines = range(len(instance.jobs)), range(len(instance.machines))
        rules.require_grants(policy.decide, grants, gangs, machines)
        solution = solution_of(instance, epoch, grants)
        return SolveResult(
            status=Status.FEASIBLE,
            solution=solution,
            objective=objective_of(instance, solution),
        )


BEST_FIT = PlacementPolicySolver("best-fit")
CONSOLIDATED = PlacementPolicySolver("consolidated", keeps_timers=True)
DALLY = PlacementPolicySolver(dally_with_given_timers, keeps_timers=True)
GANDIVA_AFFINITY = PlacementPolicySolver("gandiva-affinity")
GANDIVA_SHUFFLED = PlacementPolicySolver("gandiva-shuffled")
MANUAL = PlacementPolicySolver("manual")
NO_WAIT = PlacementPolicySolver("no-wait")
SRTF_NETWORK = PlacementPolicySolver("srtf-network")
TIRESIAS_SKEW = PlacementPolicySolver("tiresias-skew")
