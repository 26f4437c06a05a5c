"""Pollux's fitness, its bound and the search, against brute force and against the bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.simulation.goodput.allocation import (
    PolluxEpoch,
    best_allocation,
    fitness_bound,
    restart_factor,
)
from tests.lyra_opt.simulation.goodput.matrices import (
    drawn_epoch,
    fitness_as_written,
    greatest_fitness,
    is_possible,
)

SEEDS = st.integers(0, 2**32)


def small(seed, *, servers=None):
    rng = np.random.default_rng(seed)
    return drawn_epoch(
        rng,
        jobs=int(rng.integers(1, 4)),
        servers=servers or int(rng.integers(1, 4)),
        gpus=4 if servers == 1 else 2,
        most=4,
        concave=bool(rng.random() < 0.5),
    )


def cluster_epoch(seed):
    """Return an epoch of Pollux's testbed: 16 servers of 4 GPUs, 20 jobs."""
    rng = np.random.default_rng(seed)
    epoch = drawn_epoch(rng, jobs=20, servers=1, gpus=1, most=32, concave=True)
    ones = np.ones(epoch.jobs, np.int64)
    held = [{job: 1} if job < 16 else {} for job in range(epoch.jobs)]
    return replace(epoch, gpus=np.full(16, 4), gpus_per_worker=ones, least=ones, held=held)


@given(SEEDS)
def test_the_search_is_sound(seed):
    """Possible, no less fit than what is held, no fitter than the best, nor that than the bound."""
    epoch = small(seed)
    rows = best_allocation(epoch)
    assert is_possible(epoch, rows)
    found, best = fitness_as_written(epoch, rows), greatest_fitness(epoch)
    assert epoch.fitness(rows) == pytest.approx(found)
    assert fitness_as_written(epoch, epoch.held) <= found * (1 + 1e-6)
    assert found <= best * (1 + 1e-9)
    assert best <= fitness_bound(epoch) * (1 + 1e-6)


@given(SEEDS)
def test_the_search_is_exact_on_one_server(seed):
    """There the knapsack is all that there is to it."""
    epoch = small(seed, servers=1)
    best = greatest_fitness(epoch)
    assert epoch.fitness(best_allocation(epoch)) == pytest.approx(best, rel=1e-6)
    assert fitness_bound(epoch) == pytest.approx(best, rel=1e-6)


def test_the_search_is_nearly_exact_on_several():
    """Beside brute force on 100 small clusters, half of them of speed-ups without any shape."""
    epochs = [small(seed) for seed in range(100)]
    shares = [epoch.fitness(best_allocation(epoch)) / greatest_fitness(epoch) for epoch in epochs]
    assert np.mean(np.array(shares) > 1 - 1e-6) >= 0.9
    assert np.mean(shares) > 0.97


def test_the_search_is_near_the_bound():
    """On clusters of the size of Pollux's testbed."""
    for seed in range(2):
        epoch = cluster_epoch(seed)
        rows = best_allocation(epoch)
        assert is_possible(epoch, rows)
        assert epoch.fitness(rows) >= 0.9 * fitness_bound(epoch)


def test_a_limit_leaves_a_possible_allocation():
    epoch = cluster_epoch(5)
    with limited_to(Limits(time_s=0.0)):
        assert is_possible(epoch, best_allocation(epoch))


def linear(jobs, most, **changes):
    """Return an epoch on two servers of four GPUs, where spread workers do half as much."""
    near = np.tile(np.arange(most + 1.0), (jobs, 1))
    epoch = PolluxEpoch(
        gpus=np.array([4, 4]),
        gpus_per_worker=np.ones(jobs, np.int64),
        least=np.ones(jobs, np.int64),
        most=np.full(jobs, most),
        speed_up=np.stack((near, 0.5 * near)),
        held=[{}] * jobs,
        restart_factor=np.ones(jobs),
    )
    return replace(epoch, **changes)


def test_placement_counts():
    """Eight spread workers do as much as four near ones; six do less."""
    assert best_allocation(linear(1, 6)) == [{0: 4}]
    assert best_allocation(linear(2, 6)) == [{0: 4}, {1: 4}]


@pytest.mark.parametrize(("factor", "expected"), [(0.6, [{1: 4}]), (0.4, [{1: 2}])])
def test_a_restart_has_to_pay(factor, expected):
    """Two workers more are worth it for a job that has hardly restarted, else it stays."""
    epoch = linear(1, 4, held=[{1: 2}], restart_factor=np.array([factor]))
    assert best_allocation(epoch) == expected


def test_at_most_one_spread_job_on_a_server():
    """Three gangs of three on two servers of four: one of them waits."""
    epoch = linear(3, 3, least=np.full(3, 3))
    rows = best_allocation(epoch)
    assert sorted(map(len, rows)) == [0, 1, 1]
    four = np.array([4, 2])
    rows = best_allocation(linear(2, 3, least=np.full(2, 3), gpus=four))
    assert sorted(sum(row.values()) for row in rows) == [3, 3]


def test_restart_factor_by_hand():
    assert restart_factor(0.0, 0, 30.0) == 0.0
    assert restart_factor(30.0, 0, 30.0) == 0.5
    assert restart_factor(300.0, 2, 30.0) == 240 / 330
    assert restart_factor(100.0, 4, 30.0) == 0.0
