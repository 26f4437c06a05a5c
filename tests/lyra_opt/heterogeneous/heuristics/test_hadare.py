"""HadarE: copies on separate servers, no server idle, work divided by speed."""

from __future__ import annotations

from hypothesis import given

from lyra_opt.heterogeneous.heuristics.hadar.forking import HadarE
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import decided, instance_of, job, run, state_of


@draws(80)
@given(
    instance=heterogeneous_instances(
        objective="mean_jct", forking=True, max_jobs=4, with_releases=False
    )
)
def test_no_server_idles_while_a_job_could_use_it(instance):
    """The paper's theorem; copies on separate servers, whole gangs, nothing given twice."""
    decision = decided(HadarE(), state_of(instance))
    left = {server.id: dict(server.gpus) for server in instance.servers}
    for each in instance.jobs:
        copies = decision.get(each.id, ())
        servers = [server for copy in copies for server in copy]
        assert len(servers) == len(set(servers)) == len(copies) <= len(instance.servers)
        for copy in copies:
            assert each.rate_of(copy) > 0
            for server, types in copy.items():
                assert sum(types.values()) == each.gang
                for name, count in types.items():
                    left[server][name] -= count
    assert all(count >= 0 for counts in left.values() for count in counts.values())
    for each in instance.jobs:
        there = {server for copy in decision.get(each.id, ()) for server in copy}
        for server in left.keys() - there:
            usable = sum(n for name, n in left[server].items() if each.throughput.get(name, 0.0))
            assert usable < each.gang


def test_one_job_is_copied_to_every_server():
    """Speeds 3 and 1: four steps a round, where without copies there are three."""
    instance = instance_of(
        [{"a": 1}, {"b": 1}], [job("x", 12, throughput={"a": 3.0, "b": 1.0})], forking=True
    )
    assert run("hadare", instance).last_round == {"x": 2}
    assert run("hadar", instance).last_round == {"x": 3}


def test_each_job_has_a_server_before_any_has_two():
    """Copies are of servers that are left."""
    jobs = [job("x", 1), job("y", 50), job("z", 60)]
    decision = decided(HadarE(), state_of(instance_of([{"a": 1}] * 4, jobs, forking=True)))
    assert sorted(map(len, decision.values())) == [1, 1, 2]
