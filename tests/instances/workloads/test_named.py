"""Workloads by name."""

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.instances.heterogeneous.clusters import find_cluster
from lyra_opt.instances.heterogeneous.generated_jobs import MIX_SIZES
from lyra_opt.instances.workloads.named import WORKLOADS, find_workload
from lyra_opt.simulation.cluster import Cluster
from tests.tables import tables

NAMES = {
    *("lyra-like", "gavel-like", "hadar-480", "dally-batch", "dally-poisson", "dally-distributed"),
    *(f"mix-{jobs}" for jobs in MIX_SIZES),
}


def test_names():
    """Each is called what its entry point is called, and there are no others."""
    found = {name: workload for name, workload in WORKLOADS.all().items() if name in NAMES}
    assert set(found) == NAMES
    for name, workload in found.items():
        assert workload.name == name
        assert workload.summary
    with pytest.raises(UserError, match="workload 'mix-2': unknown workload; did you mean mix-"):
        find_workload("mix-2")


@pytest.mark.parametrize(("name", "jobs"), tables(__file__)["jobs"])
def test_jobs(name, jobs):
    """As many as were published, by the seed."""
    workload = find_workload(name)
    cluster = find_cluster("hadar-60")
    made = [workload.make(cluster, seed) for seed in (0, 0, 1)]
    assert [len(each.jobs) for each in made] == [jobs] * 3
    assert made[0] == made[1]
    assert (made[0].jobs == made[2].jobs) == name.startswith("mix-")


def test_parameters_are_what_may_be_set():
    """Not what a scenario says elsewhere: assumptions of jobs, and tables of throughput."""
    assert find_workload("lyra-like").parameters == ("days", "jobs", "shape")
    assert find_workload("gavel-like").parameters == (
        *("jobs", "arrivals_per_hour"),
        *("high_priority_percent", "slo_percent"),
    )
    few = find_workload("dally-poisson").make(find_cluster("hadar-60"), 0, jobs=3, jobs_per_day=1)
    assert len(few.jobs) == 3


def test_lyras_jobs_fill_the_cluster():
    """Twice the GPUs ask for about twice the jobs."""
    make = find_workload("lyra-like").make
    few, many = (len(make(Cluster.of_servers(servers), 0).jobs) for servers in (5, 10))
    assert many == pytest.approx(2 * few, rel=0.1)


def test_hadars_jobs_need_a_trace(tmp_path, monkeypatch):
    """It is looked for here, and where the variable says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    workload = find_workload("hadar-480")
    with pytest.raises(UserError, match=r"hadar-480 draws from the trace philly_jobs.csv.gz"):
        workload.make(find_cluster("hadar-60"), 0)
