"""Reclaim instances as networkx graphs, for analysis and drawing."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

    from lyra_opt.reclaim.instance import Instance


def to_networkx(instance: Instance) -> networkx.Graph:
    """Return the bipartite graph of servers and jobs.

    Nodes are ``("server", id)`` with the attributes ``gpus`` and ``on_loan``, and ``("job", id)``
    with ``weight``, ``gpus_per_worker`` and ``min_workers``; ``bipartite`` is 0 for servers and 1
    for jobs. An edge is a group of workers: ``base``, ``flexible`` and the ``gpus`` they hold.
    The graph itself has ``name``, ``semantics`` and ``reclaim_servers``. Complexity O(servers +
    jobs + groups).
    """
    import networkx

    graph = networkx.Graph(
        name=instance.name,
        semantics=str(instance.semantics),
        reclaim_servers=instance.reclaim_servers,
    )
    for server in instance.servers:
        node = ("server", server.id)
        graph.add_node(node, bipartite=0, gpus=server.gpus, on_loan=server.on_loan)
    for job in instance.jobs:
        graph.add_node(
            ("job", job.id),
            bipartite=1,
            weight=job.weight,
            gpus_per_worker=job.gpus_per_worker,
            min_workers=job.min_workers,
        )
        for group in job.workers:
            graph.add_edge(
                ("server", group.server),
                ("job", job.id),
                base=group.base,
                flexible=group.flexible,
                gpus=group.workers * job.gpus_per_worker,
            )
    return graph


def conflict_graph(instance: Instance) -> networkx.Graph:
    """Return the graph of jobs in which those that share a server are neighbours.

    Nodes are the ids of jobs with the attribute ``weight``, an edge has ``servers``, the ids of
    all servers shared, in file order. Its connected components are what reclaiming can decide
    apart but for N_R. Complexity O(sum over servers of jobs there, squared).
    """
    import networkx

    graph = networkx.Graph(name=instance.name)
    jobs_of_server: dict[str, list[str]] = {server.id: [] for server in instance.servers}
    for job in instance.jobs:
        graph.add_node(job.id, weight=job.weight)
        for group in job.workers:
            jobs_of_server[group.server].append(job.id)
    for server, jobs in jobs_of_server.items():
        for first, second in combinations(jobs, 2):
            shared = graph.get_edge_data(first, second, {"servers": ()})["servers"]
            graph.add_edge(first, second, servers=(*shared, server))
    return graph
