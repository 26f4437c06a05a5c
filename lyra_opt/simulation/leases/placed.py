"""How well gangs compute where they are placed, looked up once for all that are placed alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Collection

    from lyra_opt.simulation.leases.setup import NetworkCluster


class PlacedEfficiency:
    """Tiers and efficiencies of placements on a cluster.

    Parameters
    ----------
    cluster
        Which has no machines beyond those asked for.
    """

    def __init__(self, cluster: NetworkCluster) -> None:
        self._communication = cluster.communication
        self._rack_of: list[int] = cluster.topology.rack_of_machine.tolist()
        self._known: dict[tuple[str, int, Tier, int], float] = {}

    def of(self, model: str, gang: int, machines: Collection[int]) -> tuple[Tier, float]:
        """Return what a gang on these machines spans, and its efficiency there.

        The same as `CommunicationModel.placed_efficiency`.
        """
        units = gang
        tier = Tier.MACHINE
        if len(machines) > 1:
            racks = len({self._rack_of[machine] for machine in machines})
            tier, units = (Tier.RACK, len(machines)) if racks == 1 else (Tier.NETWORK, racks)
        key = model, gang, tier, units
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._communication.efficiency(*key)
        return tier, found
