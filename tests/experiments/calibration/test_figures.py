"""Figures of a schedule, against those of the simulated cluster and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.experiments.calibration.figures import figures, require_figure
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.metrics import measure
from tests.lyra_opt.simulation.replays import job_of, replay

NAMES = ("queue_mean_s", "queue_p95_s", "jct_mean_s", "jct_p50_s", "jct_p99_s")
JOBS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 8)), min_size=1, max_size=10
)


@given(JOBS)
def test_as_the_simulated_cluster_measures(fields: list[tuple[int, int, int]]) -> None:
    """Means, percentiles and usage of any replay."""
    fields.sort(key=lambda each: each[0])
    cluster = Cluster.of_servers(1)
    jobs = [job_of(f"j{place}", *each) for place, each in enumerate(fields)]
    simulation = replay(jobs, cluster, "fifo")
    submit_s, run_s, gpus = np.array(fields, dtype=float).T
    found = figures(
        [*NAMES, "training_usage"],
        submit_s=submit_s,
        wait_s=np.array([run.queued_s for run in simulation.runs]),
        run_s=run_s,
        gpus=gpus.astype(np.int64),
        cluster_gpus=cluster.gpus,
    )
    metrics = measure(simulation)
    assert [found[name] for name in NAMES] == pytest.approx([getattr(metrics, n) for n in NAMES])
    assert found["training_usage"] == pytest.approx(metrics.gpu_usage)


def test_usage_while_jobs_are_submitted() -> None:
    """What runs on after the last submission counts for the makespan alone."""
    found = figures(
        ["training_usage", "training_usage_while_submitting"],
        submit_s=np.array([10.0, 20.0]),
        wait_s=np.array([0.0, 5.0]),
        run_s=np.array([15.0, 25.0]),
        gpus=np.array([4, 2]),
        cluster_gpus=8,
    )
    assert found["training_usage_while_submitting"] == 40 / 80
    assert found["training_usage"] == (60 + 50) / (8 * 40)


@pytest.mark.parametrize("name", ["queue_p75", "queue_p100_s", "wait_mean_s", "jct_max_s"])
def test_others_are_refused(name: str) -> None:
    """Before anything is tried."""
    with pytest.raises(FieldError, match="must be queue or jct"):
        require_figure("measure", name)
