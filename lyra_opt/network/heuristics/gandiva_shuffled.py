"""Gandiva with a shuffled list of GPUs: gangs that no machine could hold are strewn everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.network.heuristics.gandiva_affinity import GandivaAffinity

if TYPE_CHECKING:
    from lyra_opt.network.heuristics.free_machines import FirstFit
    from lyra_opt.network.heuristics.policy import MachineState


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
