"""Confidence intervals of means."""

from __future__ import annotations

import numpy as np

CONFIDENCE = 0.95
RESAMPLES_AT_ONCE = 100
BOOTSTRAP_SEED = 0


def student_interval(values: np.ndarray) -> tuple[float, float]:
    """Return Student's confidence interval for the mean of at least two values."""
    from scipy import stats

    if np.all(values == values[0]):
        return float(values[0]), float(values[0])
    mean, error = float(np.mean(values)), float(stats.sem(values))
    low, high = stats.t.interval(CONFIDENCE, len(values) - 1, loc=mean, scale=error)
    return float(low), float(high)


def bootstrap_interval(values: np.ndarray, resamples: int) -> tuple[float, float]:
    """Return a percentile bootstrap interval for the mean of some values, with a fixed seed."""
    from scipy import stats

    if len(values) < 2 or np.all(values == values[0]):
        mean = float(np.mean(values))
        return mean, mean
    interval = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        batch=RESAMPLES_AT_ONCE,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    ).confidence_interval
    return float(interval.low), float(interval.high)
