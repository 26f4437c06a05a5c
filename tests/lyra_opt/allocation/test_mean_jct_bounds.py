"""Bounds on mean JCT: below the optimum, above the bounds that they imply, and tight enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lyra_opt.allocation import AllocationInstance, ElasticJob
from lyra_opt.allocation.mean_jct_bounds import (
    height_bound,
    mean_busy_time_bound,
    mean_jct_bound,
    squashed_area_bound,
)
from lyra_opt.allocation.mean_jct_exact import MeanJctExact
from lyra_opt.allocation.mean_jct_orders import OrderData
from lyra_opt.allocation.mean_jct_starts import starting_plans
from lyra_opt.result import Limits, Status
from tests.lyra_opt.allocation import mean_jct_reference as reference

BOUNDS = (height_bound, squashed_area_bound, mean_busy_time_bound, mean_jct_bound)


@settings(max_examples=25)
@given(st.integers(1, 4), st.integers(0, 10**6), st.booleans(), st.booleans(), st.booleans())
def test_never_above_the_optimum(
    jobs: int, seed: int, fit: bool, releases: bool, loss: bool
) -> None:
    instance = reference.drawn(jobs, seed, fit=fit, releases=releases, loss=loss, wide=True)
    result = MeanJctExact().solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    assert result.status is Status.OPTIMAL
    for bound in BOUNDS:
        assert bound(instance) <= result.objective * (1 + 1e-9), bound.__name__


def test_one_job_alone_is_bounded_by_its_height() -> None:
    instance = reference.drawn(1, 3, fit=True)
    job = instance.jobs[0]
    most = min(job.max_workers, instance.gpus // job.gpus_per_worker)
    assert mean_jct_bound(instance) == pytest.approx(job.work_worker_s / most)


def test_squashed_area_is_exact_without_caps() -> None:
    """Jobs that can use the whole cluster, from one worker on: one fast machine."""
    instance = AllocationInstance(
        name="fast",
        objective="mean_jct",
        gpus=10,
        jobs=tuple(
            ElasticJob(id=f"{work}", min_workers=1, max_workers=10, work_worker_s=float(work))
            for work in (30, 10, 20)
        ),
    )
    assert squashed_area_bound(instance) == pytest.approx((1 + 3 + 6) / 3)
    result = MeanJctExact().solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    assert result.objective == pytest.approx((1 + 3 + 6) / 3)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("load", "releases", "gap"), [("light", False, 0.03), (2, True, 0.15)])
def test_certified_gap_at_50_jobs(seed: int, load: str | int, releases: bool, gap: float) -> None:
    """The figures: 3 % in the note's light-load setting, 15 % overbooked with releases."""
    rng = np.random.default_rng(seed)
    least = rng.integers(1, 5, 50)
    most = least + rng.integers(0, 9, 50)
    work = rng.integers(20, 1000, 50)
    gpus = int(least.sum() + most.sum()) // 2 if load == "light" else int(least.sum() / load)
    latest = 0.7 * work.sum() / gpus
    instance = AllocationInstance(
        name="fifty",
        objective="mean_jct",
        gpus=gpus,
        jobs=tuple(
            ElasticJob(
                id=f"{j}",
                min_workers=int(least[j]),
                max_workers=int(most[j]),
                work_worker_s=float(work[j]),
                release_s=float(rng.uniform(0, latest)) if releases and j else 0.0,
            )
            for j in range(50)
        ),
    )
    data = OrderData(instance)
    best = min(plan.value for plan in starting_plans(data)) - data.release.sum()
    assert mean_jct_bound(instance) >= (1 - gap) * best * data.unit_s / data.jobs
