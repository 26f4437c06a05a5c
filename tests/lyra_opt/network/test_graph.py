"""The graph of an instance says what its records say."""

import networkx
from hypothesis import given

from lyra_opt.network.links import TIER_OF_LABEL, Tier
from lyra_opt.testing.strategies import network_instances


@given(network_instances())
def test_the_cluster_is_a_tree_beside_the_jobs(instance):
    """What a gang spans is how far apart its machines are; waiting jobs stand alone."""
    graph = instance.to_networkx()
    jobs = [("job", job.id) for job in instance.jobs]
    assert set(networkx.isolates(graph)) == set(jobs)
    for job in instance.jobs:
        assert graph.nodes["job", job.id]["tiers"] == tuple(
            tier.label for tier in instance.tiers_of(job)
        )
    cluster = graph.subgraph(set(graph) - set(jobs))
    assert networkx.is_tree(cluster)
    assert len(cluster) == 1 + len(instance.racks) + len(instance.machines)
    first, last = instance.machines[0], instance.machines[-1]
    assert graph.nodes["machine", last.id]["free_gpus"] == last.free_gpus
    path = networkx.shortest_path(cluster, ("machine", first.id), ("machine", last.id))
    crossed = [cluster.edges[edge]["tier"] for edge in networkx.utils.pairwise(path)]
    span = instance.tier_of({first.id: 1, last.id: 1})
    assert len(crossed) == 2 * span
    assert max((TIER_OF_LABEL[label] for label in crossed), default=Tier.MACHINE) is span
