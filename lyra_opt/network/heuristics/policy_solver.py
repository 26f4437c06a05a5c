"""Register placement policies by name, and run each as a solver: one decision per instance."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.plugins import maker_of
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import HeuristicSolver, Unsupported
from lyra_opt.network.checker import objective_of
from lyra_opt.network.heuristics.baselines import BestFitPlacement, ShortestRemainingTime
from lyra_opt.network.heuristics.delay_scheduling import (
    consolidated,
    dally,
    dally_with_given_timers,
    manual,
    most_hurt_first,
    no_wait,
    tiresias_skew,
)
from lyra_opt.network.heuristics.gandiva import GandivaAffinity, GandivaShuffled
from lyra_opt.network.heuristics.packing import pack
from lyra_opt.network.heuristics.policy import (
    Grant,
    MachineState,
    PlacementPolicy,
    PlacementState,
    WaitingGangs,
    require_grants,
)
from lyra_opt.network.heuristics.priced_placement import PricedPlacement
from lyra_opt.network.instance import GangPlacement, Instance, Objective, Solution
from lyra_opt.network.links import Tier

PLACEMENT_POLICIES: Mapping[str, Callable[[], PlacementPolicy]] = {
    "best-fit": BestFitPlacement,
    "consolidated": consolidated,
    "dally": dally,
    "gandiva-affinity": GandivaAffinity,
    "gandiva-shuffled": GandivaShuffled,
    "manual": manual,
    "no-wait": no_wait,
    "priced-placement": PricedPlacement,
    "srtf-network": ShortestRemainingTime,
    "tiresias-skew": tiresias_skew,
}
"""Function that makes a policy for one run, by policy name."""

SUMMARIES: Mapping[str, str] = {
    "best-fit": "jobs in order of arrival: tightest machine, else rack, else fewest racks",
    "consolidated": "Dally with infinite timers: waits for the nearest tier that can hold a gang",
    "dally": "jobs most slowed by the network first, with tuned timers (Dally)",
    "gandiva-affinity": "machines reserved by gang size; running gangs move closer (Gandiva)",
    "gandiva-shuffled": "like gandiva-affinity, but gangs too large for a machine get random GPUs",
    "manual": "Dally with fixed timers of 6 and 12 leases",
    "no-wait": "Dally without timers: accepts any tier at once",
    "priced-placement": "most progress per GPU, at prices that decide which gangs wait (ours)",
    "srtf-network": "shortest remaining time first, at the best tier that has room now",
    "tiresias-skew": "least attained service first; skewed models wait for a machine (Tiresias)",
}
"""One-line description of each policy in `PLACEMENT_POLICIES`."""

LEASE_S = 3600.0
"""Length of a lease for policies whose timers are in leases; instances do not state it."""


class Epoch(NamedTuple):
    """An instance as the state on which a placement policy decides."""

    state: PlacementState
    """Machines grouped by rack, racks by their first machine in the file; jobs in file order."""
    machine_order: Sequence[int]
    """File position of each machine in the state."""


def state_of(instance: Instance, lease_s: float = LEASE_S) -> Epoch:
    """Return the state at time 0 on which a policy decides; O(machines + jobs)."""
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
    """Convert a policy's grants to a solution of the instance."""
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
    """Solves an instance by one decision of a placement policy.

    The policy sees all jobs of the instance as waiting, and no running jobs. File order takes the
    place of the order of submission. Complexity and guarantee are those of the policy's decision.

    Parameters
    ----------
    policy
        Name of a policy in `PLACEMENT_POLICIES`, or your own policy: a class, a function that makes
        a policy, or an object, of which each run gets a copy.
    keeps_timers
        Whether the policy respects the timers of the instance. Policies that ignore these timers
        support only instances in which no timer holds a gang back.
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
        """One-line description of the policy, or the text for unregistered policies."""
        said = SUMMARIES.get(self.name, super().summary)
        return said[:1].upper() + said[1:]

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why the policy cannot solve the instance; None if it can."""
        for job in instance.jobs if not self._keeps_timers else ():
            if len(instance.tiers_of(job)) < len(job.efficiency):
                return Unsupported(
                    f"{self.name} supports instances without active timers only; a timer holds "
                    f"back job {job.id!r}"
                )
        return super().supports(instance)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:
        """Run one decision of the policy on the instance."""
        policy = self._make()
        epoch = state_of(instance)
        policy.prepare(epoch.state.machines, epoch.state.lease_s, rng)
        grants = policy.decide(epoch.state)
        gangs, machines = range(len(instance.jobs)), range(len(instance.machines))
        require_grants(policy.decide, grants, gangs, machines)
        solution = solution_of(instance, epoch, grants)
        return SolveResult(
            status=Status.FEASIBLE, solution=solution, objective=objective_of(instance, solution)
        )


