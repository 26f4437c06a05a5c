"""Prices of time for jobs that may be interrupted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from lyra_opt.allocation.bounds.mean_jct.data import BoundData
from lyra_opt.allocation.bounds.mean_jct.prices import (
    InterruptedJob,
    PricedSchedules,
    priced_schedules_bound,
)
from lyra_opt.allocation.instance import ElasticJob, Instance, Objective


def instance_of(*jobs: tuple[float, int, float]) -> Instance:
    """Return rigid jobs given by release, GPUs and seconds, on four GPUs."""
    return Instance(
        name="rigid",
        objective=Objective.MEAN_JCT,
        gpus=4,
        jobs=tuple(
            ElasticJob(
                id=f"j{number}",
                min_workers=1,
                max_workers=1,
                gpus_per_worker=gpus,
                work_worker_s=time_s,
                release_s=release_s,
            )
            for number, (release_s, gpus, time_s) in enumerate(jobs)
        ),
    )


@settings(max_examples=settings().max_examples // 2)
@given(
    prices=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    gpus=st.integers(1, 4),
    time_s=st.integers(1, 12),
)
def test_the_cheapest_schedule_is_that_of_a_linear_programme(
    prices: list[int], gpus: int, time_s: int
) -> None:
    """A cost above the least would make the bound one that schedules beat."""
    lengths = np.array([2.0, 1.0, 3.0, 1.0, 2.0, 1.0, 20.0])[-len(prices) - 1 :]
    begin = np.concatenate(([0.0], np.cumsum(lengths)[:-1]))
    price = np.append(prices, 0.0)
    data = BoundData(instance_of((0, gpus, time_s)))
    job = InterruptedJob(data, 0, begin, lengths, runs=False)
    cost, schedule, _ = job.cheapest(price)
    least = np.inf
    for end in range(len(lengths)):
        costs = gpus * price[: end + 1]
        costs[end] += 1
        found = linprog(
            costs,
            A_eq=np.ones((1, end + 1)),
            b_eq=[time_s],
            bounds=[(0, length) for length in lengths[: end + 1]],
            method="highs",
        )
        if found.status == 0:
            least = min(least, begin[end] + found.fun)
    assert cost == pytest.approx(least)
    assert schedule.usage.sum() == pytest.approx(gpus * time_s)
    assert schedule.completion + float(schedule.usage @ price) == pytest.approx(cost)


def test_an_interruption_is_charged_in_full() -> None:
    """A long job that makes way for a short one; mean busy times charge it for a part alone."""
    bound = priced_schedules_bound(instance_of((0, 4, 30), (10, 4, 2)), is_preemptive=True)
    assert bound == pytest.approx(17, rel=5e-3)
    assert bound <= 17


def test_without_prices_jobs_take_what_they_need() -> None:
    """The bound is then that of the jobs alone, which is where prices begin."""
    data = BoundData(instance_of((0, 4, 30), (10, 4, 2)))
    schedules = PricedSchedules(data, np.array([0.0, 10.0, 20.0, 40.0]), InterruptedJob)
    value, _, _ = schedules.evaluate(np.zeros(3))
    assert value == pytest.approx(30 + 12)
