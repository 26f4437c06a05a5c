"""The conflict graph of a reclaim instance: jobs are neighbours if they share a server."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import networkx

    from lyra_opt.reclaim.instance import Instance


def conflict_graph(instance: Instance) -> networkx.Graph:
    """Return the graph whose nodes are jobs and whose edges join jobs that share a server.

    Nodes are job ids with the attribute ``weight``. An edge has the attribute ``servers``, the ids
    of all shared servers in file order. Reclaiming decides the connected components independently,
    except that N_R links them. Complexity O(sum over servers of the square of their jobs).
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
