"""Generated days with a known mean difference, to measure how often intervals cover it."""

from __future__ import annotations

import numpy as np

from lyra_opt.experiments.intervals import Resampling
from lyra_opt.instances.workloads.lyra_like import drawn_days, usual_block_days

JOBS_PER_DAY = 20
WARM_UP_DAYS = 30


def days_with_differences(
    generator: np.random.Generator, days: int, correlation: float, *, is_skewed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of jobs of each day, and the mean difference of its jobs; its mean is 0.

    ``correlation`` is that between a day and the next. The differences are normal, or log-normal.
    """
    noise = generator.normal(size=WARM_UP_DAYS + days)
    values = np.zeros(len(noise))
    for day in range(1, len(noise)):
        values[day] = correlation * values[day - 1] + noise[day]
    values = values[WARM_UP_DAYS:] * np.sqrt(1 - correlation**2)
    if is_skewed:
        values = np.exp(values) - np.exp(0.5)
    return 1 + generator.poisson(JOBS_PER_DAY, days), values


def coverage(
    source_days: int,
    days: int,
    draws: int,
    *,
    correlation: float,
    is_skewed: bool,
    repetitions: int,
    seed: int = 0,
) -> float:
    """Return the share of generated traces whose interval contains the true mean difference."""
    generator = np.random.default_rng(seed)
    block_days = usual_block_days(source_days)
    resampling = Resampling(days=days, block_days=block_days, source_days=source_days, source=0)
    covered = 0
    for repetition in range(repetitions):
        jobs, differences = days_with_differences(
            generator, source_days, correlation, is_skewed=is_skewed
        )
        chosen = [
            drawn_days(
                source_days, days=days, block_days=block_days, seed=draws * repetition + number
            )
            for number in range(draws)
        ]
        means = [np.average(differences[each], weights=jobs[each]) for each in chosen]
        low, high = resampling.interval(np.array(means))
        covered += low <= 0 <= high
    return covered / repetitions
