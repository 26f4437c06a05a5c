"""What a schedule costs beyond the bound at any prices is delays and idle GPUs, to the last."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.bounds.whole import step_integral
from lyra_opt.simulation.clairvoyant import relaxation as module
from lyra_opt.simulation.clairvoyant.gangs import Capacity
from lyra_opt.simulation.clairvoyant.relaxation import Relaxation
from tests.lyra_opt.simulation.clairvoyant.small import (
    FEW_GANGS,
    GANGS,
    capacity_of,
    free_by_second,
    gangs_of,
    least_mean_jct_s,
    rooms,
)


def relaxed(jobs, capacity):
    """Return a relaxation in cells of 2 s, after some passes."""
    relaxation = Relaxation(gangs_of(jobs), capacity, np.arange(60) * 2.0)
    relaxation.advance(20)
    return relaxation


@given(jobs=GANGS, room=rooms())
def test_gpu_seconds_are_those_of_seconds(jobs, room):
    """What there is up to each second is the sum over the seconds before."""
    free = free_by_second(jobs, room)
    capacity = capacity_of(room)
    found = step_integral(capacity.since_s, capacity.gpus, np.arange(len(free) + 1.0))
    assert found.tolist() == pytest.approx(np.concatenate(([0], np.cumsum(free))).tolist())


@given(jobs=FEW_GANGS, gpus=st.integers(4, 8))
def test_prices_bound_the_optimum(jobs, gpus):
    """At the prices in force, what jobs pay at least less the price of all GPUs is a bound."""
    relaxation = relaxed(jobs, Capacity.constant(gpus))
    gangs = gangs_of(jobs)
    horizon_s = np.array([118.0])
    rent = gpus * float(relaxation.paid_until(horizon_s)[0])
    second = np.arange(0.0, 119.0)
    least = 0.0
    for release_s, run_s, held in zip(gangs.release_s, gangs.run_s, gangs.gpus, strict=True):
        starts_s = second[second >= release_s]
        paid = relaxation.paid_until(starts_s + run_s) - relaxation.paid_until(starts_s)
        least += float((starts_s + run_s - release_s + held * paid).min())
    assert (least - rent) / len(jobs) <= least_mean_jct_s(jobs, [(0, gpus)]) + 1e-9


@given(jobs=GANGS, gpus=st.integers(4, 8))
def test_medians_are_starts_that_jobs_may_choose(jobs, gpus):
    """No job starts before its release in any of the passes."""
    relaxation = relaxed(jobs, Capacity.constant(gpus))
    medians = list(relaxation.medians_us())
    assert len(medians) == sum(passes <= 20 for passes in module.KEPT)
    for starts_us in medians:
        assert (starts_us >= gangs_of(jobs).release_us).all()
