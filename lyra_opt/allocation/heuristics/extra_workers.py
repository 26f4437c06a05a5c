"""Phase 2 over time: the extra workers that reduce the remaining times of started jobs most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.exact.mckp_core import MckpCore
from lyra_opt.allocation.knapsack.data import Knapsack
from lyra_opt.core.result import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.allocation.instance import ElasticJob


def most_reduction(
    jobs: Sequence[ElasticJob], remaining_worker_s: Sequence[float], free_gpus: int
) -> list[int]:
    """Return the extra workers of each job, with the most sum of T(w_min) - T(w) that fits.

    Parameters
    ----------
    jobs
        Started jobs.
    remaining_worker_s
        The work that each of them has left; T is the time that it takes.
    free_gpus
        What their base demands leave.

    Notes
    -----
    Solved exactly, within 1e-9, by `MckpCore`.
    """
    if not jobs:
        return []
    extra = np.array([job.max_workers - job.min_workers for job in jobs], dtype=np.int64)
    size = np.array([job.gpus_per_worker for job in jobs], dtype=np.int64)
    extra = np.minimum(extra, free_gpus // size)
    start = np.concatenate(([0], np.cumsum(extra)))
    job_of = np.repeat(np.arange(len(jobs)), extra)
    workers = np.arange(len(job_of)) - start[job_of] + 1
    least = np.array([job.min_workers for job in jobs], dtype=np.float64)[job_of]
    gained = workers * np.array([1.0 - job.scaling_loss for job in jobs])[job_of]
    left = np.array(remaining_worker_s, dtype=np.float64)[job_of]
    knapsack = Knapsack(
        capacity=free_gpus,
        start=start.astype(np.int64),
        weight=workers * size[job_of],
        value=left * (gained / (least * (least + gained))),
    ).reduced()
    choice = MckpCore().choose(knapsack, Limits())
    chosen = knapsack.original(choice.chosen)
    return [int(workers[item]) if item >= 0 else 0 for item in chosen]
