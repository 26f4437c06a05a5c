"""Graphs of an instance say what its records say."""

from hypothesis import given

from lyra_opt.testing.strategies import reclaim_instances


@given(reclaim_instances())
def test_servers_and_jobs_are_bipartite(instance):
    """Every record is a node or an edge, with its numbers; a server's edges fit its GPUs."""
    graph = instance.to_networkx()
    assert len(graph) == len(instance.servers) + len(instance.jobs)
    assert graph.number_of_edges() == sum(len(job.workers) for job in instance.jobs)
    assert graph.graph["reclaim_servers"] == instance.reclaim_servers
    for first, second in graph.edges:
        assert {graph.nodes[first]["bipartite"], graph.nodes[second]["bipartite"]} == {0, 1}
    for server in instance.servers:
        node = ("server", server.id)
        assert graph.nodes[node]["on_loan"] is server.on_loan
        assert graph.degree(node, weight="gpus") <= graph.nodes[node]["gpus"] == server.gpus
    for job in instance.jobs:
        node = ("job", job.id)
        assert graph.degree(node, weight="base") == job.base_workers
        assert graph.degree(node, weight="flexible") == job.total_workers - job.base_workers
        assert graph.nodes[node]["weight"] == job.weight
        assert graph.nodes[node]["min_workers"] == job.min_workers
