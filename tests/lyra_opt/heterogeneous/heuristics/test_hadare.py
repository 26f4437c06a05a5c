"""HadarE: copies on separate servers, no server idle, work divided by speed."""

from lyra_opt.heterogeneous.heuristics.hadar.forking import HadarE
from tests.lyra_opt.heterogeneous.heuristics.cases import decided, instance_of, job, run, state_of


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
