"""Baseline policies without delay timers: best fit by submission, and shortest remaining time."""

from heapq import heapify, heappop, heappush

from lyra_opt.network.heuristics.free_machines import BestFit
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy, PlacementState
from lyra_opt.network.links import Tier


class BestFitPlacement(PlacementPolicy):
    """Start gangs in order of submission at the nearest tier that has room, tightly packed.

    On a machine, the gang takes the machine with the fewest sufficient free GPUs. In a rack, it
    takes the rack with the fewest sufficient free GPUs, and as few machines as possible. Across the
    network, it takes as few racks as possible, and as few machines in each. No gang waits for a
    nearer tier, and a gang that fits does not wait for larger gangs ahead.

    Source: the textbook rule of bin packing, applied tier by tier; a baseline of ours, not Dally's.

    Complexity of a decision: O(machines log machines + jobs log machines), and O(machines) for
    each machine that is taken. Guarantee: none.
    """

    name = "best-fit"
    repeats_itself = True

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return a grant for each gang that fits, in order of submission."""
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
    """Start the gang that would finish first, at the tier where it is fastest.

    A gang's remaining time is its time without network costs divided by its efficiency at the best
    tier that has room now. If other gangs take this room, the time grows and the gang moves back in
    the queue. Ties are broken by position, and ties between tiers by nearness. GPUs within a tier
    are chosen by best fit. No gang waits for a better tier.

    Source: shortest remaining time first on Dally's tiers; a baseline of ours. The policy knows the
    run times of jobs, which Dally does not use.

    Complexity of a decision: O(machines log machines + jobs log jobs log machines), and O(machines)
    for each machine that is taken. Guarantee: none.
    """

    name = "srtf-network"
    repeats_itself = True

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return a grant for each gang that fits, shortest remaining time first."""
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
            # Free GPUs only become fewer, so a gang that finds no room can only move back.
            next_tier = _best_tier(free, gangs[job], efficiency[job])
            if next_tier is not None:
                later_s = remaining_s[job] / efficiency[job][next_tier]
                heappush(turns, (later_s, job, next_tier))
        return grants


def _best_tier(free: BestFit, gang: int, efficiency: list[float]) -> Tier | None:
    """Return the tier with room at which a gang is fastest; None if no tier has room."""
    best = None
    for tier in Tier:
        if efficiency[tier] > (0.0 if best is None else efficiency[best]) and free.has_room(
            gang, tier
        ):
            best = tier
    return best
