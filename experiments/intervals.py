"""Confidence intervals of means."""

import math
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
RESAMPLES_AT_ONCE = 100
BOOTSTRAP_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """How bootstrap draws are made from the days of a workload.

    Parameters
    ----------
    days
        Number of days of each draw.
    block_days
        Number of consecutive days that are drawn together.
    source_days
        Number of days of the workload.
    source
        Fingerprint of the jobs of the workload.
    """

    days: int
    block_days: int
    source_days: int
    source: int

    def interval(self, values: np.ndarray) -> tuple[float, float]:
        """Return the confidence interval of a mean over traces of `days` days.

        ``values`` is the mean in each of at least two draws. More draws do not make the interval
        shrink towards a point, because all draws are made from the same days. With R draws, whose
        variance is s², and n blocks in the workload, the estimated variance of their mean is

            s² (n / (n - 1) · days / source_days + 1 / R).

        The first term is the sampling variance of the workload. A workload longer than a draw
        tells more than one draw does: at least in proportion to its days (Hoeffding 1948, theorem
        5.2). Resampling n blocks underestimates a variance by (n - 1) / n (Hesterberg 2015). The
        second term comes from the number of draws. The quantile is Student's, with degrees of
        freedom f from 1/f = 1/(R - 1) + 1/(n - 1). The interval is infinite with fewer than two
        blocks.
        """
        from scipy import stats

        blocks = self.source_days / self.block_days
        mean = float(np.mean(values))
        if np.all(values == values[0]):
            return mean, mean
        if blocks < 2:
            return -math.inf, math.inf
        draws = len(values)
        share = blocks / (blocks - 1) * self.days / self.source_days + 1 / draws
        freedom = 1 / (1 / (draws - 1) + 1 / (blocks - 1))
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
        half = quantile * float(np.std(values, ddof=1)) * math.sqrt(share)
        return mean - half, mean + half


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
