"""The prices of the fluid model, compared with sums, small steps and every start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.numbers import HOUR_S
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.policies.fluid import CLASSES, FluidPrices, PricedPreemption, RecentWork
from tests.lyra_opt.simulation.replays import job_of, replay

SIZES = [50 * 1.4 ** (place + 0.5) for place in range(CLASSES)]
"""Jobs in the middle of their class."""

RULE = PricedPreemption(least_slack=0.25)
JOBS = st.lists(st.integers(0, 20), min_size=1, max_size=6)
RATES = st.dictionaries(st.integers(0, 20), st.integers(0, 3), max_size=3)


def rates_of(rates):
    return np.array([float(rates.get(place, 0)) for place in range(CLASSES)])


@given(jobs=JOBS, rates=RATES)
def test_ends_step_by_step(jobs, rates):
    """One machine of four GPUs serves the smallest class first, in steps of a second."""
    prices = FluidPrices(RULE, 4, [SIZES[job] for job in jobs], rates_of(rates))
    for place in {*jobs}:
        arriving = sum(rate for each, rate in rates.items() if each <= place)
        work, second = sum(SIZES[job] for job in jobs if job <= place), 0
        while work > 0:
            work += min(arriving, 3) - 4
            second += 1
        assert 0 <= second - prices.times_s[place + 1] <= 1


@given(jobs=JOBS)
def test_first_price_counts_the_waiting_jobs(jobs):
    """Without arrivals, a GPU-second taken from four GPUs delays each job by a quarter second."""
    prices = FluidPrices(RULE, 4, [SIZES[job] for job in jobs], rates_of({}))
    assert prices.price(np.zeros(1)) == pytest.approx(len(jobs) / 4)


@given(jobs=JOBS, rates=RATES, run_s=st.integers(1, 20_000), gpus=st.integers(1, 4))
def test_best_start_among_all(jobs, rates, run_s, gpus):
    """The payments are sums of prices, and no other start costs less."""
    prices = FluidPrices(RULE, 4, [SIZES[job] for job in jobs], rates_of(rates))
    end_s = prices.times_s[-1]
    starts_s = np.linspace(0, end_s, 2001)
    step_s = starts_s[1]
    summed = np.append(0, np.cumsum(prices.price(starts_s[:-1] + step_s / 2) * step_s))
    top = float(prices.price(np.zeros(1))[0])
    assert prices.paid(starts_s) == pytest.approx(summed, abs=1e-3 * (1 + top * end_s))
    ends_s = starts_s + run_s
    costs_s = ends_s + gpus * (prices.paid(ends_s) - prices.paid(starts_s))
    run, held = np.array([float(run_s)]), np.array([float(gpus)])
    least_s = prices.least_cost(run, held)[0]
    assert min(costs_s) - (1 + 2 * gpus * top) * step_s <= least_s <= min(costs_s) * (1 + 1e-6)
    if least_s >= costs_s[0] * (1 - 1e-9):
        assert prices.is_best_now(run, held)[0]


def test_recent_work_is_an_average():
    """Steady arrivals are found from six hours on, and forgotten after the last one."""
    recent = RecentWork(24 * HOUR_S, 0.0)
    for hour in range(200):
        recent.submitted(hour * HOUR_S, 7200.0)
        if hour >= 6:
            assert recent.rates(hour * HOUR_S).sum() == pytest.approx(2, rel=0.2)
    assert recent.rates(400 * HOUR_S).sum() < 0.001


@pytest.mark.parametrize(("run_h", "stops"), [(100, 1), (2.0, 0)])
def test_a_long_job_gives_way_but_not_when_it_is_almost_done(run_h, stops):
    """Jobs of half an hour come after 1.5 hours of a job without checkpoints, on one GPU."""
    short = [job_of(f"s{n}", 1.5 * HOUR_S, HOUR_S / 2) for n in range(10)]
    jobs = [job_of("long", 0.0, run_h * HOUR_S), *short]
    ours = replay(jobs, Cluster.of_servers(1, gpus_per_server=1), "lyra-priced")
    assert [run.preemptions for run in ours.runs] == [stops, *[0] * 10]
