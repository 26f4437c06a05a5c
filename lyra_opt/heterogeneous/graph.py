"""Heterogeneous instances as networkx graphs, for analysis and drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

    from lyra_opt.heterogeneous.instance import Instance


def to_networkx(instance: Instance) -> networkx.Graph:
    """Return the graph of servers, GPU types and jobs.

    Nodes are ``("gpu_type", name)`` with ``price_per_hour`` and the ``gpus`` of the whole cluster,
    ``("server", id)``, and ``("job", id)`` with ``gang``, ``steps``, ``weight`` and ``release_s``.
    Edges join a server to its types (``gpus``), a job to the types on which it can run (``rate``
    and ``spread_rate``, steps a second on one server and on several), and a job to the servers
    that it holds (``current``, GPUs by type). The graph has ``name`` and ``objective``. Complexity
    O(types * (servers + jobs) + GPUs held).
    """
    import networkx

    graph = networkx.Graph(name=instance.name, objective=str(instance.objective))
    for gpu_type in instance.gpu_types:
        graph.add_node(
            ("gpu_type", gpu_type.name),
            price_per_hour=gpu_type.price_per_hour,
            gpus=instance.gpus_of_type[gpu_type.name],
        )
    for server in instance.servers:
        graph.add_node(("server", server.id))
        for name, count in server.gpus.items():
            graph.add_edge(("server", server.id), ("gpu_type", name), gpus=count)
    for job in instance.jobs:
        node = ("job", job.id)
        graph.add_node(
            node, gang=job.gang, steps=job.steps, weight=job.weight, release_s=job.release_s
        )
        for gpu_type in instance.gpu_types:
            rates = [job.rate([gpu_type.name], is_spread=is_spread) for is_spread in (False, True)]
            if any(rates):
                graph.add_edge(
                    node, ("gpu_type", gpu_type.name), rate=rates[0], spread_rate=rates[1]
                )
        for server_id, types in job.current.items():
            graph.add_edge(node, ("server", server_id), current=dict(types))
    return graph
