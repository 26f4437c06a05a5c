"""Clusters and plans of loans are what they say, or are refused."""

import pytest

from lyra_opt.simulation.cluster import TRAINING_GPU, Cluster, GpuType
from lyra_opt.simulation.communication import SlowdownTable
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.workload import Job
from tests.lyra_opt.simulation import in_rounds
from tests.tables import tables

A, B = GpuType(name="a"), GpuType(name="b", relative_speed=0.5)
UNLIKE = in_rounds.cluster_of({"a": 4, "b": 2}, {"b": 3, "a": 0}, {"a": 1}, b=0.5)


def test_hosts_by_hand():
    """GPUs of a type on a server are a host; hosts are numbered type by type, lent ones last."""
    assert (UNLIKE.gpus, UNLIKE.gpus_of_type) == (10, {"a": 5, "b": 5})
    assert UNLIKE.most_on_a_server == {"a": 4, "b": 3}
    cluster = UNLIKE.with_lent(2, gpus_per_server=6, gpu_type=B)
    assert [(pool.gpu_type.name, pool.is_lent, list(pool.hosts)) for pool in cluster.pools] == [
        ("a", False, [0, 1]),
        ("b", False, [2, 3]),
        ("b (lent)", True, [4, 5]),
    ]
    assert cluster.gpus_of_host == [4, 1, 2, 3, 6, 6]
    assert cluster.name_of_host == ["s0", "s2", "s0", "s1", "inference-0", "inference-1"]
    assert cluster.server_of_host == [0, 2, 0, 1, 3, 4]
    assert (cluster.gpus, cluster.inference_servers, cluster.inference_gpus) == (10, 2, 12)
    assert [server.id for server in cluster.own_servers] == ["s0", "s1", "s2"]


def test_racks_of_servers():
    """Numbered rack by rack, the last one not full, and borrowed ones in a rack of their own."""
    cluster = Cluster.of_servers(5, gpus_per_server=2, servers_per_rack=2, inference_servers=3)
    assert cluster.rack_of_host == [0, 0, 1, 1, 2, 3, 3, 3]
    assert Cluster.of_servers(2).rack_of_host == [0, 0]
    assert Cluster.of_servers(2).topology is None


def test_racks_with_gpus_of_several_types():
    """A rack has one type, and types take turns."""
    racks = tuple(Rack(machines=2, gpus_per_machine=gpus) for gpus in (1, 2, 3))
    cluster = Cluster.of_racks(
        Topology(name="three", racks=racks), SlowdownTable({}), gpu_types=(A, B)
    )
    assert cluster.gpus_of_type == {"a": 2 * 1 + 2 * 3, "b": 2 * 2}
    # Hosts are numbered by type, so that racks are not.
    assert cluster.rack_of_host == [0, 0, 2, 2, 1, 1]
    assert cluster.gpus_of_host == [1, 1, 3, 3, 2, 2]


@pytest.mark.parametrize(("workers", "gpus_per_worker", "is_held"), tables(__file__)["held"])
def test_jobs_that_are_held(workers, gpus_per_worker, is_held):
    """The base demand, on own GPUs of one type."""
    size = {"min_workers": workers, "max_workers": 9, "gpus_per_worker": gpus_per_worker}
    job = Job(id="j", submit_s=0, work_worker_s=1, **size)
    cluster = UNLIKE.with_lent(9, gpus_per_server=8, gpu_type=TRAINING_GPU)
    assert cluster.holds(job) is is_held
