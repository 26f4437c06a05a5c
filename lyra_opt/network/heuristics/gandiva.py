"""Gandiva: machines kept for gangs of a size, and running gangs moved closer together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.heuristics.free_machines import FirstFit
from lyra_opt.network.heuristics.policy import Grant, PlacementPolicy
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.network.heuristics.policy import MachineState, PlacementState, RunningGangs


_TIERS = np.arange(len(Tier))


class GandivaAffinity(PlacementPolicy):
    """Gangs of a size share machines; who had to spread out moves closer when there is room.

    Gangs choose in the order of submission, the latest first. One that a machine could hold takes
    a machine that is kept for its size, else one that is kept for none, else any, of several the
    one with most free GPUs; if none holds it, it waits. The first gang on a machine that is kept
    for none has it kept for its size from then on. A gang that no machine could hold takes any
    free GPUs at once, in the order of machines. After that, running gangs, the latest submitted
    first, move to a nearer tier that has room now (a machine: that with most free GPUs; a rack: the
    first), if they compute faster there.

    Source: Gandiva (OSDI 2018) as Dally's public simulator has it, but for this: there, gangs that
    no machine could hold get GPUs at random, as in `gandiva-shuffled`, and moves do not ask whether
    they pay (with links as
    shipped there, a rack may be slower than the network). Ours too: that "sorted by start time"
    means the time of submission, and that a gang falls back to a nearer tier where it cannot run
    across what it would get.

    Complexity of a decision: O(machines) for each gang. Guarantee: none.
    """

    name = "gandiva-affinity"
    repeats_itself = True

    def decide(self, state: PlacementState) -> list[Grant]:
        """Return who starts where; see the class."""
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
        """Return GPUs, of the free ones, for a gang that no machine could hold."""
        return free.in_order(gang)

    def _spread(
        self, free: FirstFit, gang: int, can_run: Sequence[bool]
    ) -> tuple[Tier, dict[int, int]] | None:
        """Return any free GPUs for a gang, and what they span; None if it cannot run on any."""
        gpus = self.anywhere(free, gang)
        tier = free.tier_of(gpus)
        return (tier, gpus) if can_run[tier] else free.nearest(gang, can_run)

    def migrate(self, state: PlacementState, running: RunningGangs) -> list[Grant]:
        """Return who moves to a nearer tier; see the class."""
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
    """Of the machines that hold a gang, that with most free GPUs; racks as first fit does."""

    def __init__(self, state: PlacementState) -> None:
        super().__init__(state.machines)
        self._counts = state.machines.free_gpus.copy()
        self._affinity = state.machines.affinity

    def find_machine(self, gang: int) -> int | None:
        """Return the machine with most free GPUs, the first of several; None if too few."""
        machine = int(self._counts.argmax())
        return machine if self._counts[machine] >= gang else None

    def kept_for(self, gang: int) -> int | None:
        """Return a machine kept for gangs of this size, or for none, or any; None if none."""
        fits = self._counts >= gang
        for wanted in (fits & (self._affinity == gang), fits & (self._affinity == 0), fits):
            if wanted.any():
                return int(np.where(wanted, self._counts, -1).argmax())
        return None

    def take(self, gpus: dict[int, int]) -> None:
        """Take GPUs by machine, all of them free."""
        super().take(gpus)
        for machine in gpus:
            self._counts[machine] = self._free[machine]


class GandivaShuffled(GandivaAffinity):
    """`GandivaAffinity` in which a gang that no machine could hold gets free GPUs at random.

    Each set of free GPUs of the cluster is as likely, so that such a gang nearly always spans
    racks. All else is as there.

    Source: Dally's public simulator (aakash-sharma/cluster-sim), whose Gandiva shuffles the list of
    free GPUs and takes the first of it; Gandiva itself (OSDI 2018) says nothing of the kind.
    Complexity as there. Guarantee: none.
    """

    name = "gandiva-shuffled"
    repeats_itself = False

    def prepare(self, machines: MachineState, lease_s: float, rng: np.random.Generator) -> None:
        """Keep what draws."""
        super().prepare(machines, lease_s, rng)
        self._rng = rng

    def anywhere(self, free: FirstFit, gang: int) -> dict[int, int]:
        """Return a random set of free GPUs."""
        drawn = self._rng.multivariate_hypergeometric(free.counts, gang)
        return {int(machine): int(drawn[machine]) for machine in np.flatnonzero(drawn)}
