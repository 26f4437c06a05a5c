"""Slices in scenarios: traces with parts of GPUs, and the memory of GPU types."""

from __future__ import annotations

import json

import pytest

from tests.conftest import assert_one_line_error

TRACE = """job_id,submit_time_s,duration_s,gpus,gpu_thousandths,gpu_memory_mib
a,0,100,1,500,
b,0,100,1,,4096
c,0,100,1,,
"""

MEMORY = ("--set", "gpu_types.v100.memory_mib=8192")


@pytest.fixture
def given(tmp_path):
    """Return a command that replays three jobs on a GPU of the large type and one of the small."""
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    groups = 'cluster.groups=[{servers=1,gpus_per_server=1,gpu_type="V100"},'
    groups += '{servers=1,gpus_per_server=1,gpu_type="small"}]'
    return [
        *("simulate", "plain", "--jobs", str(path), "--set", groups),
        *("--set", "gpu_types.small.relative_speed=1", "--scheme", "fifo", "--format", "json"),
    ]


def test_parts_of_a_trace(run, given):
    """The half and the memory share a GPU, if its type has so much memory."""
    exit_code, out, err = run(*given, "--set", "jobs.slices=part", *MEMORY)
    assert exit_code == 0, err
    found = json.loads(out)
    assert (found["makespan_s"], found["opened_free_share"]) == (100, 0)
    assert found["gpu_usage_by_type"] == {"v100": 1, "small": 1}
    exit_code, out, err = run(*given)
    assert (exit_code, json.loads(out)["makespan_s"]) == (0, 200)
    told = "job b asks for 4,096 MiB of one GPU", "v100 unknown, small unknown"
    assert_one_line_error(run(*given, "--set", "jobs.slices=part"), *told)


def test_bound_below_replay(run, given):
    """The bound on the mean JCT holds for slices in a scenario."""
    exit_code, out, err = run(*given, "--set", "jobs.slices=part", "--set", "bounds=true", *MEMORY)
    assert exit_code == 0, err
    found = json.loads(out)
    assert 0 < found["jct_mean_bound_s"] <= found["jct_mean_s"]
