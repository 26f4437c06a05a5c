"""What strict first come, first served forbids, against replays of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.paper_figures.lyra import (
    least_mean_of_slowest_s,
    longest_gap_s,
    most_mean_of_slowest_s,
)
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.scheme import find_scheme
from tests.lyra_opt.simulation.replays import job_of, replay

STRICT = find_scheme("fifo")
OVERTAKING = STRICT.with_parameters({"queue": "first-come-overtaking"})


def is_kept(submit_s: list[float], wait_s: list[float], above_s: float) -> bool:
    """Whether those who wait longer keep the bound by the largest gap between submissions."""
    slowest = [wait for wait in wait_s if wait > above_s]
    gap_s = max(np.diff(submit_s), default=0.0)
    bound_s = most_mean_of_slowest_s(above_s, jobs=len(slowest), gap_s=gap_s)
    return not slowest or bool(np.mean(slowest) <= bound_s + 1e-9)


JOBS = st.lists(
    st.tuples(st.integers(0, 6), st.integers(1, 40), st.integers(1, 8)), min_size=2, max_size=14
)


@given(JOBS, st.integers(0, 13))
def test_no_strict_replay_breaks_the_bound(jobs: list[tuple[int, int, int]], rank: int) -> None:
    """Above any wait that the last job does not exceed, whatever the jobs are."""
    submit_s = np.cumsum([gap for gap, _, _ in jobs]).astype(float).tolist()
    simulation = replay(
        [
            job_of(f"j{place}", submit_s[place], duration_s, gpus)
            for place, (_, duration_s, gpus) in enumerate(jobs)
        ],
        Cluster.of_servers(1),
        STRICT,
    )
    wait_s = [run.queued_s for run in simulation.runs]
    above_s = max(wait_s[-1], sorted(wait_s)[rank % len(wait_s)])
    assert is_kept(submit_s, wait_s, above_s)


def test_it_is_reached() -> None:
    """One job holds up those behind it, which are submitted every 5 s and all start with it."""
    submit_s = [0.0, *(1.0 + 5 * place for place in range(4)), 21.0]
    jobs = [job_of("long", 0, 21, 8), *(job_of(f"j{s}", s, 1) for s in submit_s[1:])]
    wait_s = [run.queued_s for run in replay(jobs, Cluster.of_servers(1), STRICT).runs]
    assert wait_s == [0, 20, 15, 10, 5, 0]
    assert np.mean(wait_s[1:5]) == most_mean_of_slowest_s(0, jobs=4, gap_s=5)


def test_overtaking_breaks_it() -> None:
    """A job of all GPUs waits for a minute while others come and go every 5 s: it is a bound."""
    jobs = [
        job_of("before", 0, 7),
        job_of("wide", 1, 1, 8),
        *(job_of(f"j{place}", 5.0 + 5 * place, 7) for place in range(12)),
    ]
    submit_s = [job.submit_s for job in jobs]
    for scheme, keeps in ((OVERTAKING, False), (STRICT, True)):
        runs = replay(jobs, Cluster.of_servers(1), scheme).runs
        wait_s = [run.queued_s for run in runs]
        assert is_kept(submit_s, wait_s, max(wait_s[-1], sorted(wait_s)[-2])) is keeps


def test_the_gap_is_the_inverse() -> None:
    """At that gap, exactly the mean that was asked for is possible."""
    gap_s = longest_gap_s(10.0, 35.0, jobs=9)
    assert most_mean_of_slowest_s(10.0, jobs=9, gap_s=gap_s) == pytest.approx(35)


@given(st.lists(st.floats(0, 1e6), min_size=100, max_size=300))
def test_what_the_slowest_wait_at_least(wait_s: list[float]) -> None:
    """Of any waits, by their mean and percentiles: never more than what they do wait."""
    ordered = np.sort(wait_s)
    count = len(ordered)
    # A percentile that is one of the waits, and the share of jobs up to it.
    places = [count // 2, 9 * count // 10]
    percentiles_s = {100 * (place + 1) / count: float(ordered[place]) for place in places}
    found_s = least_mean_of_slowest_s(float(np.mean(ordered)), percentiles_s)
    assert found_s <= np.mean(ordered[places[-1] + 1 :]) + 1e-6
