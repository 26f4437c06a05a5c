"""The graph of an instance says what its records say."""

from tests.lyra_opt.heterogeneous.examples import instance, job


def test_servers_and_jobs_meet_at_their_types():
    """GPUs of a type add up, and a job has an edge to exactly the types that it can run on."""
    rates = {"throughput": {"fast": 4.0}, "spread_throughput": {"fast": 3.0}}
    graph = instance(job("a", 2, current={"s1": {"fast": 2}}, **rates)).to_networkx()
    gpu_types = {
        "fast": {"price_per_hour": 1.0, "gpus": 2},
        "slow": {"price_per_hour": 1.0, "gpus": 3},
    }
    assert dict(graph.nodes) == {
        **{("gpu_type", name): attributes for name, attributes in gpu_types.items()},
        ("server", "s1"): {},
        ("server", "s2"): {},
        ("job", "a"): {"gang": 2, "steps": 8.0, "weight": 1.0, "release_s": 0.0},
    }
    assert dict(graph.adj["server", "s1"]) == {
        ("gpu_type", "fast"): {"gpus": 2},
        ("gpu_type", "slow"): {"gpus": 1},
        ("job", "a"): {"current": {"fast": 2}},
    }
    assert graph.edges[("job", "a"), ("gpu_type", "fast")] == {"rate": 4.0, "spread_rate": 3.0}
    assert len(graph.edges) == 5
