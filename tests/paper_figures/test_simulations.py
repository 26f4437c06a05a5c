"""Simulations behind the tables: the same case is the same result, here and in a worker."""

from __future__ import annotations

import numpy as np
import pytest

from paper_figures.simulations import (
    TESTBED,
    TESTBED_SPAN_S,
    Case,
    Results,
    Setting,
    mean_and_spread,
    paired_gain,
    scaled_to_testbed,
)

SETTING = Setting(scale=0.01, seeds=2)
CASES = [Case(scheme="lyra-loaning", seed=seed, is_testbed=True) for seed in (0, 1)]


def test_workers_find_what_this_process_finds() -> None:
    """Neither the number of processes nor the order of the cases changes a result."""
    here = Results.of_cases(CASES, SETTING, processes=1)
    there = Results.of_cases(reversed(CASES), SETTING, processes=2)
    for case in CASES:
        first, second = here.of(case), there.of(case)
        assert first is not None
        assert second is not None
        assert first.record["jct_mean_s"] == second.record["jct_mean_s"]
        assert np.array_equal(first.jobs.queued_s, second.jobs.queued_s)
    assert len(here.over_seeds(CASES[0])) == 2


def test_scheme_that_is_not_there() -> None:
    """It has no result, and no mean."""
    case = Case(scheme="of-tomorrow")
    results = Results.of_cases([case], SETTING, processes=1)
    assert results.of(case) is None
    assert mean_and_spread(results.over_seeds(case), lambda result: 1.0) == (None, None)


@pytest.mark.parametrize("seed", [0, 1])
def test_testbed_is_scaled_as_the_paper_says(seed: int) -> None:
    """180 jobs within 8 hours, 2 minutes to 2 hours, none wider than 16 GPUs."""
    jobs = scaled_to_testbed(seed).jobs
    assert len(jobs) == 180
    assert jobs[0].submit_s == 0
    assert jobs[-1].submit_s == pytest.approx(TESTBED_SPAN_S)
    assert max(job.min_gpus for job in jobs) <= 16 < TESTBED.gpus
    assert all(120 <= job.duration_s <= 7200 for job in jobs)
    assert sum(job.is_elastic for job in jobs) == 11
    assert np.mean([job.duration_s for job in jobs]) == pytest.approx(2540, rel=0.02)


def test_paired_gain() -> None:
    """Each seed is compared with itself, so that one long queue does not outweigh the others."""
    results = [None, None]  # what the measure looks at, which is given here

    def gain_of(*values: float) -> float | None:
        given = iter(values)
        return paired_gain(results, results, lambda result: next(given))  # type: ignore[arg-type]

    assert gain_of(100, 1000, 50, 2000) == pytest.approx(1)
    assert gain_of(100, 1000, 0, 55) == 20
    assert paired_gain(results, [], lambda result: 1.0) is None  # type: ignore[arg-type]
