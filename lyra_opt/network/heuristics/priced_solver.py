"""Standalone instances by `priced-placement`: the packing by prices of the objective's worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.network.checker import objective_of
from lyra_opt.network.heuristics.dally import dally_with_given_timers
from lyra_opt.network.heuristics.delay_scheduling import most_hurt_first
from lyra_opt.network.heuristics.packing import pack
from lyra_opt.network.heuristics.policy_solver import PlacementPolicySolver, solution_of, state_of
from lyra_opt.network.instance import Instance, Objective, Solution
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.network.heuristics.policy import PlacementState


BUDGET = 100_000
"""Units that are looked at to improve packings, more than in the simulated cluster."""


class PricedPlacementSolver(PlacementPolicySolver):
    """Packs the gangs that are worth most to the objective, within their timers.

    `lyra_opt.network.heuristics.packing.pack` with the objective's worth of each gang at each tier,
    gangs choosing in Dally's order (least Nw_sens first) and by size as well, beside Dally's own
    answer; the best of all is returned. Machines that end partly free weigh only in the choice
    among these.

    Source: this project. Complexity: that of `pack` and of Dally's decision. Guarantee: never worth
    less than what `dally` makes of the same instance; beyond that none: on a machine with 4 GPUs
    free, gangs of 3 and 4 worth 3.1 and 4 are packed right, but exchanges of several gangs for
    several on more than one machine are not looked for.
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
        dally = dally_with_given_timers()
        dally.prepare(state.machines, state.lease_s, rng)
        answers = [solution_of(instance, epoch, grants) for grants in (packed, dally.decide(state))]
        scored = [(objective_of(instance, answer), answer) for answer in answers]
        objective, solution = max(scored, key=lambda entry: entry[0])
        return SolveResult(status=Status.FEASIBLE, solution=solution, objective=objective)


def values_of(state: PlacementState, instance: Instance) -> NDArray[np.float64]:
    """Return what each gang adds to the objective at each tier, 0 where its timers forbid it.

    As `lyra_opt.network.checker.value_of`, but in floats; shape (jobs, 3).
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
