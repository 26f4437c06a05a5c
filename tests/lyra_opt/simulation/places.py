"""What a gang spans that is on given machines, from the definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.simulation.communication import CommunicationModel
    from lyra_opt.simulation.topology import Topology


def units_of(topology: Topology, machines: Iterable[int], gang: int) -> int:
    """Return the GPUs in a machine, machines in a rack, or racks of the network that it spans."""
    places = set(machines)
    racks = {int(topology.rack_of_machine[machine]) for machine in places}
    tier = topology.tier_of(places)
    return gang if tier is Tier.MACHINE else len(places if tier is Tier.RACK else racks)


def placed_efficiency(
    form: CommunicationModel, model: str, gang: int, machines: Iterable[int], topology: Topology
) -> float:
    """Return the efficiency of a gang on these machines of a cluster."""
    places = set(machines)
    return form.efficiency(model, gang, topology.tier_of(places), units_of(topology, places, gang))
