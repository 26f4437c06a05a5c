"""The kernel as an M/M/c queue meets the closed form."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from lyra_opt.simulation.cluster import Cluster
from tests.lyra_opt.simulation.replays import job_of, replay

JOBS, WARM_UP, REPLICATIONS = 2500, 500, 12


def erlang_c(servers: int, offered: float) -> float:
    """Return the probability that an arrival waits, by Erlang's formula."""
    waits = offered**servers / math.factorial(servers) / (1 - offered / servers)
    return waits / (sum(offered**k / math.factorial(k) for k in range(servers)) + waits)


@cache
def waiting_times(servers: int, offered: float) -> np.ndarray:
    """Return the queuing times of independent replications, without their warm-up."""
    rows = []
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        arrivals = np.cumsum(rng.exponential(1 / offered, JOBS))
        services = rng.exponential(1.0, JOBS)
        jobs = [job_of(f"j{j}", float(arrivals[j]), float(services[j])) for j in range(JOBS)]
        simulation = replay(jobs, Cluster.of_servers(1, gpus_per_server=servers), "fifo")
        rows.append([run.queued_s for run in simulation.runs[WARM_UP:]])
    return np.array(rows)


def assert_in_interval(means: np.ndarray, expected: float) -> None:
    """Assert that the 99 % confidence interval of independent means covers a value."""
    half = stats.t.ppf(0.995, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
    assert abs(means.mean() - expected) <= half
    assert half < 0.25 * expected, "an interval this wide would prove nothing"


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.6), (4, 3.0)])
def test_mean_wait_is_erlangs(servers: int, offered: float) -> None:
    """Mean queuing time C(c, a) / (c mu - lambda) with mu = 1; seeds are fixed."""
    expected = erlang_c(servers, offered) / (servers - offered)
    assert_in_interval(waiting_times(servers, offered).mean(axis=1), expected)


@pytest.mark.parametrize(("servers", "offered"), [(1, 0.6), (4, 3.0)])
def test_share_that_waits_is_erlangs(servers: int, offered: float) -> None:
    """The probability of waiting at all is C(c, a)."""
    waits = (waiting_times(servers, offered) > 0).mean(axis=1)
    assert_in_interval(waits, erlang_c(servers, offered))
