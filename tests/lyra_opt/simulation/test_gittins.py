"""The Gittins index, compared with every limit, and the order that learns it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.gittins import ENOUGH, gittins_rank
from tests.lyra_opt.simulation.replays import completions, job_of, replay


@given(
    run_times=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    known=st.integers(0, 12),
    kept=st.integers(0, 12),
)
def test_rank_by_every_limit(run_times, known, kept):
    """Every second is tried as the limit up to which the job runs on."""
    kept = min(kept, known)
    longer = [run_s for run_s in run_times if run_s > known]
    ratios = [
        sum(min(run_s, limit) - kept for run_s in longer) / sum(run_s <= limit for run_s in longer)
        for limit in range(known + 1, 13)
        if any(run_s <= limit for run_s in longer)
    ]
    ours = gittins_rank(np.sort(np.array(run_times, float)), known, kept)
    assert ours == pytest.approx(min(ratios, default=math.inf))


@pytest.mark.parametrize(("jobs", "ends_s"), [(ENOUGH, [6020, 3010]), (0, [6000, 6010])])
def test_an_old_job_gives_way_if_completed_jobs_were_short(jobs, ends_s):
    """On one GPU, an old job has run for longer than all completed jobs when a new one comes."""
    short = [job_of(f"s{n}", 20.0 * n, 10.0) for n in range(jobs)]
    old = job_of("old", 1000.0, 5000.0, checkpoints=True)
    given = [*short, old, job_of("new", 3000.0, 10.0)]
    ours = replay(given, Cluster.of_servers(1, gpus_per_server=1), "serverfilling-gittins")
    assert completions(ours)[-2:] == pytest.approx(ends_s, abs=70)
    assert ours.runs[-2].preemptions == bool(jobs)
