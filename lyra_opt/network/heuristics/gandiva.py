"""Gandiva: machines reserved by gang size, and running gangs that move closer together."""

from collections.abc import Sequence

import numpy as np

from lyra_opt.network.heuristics.free_machines import FirstFit
from lyra_opt.network.heuristics.policy import (
    Grant,
    MachineState,
    PlacementPolicy,
    PlacementState,
    RunningGangs,
)
from lyra_opt.network.links import Tier

_TIERS = np.arange(len(Tier))


class GandivaAffinity(PlacementPolicy):
    """Gangs of equal size share machines; spread gangs move closer when closer GPUs are free.

    Gangs choose in order of submission, latest first. A gang that some machine could hold takes a
    machine reserved for its size, else an unreserved machine, else any machine; among several, the
    one with the most free GPUs. If no machine holds it now, it waits. The first gang on an
    unreserved machine reserves it for its size. A gang larger than every machine takes free GPUs at
    once, in the order of machines. Then running gangs, latest submitted first, move to a nearer
    tier that has room now, if they compute faster there. They take the machine with the most free
    GPUs, or the first rack.

    Source: Gandiva (OSDI 2018) as implemented in Dally's public simulator, with two differences.
    There, gangs that no machine could hold get random GPUs, as in `gandiva-shuffled`. Moves there
    do not check whether they pay; with the shipped links, a rack may be slower than the network.
    Two readings are ours: "sorted by start time" means the time of submission, and a gang takes a
    nearer tier if it cannot run at the tier that it would get.

    Complexity of a decision: O(machines) for each gang. Guarantee: none.
    """

    name = "gandiva-affinity"
    repeats_itself = True

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return a grant for each gang that finds GPUs, latest submission first."""
        machines, waiting = state.machines, state.waiting
        able = (waiting.gang <= machines.free_gpus.sum()).nonzero()[0].tolist()
        if not able:
            return []
        free = _MostFree(state)
        largest = machines.largest_machine_gpus
        can_run = (waiting.efficiency > 0).tolist()
        grants = []
        for job in reversed(able):
            gang = int(waiting.gang[job])
            if gang > free.gpus:
                continue
            if gang <= largest and can_run[job][Tier.MACHINE]:
                machine = free.kept_for(gang)
                if machine is None:
                    continue
                if not machines.affinity[machine]:
                    machines.affinity[machine] = gang
                grant = Grant(job, Tier.MACHINE, {machine: gang})
            else:
                found = self._spread(free, gang, can_run[job])
                if found is None:
                    continue
                grant = Grant(job, *found)
            free.take(grant.gpus)
            grants.append(grant)
        return grants

    def anywhere(self, free: FirstFit, gang: int) -> dict[int, int]:
        """Return some free GPUs for a gang that no machine could hold."""
        return free.in_order(gang)

    def _spread(
        self, free: FirstFit, gang: int, can_run: Sequence[bool]
    ) -> tuple[Tier, dict[int, int]] | None:
        """Return a tier and free GPUs for a gang on several machines; None if it must wait."""
        gpus = self.anywhere(free, gang)
        tier = free.tier_of(gpus)
        return (tier, gpus) if can_run[tier] else free.nearest(gang, can_run)

    def migrate(self, state: PlacementState, running: RunningGangs) -> list[Grant]:
        """Return grants that move spread gangs to a nearer tier at which they compute faster."""
        spread = (running.tier > Tier.MACHINE) & (running.gang <= state.machines.free_gpus.sum())
        able = spread.nonzero()[0]
        if not len(able):
            return []
        tier, efficiency = running.tier[able], running.efficiency[able]
        now = efficiency[np.arange(len(able)), tier]
        is_better = (efficiency > now[:, None]) & (tier[:, None] > _TIERS)
        movable = is_better.any(axis=1).nonzero()[0].tolist()
        if not movable:
            return []
        free = _MostFree(state)
        grants = []
        for place in reversed(movable):
            job = int(able[place])
            found = free.nearest(int(running.gang[job]), is_better[place].tolist())
            if found is not None:
                free.take(found[1])
                grants.append(Grant(job, *found))
        return grants


class _MostFree(FirstFit):
    """Chooses the machine with the most free GPUs, and the first rack that fits."""

    def __init__(self, state: PlacementState) -> None:
        super().__init__(state.machines)
        self._counts = state.machines.free_gpus.copy()
        self._affinity = state.machines.affinity
        self._too_large = int(self._counts.max()) + 1
        """A gang of this size or larger fits on no machine; counts only shrink in a decision."""

    def find_machine(self, gang: int) -> int | None:
        """Return the first machine with the most free GPUs; None if it cannot hold the gang."""
        machine = int(self._counts.argmax())
        return machine if self._counts[machine] >= gang else None

    def kept_for(self, gang: int) -> int | None:
        """Return a machine that can hold a gang, if possible one reserved for gangs of its size.

        An unreserved machine is the second choice, and any other machine the third. None means that
        no machine can hold the gang now.
        """
        if gang >= self._too_large:
            return None
        fits = self._counts >= gang
        for wanted in (fits & (self._affinity == gang), fits & (self._affinity == 0), fits):
            if wanted.any():
                return int(np.where(wanted, self._counts, -1).argmax())
        self._too_large = gang
        return None

    def take(self, gpus: dict[int, int]) -> None:
        """Mark GPUs as used, and update the counts; all of them must be free."""
        super().take(gpus)
        for machine in gpus:
            self._counts[machine] = self._free[machine]


class GandivaShuffled(GandivaAffinity):
    """Like `GandivaAffinity`, but gangs that no machine could hold get random free GPUs.

    Every set of free GPUs is equally likely, so such a gang nearly always spans racks.

    Source: Dally's public simulator (aakash-sharma/cluster-sim). Its Gandiva shuffles the list of
    free GPUs and takes the first ones; Gandiva itself (OSDI 2018) does not describe this.
    Complexity as for `GandivaAffinity`. Guarantee: none.
    """

    name = "gandiva-shuffled"
    repeats_itself = False

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:
        """Store the random generator."""
        super().prepare(machines, lease_s, rng)
        self._rng = rng

    def anywhere(self, free: FirstFit, gang: int) -> dict[int, int]:
        """Return a random set of free GPUs, by machine."""
        drawn = self._rng.multivariate_hypergeometric(free.counts, gang)
        return {int(machine): int(drawn[machine]) for machine in np.flatnonzero(drawn)}
