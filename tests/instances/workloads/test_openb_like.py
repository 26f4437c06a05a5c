"""Jobs with the mix of openb: their shares, their load, and the pods of a file in their place."""

from collections import Counter

import pytest

from lyra_opt.instances.workloads.named import find_workload
from lyra_opt.instances.workloads.openb_like import OPENB_PODS, openb_like
from lyra_opt.simulation.cluster import Cluster

HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time\n"
)


def test_published_mix():
    """41.5 % of the jobs are slices, most of them of 810 or 470 thousandths; the load is 1."""
    workload = openb_like(seed=1, gpus=6212, jobs=20_000)
    parts = Counter(job.gpu_thousandths for job in workload.jobs)
    whole = Counter(job.min_gpus for job in workload.jobs if not job.is_slice)
    assert 1 - parts[None] / 20_000 == pytest.approx(0.415, abs=0.01)
    assert parts[810] / 20_000 == pytest.approx(1017 / 6203, abs=0.01)
    assert parts[470] / 20_000 == pytest.approx(455 / 6203, abs=0.01)
    assert set(whole) == {1, 2, 4, 8}
    assert workload.load(6212) == pytest.approx(1)
    assert max(job.duration_s for job in workload.jobs) == 7200
    slices = sorted(job.duration_s for job in workload.jobs if job.is_slice)
    assert slices[len(slices) // 2] == pytest.approx(539, rel=0.1)
    assert workload != openb_like(seed=2, gpus=6212, jobs=20_000)


def test_pods_of_a_file(tmp_path, monkeypatch):
    """Where the trace is there, its pods are drawn."""
    rows = "p-0,1,1,1,460,,BE,Succeeded,0,107,100\np-1,1,1,2,1000,,LS,Running,5,60,20\n"
    (tmp_path / OPENB_PODS).write_text(HEADER + rows)
    monkeypatch.chdir(tmp_path)
    workload = find_workload("openb-like").make(Cluster.of_servers(2), 0, jobs=50)
    found = {(job.gpu_thousandths, job.min_gpus, job.duration_s) for job in workload.jobs}
    assert found == {(460, 1, 7.0), (None, 2, 40.0)}
    assert "the 2 pods of openb_pod_list_default.csv" in workload.assumptions[0]
