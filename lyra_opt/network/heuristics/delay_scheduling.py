"""Delay scheduling: gangs choose in turn, and wait a while for GPUs close together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.heuristics.free_machines import FirstFit
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.network.heuristics.policy import PlacementState, WaitingGangs
    from lyra_opt.network.heuristics.timers import TimerRule

SPACINGS = 4
"""Spacings of floats that a wake-up is late, so that its timer is over whatever is rounded."""

_ALONE = np.zeros(1, np.int64)


class DelayScheduling(PlacementPolicy):
    """Gangs in order of need take the nearest tier that has room, once their timers allow it.

    Each gang in turn takes the first machine that holds it. If none does, and it has waited for
    its rack timer or is larger than any machine, it takes the first rack that holds it, its GPUs in
    the order of machines. If none does, and it has waited for its network timer or is larger than
    any rack, it takes any GPUs in the order of machines. Otherwise it waits, and those behind it
    choose. No order holds back GPUs for the first in line, so a large gang may wait as long as
    smaller ones keep coming.

    Source: Dally (arXiv 2401.16492), from its first author's public simulator. Ours: a wake-up
    when a timer runs out beside room (the simulator looks only when GPUs come free), and tiers at
    which a gang cannot run, which are passed over.

    Complexity of a decision: O(jobs log jobs + distinct gangs (machines + racks) + (machines +
    machines given) log machines). Guarantee: none; two gangs of which the first takes the machine
    that only the second needs lose as much as the tiers differ.

    Parameters
    ----------
    name
        What it is called.
    timers
        How long gangs wait.
    order
        Positions of waiting gangs in the order in which they choose.
    """

    repeats_itself = True

    def __init__(
        self,
        name: str,
        timers: TimerRule,
        order: Callable[[WaitingGangs], np.ndarray] | None = None,
    ) -> None:
        self.name = name
        self._timers = timers
        self._order = order or most_hurt_first

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return who starts where; see the class."""
        machines, waiting = state.machines, state.waiting
        free = FirstFit(machines)
        fits = waiting.gang <= free.gpus
        if not fits.any():
            return []
        sizes = (0, machines.largest_machine_gpus, machines.largest_rack_gpus)
        grants = []
        # In a simulation's tail nearly all decisions are about one gang.
        order = self._order(waiting) if len(waiting) > 1 else _ALONE
        # Most of many do not fit: they are told apart at once.
        order = order[fits[order]]
        for job, gang in zip(order.tolist(), waiting.gang[order].tolist(), strict=True):
            if gang > free.gpus:
                continue
            grant = None
            efficiency = waiting.efficiency[job].tolist()
            if efficiency[Tier.MACHINE] > 0:
                gpus = free.place(gang, Tier.MACHINE)
                if gpus is not None:
                    grant = Grant(job, Tier.MACHINE, gpus)
            if grant is None and gang > 1:
                grant = self._far_grant(state, free, job, gang, efficiency, sizes)
            if grant is not None:
                self._timers.observe(state, job, grant.tier)
                grants.append(grant)
                if not free.gpus:
                    break
        return grants

    def _far_grant(
        self,
        state: PlacementState,
        free: FirstFit,
        job: int,
        gang: int,
        efficiency: Sequence[float],
        sizes: Sequence[int],
    ) -> Grant | None:
        """Return GPUs in a rack, or of the network, for a gang that accepts them; None if not."""
        waited_s = float(state.waiting.waiting_s[job])
        timers_s = self._timers.timers_s(state, job)
        for tier, timer_s in zip((Tier.RACK, Tier.NETWORK), timers_s, strict=True):
            if (waited_s >= timer_s or gang > sizes[tier]) and efficiency[tier] > 0:
                gpus = free.place(gang, tier)
                if gpus is not None:
                    return Grant(job, tier, gpus)
        return None

    def next_decision_s(self, state: PlacementState) -> float:
        """Return the seconds until a timer runs out where its tier has room for the gang.

        A few spacings of floats later in truth: with the time rounded, a gang that is woken has
        waited for as long as its timer says, or it would be woken again and again.
        """
        machines, waiting = state.machines, state.waiting
        free_gpus = int(machines.free_gpus.sum())
        room = (waiting.gang <= free_gpus) & (waiting.efficiency[:, Tier.RACK :] > 0).any(axis=1)
        if not room.any():
            return math.inf
        free = FirstFit(machines)
        least_s = math.inf
        for job in np.flatnonzero(room).tolist():
            gang, waited_s = int(waiting.gang[job]), float(waiting.waiting_s[job])
            for tier, timer_s in zip(
                (Tier.RACK, Tier.NETWORK), self._timers.timers_s(state, job), strict=True
            ):
                if (
                    waited_s < timer_s < waited_s + least_s
                    and waiting.efficiency[job, tier] > 0
                    and free.has_room(gang, tier)
                ):
                    least_s = timer_s - waited_s
        return least_s + SPACINGS * math.ulp(state.now_s + least_s)

    def held_s(self, state: PlacementState) -> list[tuple[float, float]]:
        """Return the timers of each waiting gang, as they are now."""
        return [self._timers.timers_s(state, job) for job in range(len(state.waiting))]


def most_hurt_first(waiting: WaitingGangs) -> np.ndarray:
    """Return Dally's order: least Nw_sens, then longest wait, then position.

    Jobs that have never run have Nw_sens 0 and come first.
    """
    return np.lexsort((-waiting.waiting_s, waiting.score))
