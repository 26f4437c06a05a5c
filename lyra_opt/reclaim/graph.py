"""Which jobs of a reclaim instance stand in each other's way."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

    from lyra_opt.reclaim.instance import Instance


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
