"""The graph of an instance says what its records say."""

import networkx
from hypothesis import given

from lyra_opt.testing.strategies import allocation_instances


@given(allocation_instances())
def test_jobs_are_a_star_around_the_cluster(instance):
    """Every job is a leaf, with its numbers; GPUs of base demands add up over the edges."""
    graph = instance.to_networkx()
    assert networkx.is_tree(graph)
    assert set(graph.adj["cluster",]) == {("job", job.id) for job in instance.jobs}
    assert graph.nodes["cluster",]["gpus"] == instance.gpus
    for weight in ("min_gpus", "max_gpus"):
        asked = sum(getattr(job, weight) for job in instance.jobs)
        assert graph.degree(("cluster",), weight=weight) == asked
    for job in instance.jobs:
        for name, value in graph.nodes["job", job.id].items():
            assert getattr(job, name) == value
