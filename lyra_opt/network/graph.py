"""Network instances as networkx graphs, for analysis and drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    import networkx

    from lyra_opt.network.instance import Instance


def to_networkx(instance: Instance) -> networkx.Graph:
    """Return the tree of network, racks and machines, and beside it the waiting jobs.

    Nodes are ``("network",)``, ``("rack", name)``, ``("machine", id)`` with ``gpus`` and
    ``free_gpus``, and ``("job", id)`` with ``gang``, ``weight``, ``waiting_s`` and ``tiers``, the
    labels of those at which it accepts to run now; waiting jobs have no edges. The graph has
    ``name`` and ``objective``. Complexity O(racks + machines + jobs).
    """
    import networkx

    graph = networkx.Graph(name=instance.name, objective=str(instance.objective))
    root = (Tier.NETWORK.label,)
    graph.add_node(root)
    for rack, positions in instance.racks.items():
        graph.add_edge(root, (Tier.RACK.label, rack))
        for machine in (instance.machines[position] for position in positions):
            node = (Tier.MACHINE.label, machine.id)
            graph.add_node(node, gpus=machine.gpus, free_gpus=machine.free_gpus)
            graph.add_edge((Tier.RACK.label, rack), node)
    for job in instance.jobs:
        graph.add_node(
            ("job", job.id),
            gang=job.gang,
            weight=job.weight,
            waiting_s=job.waiting_s,
            tiers=tuple(tier.label for tier in instance.tiers_of(job)),
        )
    return graph
