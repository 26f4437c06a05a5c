"""The exact search of Pollux's fitness against brute force and against Pollux's own search."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits
from lyra_opt.simulation.goodput.pollux import (
    LEAST_FACTOR,
    PolluxEpoch,
    best_allocation,
    restart_factor,
)
from tests.lyra_opt.simulation.goodput.epochs import fitness, fits, sampled_epoch
from tests.lyra_opt.simulation.goodput.genetic import evolve


def epoch_of(
    gpus: int,
    speed_ups: list[list[float]],
    *,
    size: list[int] | None = None,
    current: list[int] | None = None,
    factor: list[float] | None = None,
) -> PolluxEpoch:
    jobs = len(speed_ups)
    return PolluxEpoch(
        gpus=gpus,
        speed_ups=tuple(np.array(speed_up) for speed_up in speed_ups),
        gpus_per_worker=np.array(size or [1] * jobs, dtype=np.int64),
        current=np.array(current or [0] * jobs, dtype=np.int64),
        restart_factor=np.array(factor or [1.0] * jobs, dtype=np.float64),
    )


@st.composite
def epochs(draw: st.DrawFn) -> PolluxEpoch:
    """Draw tables without any shape, present allocations that may not fit, forbidden restarts."""
    jobs = draw(st.integers(1, 4))
    tables = [draw(st.lists(st.floats(0.1, 10), min_size=1, max_size=5)) for _ in range(jobs)]
    factors = st.sampled_from((0.0, LEAST_FACTOR, 0.5, 0.9, 1.0))
    return epoch_of(
        draw(st.integers(0, 12)),
        tables,
        size=[draw(st.integers(1, 3)) for _ in range(jobs)],
        current=[draw(st.integers(0, len(table) - 1)) for table in tables],
        factor=[draw(factors) for _ in range(jobs)],
    )


@given(epochs())
def test_search_finds_what_brute_force_finds(epoch: PolluxEpoch) -> None:
    ranges = [range(int(most) + 1) for most in epoch.most]
    greatest = max(
        (
            fitness(epoch, extra)
            for extra in map(np.array, itertools.product(*ranges))
            if fits(epoch, extra)
        ),
        default=0.0,
    )
    found = best_allocation(epoch)
    assert fits(epoch, found)
    assert fitness(epoch, found) == pytest.approx(greatest)


@given(epochs(), st.integers(0, 2**32))
def test_no_genetic_search_is_fitter(epoch: PolluxEpoch, seed: int) -> None:
    evolved = evolve(epoch, np.random.default_rng(seed), population=10, generations=5)
    assert fits(epoch, evolved)
    assert fitness(epoch, evolved) <= fitness(epoch, best_allocation(epoch)) * (1 + 1e-9)


@pytest.mark.parametrize(("jobs", "equal"), [(6, True), (30, False)])
def test_search_reaches_the_genetic_algorithm(jobs: int, equal: bool) -> None:
    """On few jobs both find the optimum; a good part of the way also on more."""
    epoch = sampled_epoch(jobs, jobs)
    found = fitness(epoch, best_allocation(epoch))
    evolved = fitness(epoch, evolve(epoch, np.random.default_rng(0)))
    assert fitness(epoch, epoch.current) < evolved <= found * (1 + 1e-9)
    assert evolved >= found * (1 - 1e-9 if equal else 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_search_reaches_the_genetic_algorithm_on_large_epochs(seed: int) -> None:
    epoch = sampled_epoch(seed, 160)
    evolved = fitness(epoch, evolve(epoch, np.random.default_rng(seed)))
    assert evolved <= fitness(epoch, best_allocation(epoch)) * (1 + 1e-9)


def test_same_seed_same_evolution() -> None:
    epoch = sampled_epoch(0, 8)
    first, second = (
        evolve(epoch, np.random.default_rng(3), generations=20).tolist() for _ in range(2)
    )
    assert first == second


def test_fitness_is_the_harmonic_mean() -> None:
    epoch = epoch_of(2, [[1.0, 2.0], [1.0, 4.0]])
    assert fitness(epoch, np.array([1, 1])) == pytest.approx(2 / (1 / 2 + 1 / 4))
    assert best_allocation(epoch).tolist() == [1, 1]


def test_the_slower_job_comes_first() -> None:
    """The power mean is fair: the same factor counts for more where the speed-up is small."""
    epoch = epoch_of(1, [[1.0, 2.0], [0.5, 1.0]])
    assert best_allocation(epoch).tolist() == [0, 1]


def test_restarts_are_worth_it_only_beyond_their_penalty() -> None:
    tables = [[1.0, 1.5]]
    assert best_allocation(epoch_of(1, tables, factor=[0.6])).tolist() == [0]
    assert best_allocation(epoch_of(1, tables, factor=[0.7])).tolist() == [1]


def test_jobs_that_must_not_restart_keep_what_they_have() -> None:
    epoch = epoch_of(3, [[1.0, 1.1, 1.2], [0.1, 9.0, 9.9]], current=[2, 0], factor=[0.0, 1.0])
    assert best_allocation(epoch).tolist() == [2, 1]


def test_where_nothing_may_stay_no_allocation_has_a_fitness() -> None:
    epoch = epoch_of(1, [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], current=[2, 1], factor=[0.0, 0.5])
    found = best_allocation(epoch)
    assert fits(epoch, found)
    assert fitness(epoch, found) == 0.0


def test_limits_leave_an_allocation() -> None:
    epoch = sampled_epoch(5, 60)
    assert fits(epoch, best_allocation(epoch, Limits(time_s=0.0)))


def test_the_factor_counts_restarts_against_age() -> None:
    assert restart_factor(0.0, 0) == 0.0
    assert restart_factor(970.0, 0) == 0.97
    assert restart_factor(970.0, 10) == 0.67
    assert restart_factor(300.0, 10) == 0.0
    assert restart_factor(300.0 + 1e-5, 10) == 0.0
    assert math.isclose(restart_factor(1e9, 1), 1.0, rel_tol=1e-6)
