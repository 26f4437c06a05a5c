"""Baselines that never wait: best fit by submission, and shortest remaining time first."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from lyra_opt.network.heuristics.free_machines import BestFit
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from lyra_opt.network.heuristics.policy import PlacementState


class BestFitPlacement(PlacementPolicy):
    """Gangs in the order of submission take the nearest tier that has room, tightly packed.

    In a machine, the one with the fewest free GPUs that hold the gang; in a rack, the rack with the
    fewest, and the fewest machines there; across the network, the fewest racks, and the fewest
    machines in each. Nobody waits for a nearer tier, and nobody who fits waits for those in front.

    Source: the textbook rule of bin packing, tier by tier; a baseline of ours, not of Dally's.

    Complexity of a decision: O(machines log machines + jobs log machines), and O(machines) for
    each machine that is given. Guarantee: none.
    """

    name = "best-fit"
    repeats_itself = True

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return who starts where; see the class."""
        waiting = state.waiting
        if not (waiting.gang <= state.machines.free_gpus.sum()).any():
            return []
        free = BestFit(state.machines)
        can_run = (waiting.efficiency > 0).tolist()
        grants = []
        for job, gang in enumerate(waiting.gang.tolist()):
            if gang > free.gpus:
                continue
            found = free.nearest(gang, can_run[job])
            if found is not None:
                tier, gpus = found
                free.take(gpus)
                grants.append(Grant(job, tier, gpus))
                if not free.gpus:
                    break
        return grants


class ShortestRemainingTime(PlacementPolicy):
    """The gang that would be done first starts first, at the tier where it is fastest.

    A gang's remaining time is that without network over its efficiency at the best tier that has
    room for it now; as others take the room it gets longer, and the gang's turn comes later. Equals
    go by position, and equal tiers by nearness. GPUs within a tier are chosen as best fit does.
    Nobody waits for a better tier.

    Source: shortest remaining time first, on Dally's tiers; a baseline of ours. It knows how long
    jobs run, which Dally does not ask.

    Complexity of a decision: O(machines log machines + jobs log jobs log machines), and O(machines)
    for each machine that is given. Guarantee: none.
    """

    name = "srtf-network"
    repeats_itself = True

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return who starts where; see the class."""
        waiting = state.waiting
        able = (waiting.gang <= state.machines.free_gpus.sum()).nonzero()[0].tolist()
        if not able:
            return []
        free = BestFit(state.machines)
        gangs, efficiency = waiting.gang.tolist(), waiting.efficiency.tolist()
        remaining_s = waiting.remaining_s.tolist()
        turns: list[tuple[float, int, Tier]] = []
        for job in able:
            tier = _best_tier(free, gangs[job], efficiency[job])
            if tier is not None:
                turns.append((remaining_s[job] / efficiency[job][tier], job, tier))
        heapify(turns)
        grants = []
        while turns and free.gpus:
            _, job, tier = heappop(turns)
            gpus = free.place(gangs[job], tier)
            if gpus is not None:
                grants.append(Grant(job, tier, gpus))
                continue
            # What is free only shrinks, so a later turn is the right one once its room is there.
            next_tier = _best_tier(free, gangs[job], efficiency[job])
            if next_tier is not None:
                later_s = remaining_s[job] / efficiency[job][next_tier]
                heappush(turns, (later_s, job, next_tier))
        return grants


def _best_tier(free: BestFit, gang: int, efficiency: list[float]) -> Tier | None:
    """Return the tier with room at which a gang is fastest, None if there is none."""
    best = None
    for tier in Tier:
        if efficiency[tier] > (0.0 if best is None else efficiency[best]) and free.has_room(
            gang, tier
        ):
            best = tier
    return best
