"""Figures worked out by hand, and the check that GPU-seconds are conserved."""

from __future__ import annotations

import pytest

from lyra_opt.simulation.cluster import Cluster, LoanPlan
from lyra_opt.simulation.metrics import measure, require_conserved
from tests.lyra_opt.simulation.replays import SAME_GPU, job_of, lending, replay

BASE_S = 1000.0
ONE_AFTER_THE_OTHER = [job_of("a", BASE_S, 100, 2), job_of("b", BASE_S, 100, 2)]


def test_times_without_an_inference_cluster() -> None:
    """Waits 0 and 100, completion times 100 and 200; percentiles lie between, linearly."""
    metrics = measure(replay(ONE_AFTER_THE_OTHER, Cluster(servers=1, gpus_per_server=4), "fifo"))
    assert metrics.queue_mean_s == 0, "both fit"
    metrics = measure(replay(ONE_AFTER_THE_OTHER, Cluster(servers=1, gpus_per_server=3), "fifo"))
    assert (metrics.jobs, metrics.finished) == (2, 2)
    assert (metrics.queue_mean_s, metrics.queue_p50_s) == (50, 50)
    assert (metrics.queue_p95_s, metrics.queue_p99_s) == pytest.approx((95, 99))
    assert (metrics.jct_mean_s, metrics.jct_p50_s) == (150, 150)
    assert (metrics.jct_p95_s, metrics.jct_p99_s) == pytest.approx((195, 199))
    assert metrics.makespan_s == 200, "from the first submission on"
    assert metrics.training_usage == metrics.overall_usage == pytest.approx(2 / 3)
    assert (metrics.preemptions, metrics.loans, metrics.reclaims) == (0, 0, 0)
    assert metrics.collateral_share is None
    assert metrics.loan_usage is None


def test_usage_counts_what_serves_inference() -> None:
    """Training 400 of 400 GPU-seconds, inference half of 4 GPUs for 200 s."""
    cluster = Cluster(
        servers=1, gpus_per_server=2, inference_servers=2, inference_gpus_per_server=2
    )
    plan = lending(0, busy=0.5)
    metrics = measure(replay(ONE_AFTER_THE_OTHER, cluster, "fifo", plan=plan))
    assert metrics.training_usage == 1
    assert metrics.overall_usage == pytest.approx((400 + 400) / (400 + 800))


def test_figures_of_loans() -> None:
    """A job on loan is preempted once: its waits add up, and its GPUs count as long as held."""
    cluster = Cluster(
        servers=1,
        gpus_per_server=1,
        inference_servers=2,
        inference_gpus_per_server=2,
        inference_gpu=SAME_GPU,
    )
    jobs = [job_of("trains", 0, 400), job_of("borrows", 10, 37, fungible=True)]
    plan = lending(1, 0, 1, interval_s=40)
    simulation = replay(jobs, cluster, "lyra-loaning", plan=plan)
    metrics = measure(simulation)
    # On loan from 10 to 40 s and, after 40 s in the queue, from 80 to 180 s (63 s of them lost).
    assert metrics.queue_mean_s == 20
    assert metrics.jct_mean_s == (400 + 170) / 2
    assert (metrics.preemptions, metrics.preemptions_per_submission) == (1, 0.5)
    assert (metrics.loans, metrics.reclaims, metrics.returned_servers) == (2, 1, 1)
    assert metrics.collateral_share == 0
    assert metrics.loan_usage == pytest.approx(130 / (2 * (40 + 320)))
    assert metrics.training_usage == 1
    assert metrics.overall_usage == pytest.approx((400 + 130) / (400 + 4 * 400))


def test_usage_follows_the_demand_interval_by_interval() -> None:
    """Each share holds for its interval, the last one from there on."""
    cluster = Cluster(servers=1, gpus_per_server=2, inference_servers=1)
    plan = LoanPlan(interval_s=60, on_loan=(0,), busy_share=(1.0, 0.5, 0.25))
    simulation = replay(ONE_AFTER_THE_OTHER, cluster, "lyra", plan=plan)
    assert simulation.totals.serving_gpu_s == pytest.approx(8 * (60 + 30 + 20))
    times = [row[0] - BASE_S for row in simulation.totals.series]
    assert times == [0, 60, 120, 180, 200]
    assert [row[6] for row in simulation.totals.series] == [1.0, 0.5, 0.25, 0.25, 0.25]


def test_lost_gpu_seconds_are_found() -> None:
    """The check can fail: what jobs held is counted apart from what the cluster gave."""
    simulation = replay(ONE_AFTER_THE_OTHER, Cluster(servers=1), "fifo")
    require_conserved(simulation)
    simulation.totals.training_gpu_s += 1
    with pytest.raises(AssertionError, match="held 400.0 GPU-seconds, but the cluster gave 401"):
        require_conserved(simulation)
    simulation.totals.training_gpu_s -= 1
    simulation.runs[1].completion_s = -1
    with pytest.raises(AssertionError, match="1 jobs did not complete, b first"):
        require_conserved(simulation)
