"""The graph of an instance says what its records say."""

from __future__ import annotations

from hypothesis import given

from lyra_opt.testing.strategies import heterogeneous_instances


@given(heterogeneous_instances())
def test_servers_and_jobs_meet_at_their_types(instance):
    """GPUs of a type add up, and a job has an edge to exactly the types that it can run on."""
    graph = instance.to_networkx()
    parts = len(instance.gpu_types) + len(instance.servers) + len(instance.jobs)
    assert len(graph) == parts
    for name, gpus in instance.gpus_of_type.items():
        node = ("gpu_type", name)
        assert (
            graph.nodes[node]["gpus"]
            == gpus
            == sum(data.get("gpus", 0) for data in graph.adj[node].values())
        )
    for job in instance.jobs:
        node = ("job", job.id)
        rates = {
            name: (data["rate"], data["spread_rate"])
            for (kind, name), data in graph.adj[node].items()
            if kind == "gpu_type"
        }
        spread = job.throughput if job.spread_throughput is None else job.spread_throughput
        assert rates == {
            gpu_type.name: pair
            for gpu_type in instance.gpu_types
            if any(pair := (job.throughput.get(gpu_type.name, 0), spread.get(gpu_type.name, 0)))
        }
        held = {
            name: data["current"]
            for (kind, name), data in graph.adj[node].items()
            if kind == "server"
        }
        assert held == job.current
        assert graph.nodes[node]["gang"] == job.gang
