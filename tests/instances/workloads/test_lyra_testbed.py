"""Lyra's testbed: its jobs are scaled as the paper says."""

from __future__ import annotations

import numpy as np
import pytest

from lyra_opt.instances.workloads.lyra_like import TESTBED_SPAN_S, lyra_testbed
from lyra_opt.simulation.cluster import Cluster


@pytest.mark.parametrize("seed", [0, 1])
def test_testbed_is_scaled_as_the_paper_says(seed: int) -> None:
    """180 jobs within 8 hours, 2 minutes to 2 hours, none wider than 16 GPUs."""
    cluster = Cluster.of_servers(4)
    jobs = lyra_testbed(cluster, seed).jobs
    assert len(jobs) == 180
    assert jobs[0].submit_s == 0
    assert jobs[-1].submit_s == pytest.approx(TESTBED_SPAN_S)
    assert max(job.min_gpus for job in jobs) <= 16 < cluster.gpus
    assert all(120 <= job.duration_s <= 7200 for job in jobs)
    assert sum(job.is_elastic for job in jobs) == 11
    assert np.mean([job.duration_s for job in jobs]) == pytest.approx(2540, rel=0.02)
