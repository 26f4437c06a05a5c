"""Shared fixtures of the tests of ``lyra-opt simulate``: runs in this process, and a tiny trace."""

import json

import pytest

HEADER = "job_id,submit_time_s,duration_s,gpus\n"

# On one server of two GPUs, FIFO runs a, b, c one after the other; SJF takes c before b.
THREE_JOBS = HEADER + "a,0,100,2\nb,10,50,1\nc,20,30,2\n"

TIME_PARTS = (
    *("least_run_mean_s", "queue_first_mean_s", "queue_again_mean_s", "lost_work_mean_s"),
    *("fewer_workers_mean_s", "slower_type_mean_s", "slower_placement_mean_s", "pause_mean_s"),
)
"""Figures of every replay, whose sum is the mean JCT."""


@pytest.fixture
def simulate(run):
    """Return a function that runs ``lyra-opt simulate`` without worker processes."""

    def in_this_process(*arguments):
        return run("simulate", *arguments, "--processes", 1)

    return in_this_process


@pytest.fixture
def trace(tmp_path):
    """Return the path of a trace with three jobs."""
    path = tmp_path / "three.csv"
    path.write_text(THREE_JOBS)
    return path


@pytest.fixture
def three_jobs(simulate, trace):
    """Return a function that simulates the three jobs on one server with two GPUs."""

    def simulate_trace(*arguments):
        return simulate("plain", "--jobs", trace, *ONE_SERVER, *arguments)

    return simulate_trace


def figures(ran):
    """Return the JSON that a successful run wrote to stdout."""
    exit_code, out, err = ran
    assert exit_code == 0, err
    return json.loads(out)


def changes(*texts):
    """Return the options that change keys of a scenario."""
    return [part for text in texts for part in ("--set", text)]


def schemes(*names):
    """Return the options that name schemes."""
    return [part for name in names for part in ("--scheme", name)]


ONE_SERVER = changes("cluster.servers=1", "cluster.gpus_per_server=2")
SMALL = ("lyra-paper", *changes("cluster.servers=10", "jobs.parameters.days=1"))