BUDGET = 100_000
"""Most units searched while improving packings, more than in the simulated cluster."""


class PricedPlacementSolver(PlacementPolicySolver):
    """Pack the gangs that add most to the objective, within their timers.

    Uses `lyra_opt.network.heuristics.packing.pack` with the value of each gang at each tier. Two
    more orders are tried, Dally's order (least Nw_sens first) and largest gang first, and the
    result is compared with Dally's own solution. Partly free machines count only in this final
    comparison.

    Source: this project. Complexity: that of `pack` and of Dally's decision. Guarantee: never worse
    than `dally` on the same instance, and beyond that none. With 4 free GPUs on a machine, gangs of
    3 and 4 GPUs worth 3.1 and 4 are packed optimally. Exchanges between several gangs on more than
    one machine are not searched.
    """

    def __init__(self) -> None:
        super().__init__("priced-placement", keeps_timers=True)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:
        """Return the best packing found."""
        epoch = state_of(instance)
        state = epoch.state
        waiting = state.waiting
        value = values_of(state, instance)
        orders = [most_hurt_first(waiting), np.argsort(-waiting.gang, kind="stable")]
        packed = pack(state.machines, waiting.gang, value, orders=orders, budget=BUDGET)
        rule = dally_with_given_timers()
        rule.prepare(state.machines, state.lease_s, rng)
        answers = [solution_of(instance, epoch, grants) for grants in (packed, rule.decide(state))]
        scored = [(objective_of(instance, answer), answer) for answer in answers]
        objective, solution = max(scored, key=lambda entry: entry[0])
        return SolveResult(status=Status.FEASIBLE, solution=solution, objective=objective)


def values_of(state: PlacementState, instance: Instance) -> NDArray[np.float64]:
    """Return each gang's value at each tier, 0 where its timers forbid the tier.

    Like `lyra_opt.network.checker.value_of`, but in floats; shape (jobs, 3).
    """
    waiting, gang = state.waiting, state.waiting.gang.astype(float)
    if instance.objective is Objective.EPOCH:
        need = 1 - waiting.score + state.waiting_weight_per_s * waiting.waiting_s
        value = (waiting.weight * need * gang)[:, None] * waiting.efficiency
    elif instance.objective is Objective.WORK_RATE:
        value = (waiting.weight * gang)[:, None] * waiting.efficiency
    else:
        crossed = np.arange(len(Tier)) if instance.objective is Objective.FEWEST_TIERS else 0.0
        value = instance.gpu_points * gang[:, None] - crossed
    machines = state.machines
    accepts = waiting.efficiency > 0
    accepts[:, Tier.RACK] &= (waiting.waiting_s >= waiting.rack_timer_s) | (
        gang > machines.largest_machine_gpus
    )
    accepts[:, Tier.NETWORK] &= (waiting.waiting_s >= waiting.network_timer_s) | (
        gang > machines.largest_rack_gpus
    )
    return np.where(accepts, value, 0.0)


BEST_FIT = PlacementPolicySolver("best-fit")
CONSOLIDATED = PlacementPolicySolver("consolidated", keeps_timers=True)
DALLY = PlacementPolicySolver(dally_with_given_timers, keeps_timers=True)
GANDIVA_AFFINITY = PlacementPolicySolver("gandiva-affinity")
GANDIVA_SHUFFLED = PlacementPolicySolver("gandiva-shuffled")
MANUAL = PlacementPolicySolver("manual")
NO_WAIT = PlacementPolicySolver("no-wait")
SRTF_NETWORK = PlacementPolicySolver("srtf-network")
TIRESIAS_SKEW = PlacementPolicySolver("tiresias-skew")
PRICED_PLACEMENT = PricedPlacementSolver()
