"""Best fit: the tightest machine, else the tightest rack, else as few racks as can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.network.heuristics.free_machines import BestFit
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy

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
