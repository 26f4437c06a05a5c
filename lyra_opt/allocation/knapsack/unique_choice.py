"""The best choice of a knapsack of one-GPU workers, if a short comparison proves it unique."""

import numpy as np

from lyra_opt.allocation.knapsack.of_instance import JobArrays
from lyra_opt.core.arrays import IntArray
from lyra_opt.core.result import RELATIVE_TOLERANCE

MARGIN = 3 * RELATIVE_TOLERANCE
"""Least distance to any other choice, as a share of the best value; rounding needs far less."""


def unique_choice(jobs: JobArrays, gpus: int) -> IntArray | None:
    """Return the extra workers of each job if one choice is certainly best; None if unknown.

    The objective is `lyra_opt.allocation.instance.Objective.JCT_REDUCTION`, with at least one
    worker to add. If each worker has one GPU, the largest gains of single workers are an optimal
    choice, because the running time is convex in the workers: each extra worker of a job gains less
    than the one before. Any other choice lacks one of these gains, and has at best the largest of
    the other gains instead. If this loses more than `MARGIN`, every solver that proves its answers
    within `RELATIVE_TOLERANCE` returns this choice.

    Parameters
    ----------
    gpus
        GPUs for extra workers; at least 1.

    Notes
    -----
    Complexity O(extra workers of all jobs).
    """
    if (jobs.gpus_per_worker > 1).any():
        return None
    counts = np.minimum(jobs.max_workers - jobs.min_workers, gpus)
    job = np.repeat(np.arange(len(counts)), counts)
    earlier = np.arange(len(job)) - (np.cumsum(counts) - counts)[job]
    added = jobs.speed_up[job]
    rate = jobs.min_workers[job] + earlier * added
    gains_s = jobs.work[job] * added / (rate * (rate + added))
    others = max(0, len(gains_s) - gpus)
    gains = np.partition(gains_s, (max(0, others - 1), others))
    least_s, lost_s = gains[others], gains[others]
    if others:
        lost_s = least_s - gains[others - 1]
    if not lost_s > MARGIN * gains[others:].sum():
        return None
    return np.bincount(job[gains_s >= least_s], minlength=len(counts))
