"""Epochs that tests of Pollux's search share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.simulation.goodput.pollux import PolluxEpoch, restart_factor
from lyra_opt.simulation.goodput.tuning import TunedSpeed
from lyra_opt.simulation.workload import Job

if TYPE_CHECKING:
    from lyra_opt.allocation.knapsack.data import IntArray


def sampled_epoch(seed: int, jobs: int) -> PolluxEpoch:
    """Return an epoch of elastic jobs as a cluster may have them, half of the range held now."""
    rng = np.random.default_rng(seed)
    speed = TunedSpeed(seed=seed)
    drawn = []
    for number in range(jobs):
        base = int(2 ** rng.integers(0, 5))
        drawn.append(
            Job(
                id=f"job-{number}",
                submit_s=0.0,
                work_worker_s=float(rng.lognormal(11, 2)),
                min_workers=base,
                max_workers=2 * base + int(rng.integers(0, 3)),
                gpus_per_worker=int(rng.choice((1, 1, 1, 2))),
            )
        )
    size = np.array([job.gpus_per_worker for job in drawn], dtype=np.int64)
    most = np.array([job.max_workers - job.min_workers for job in drawn], dtype=np.int64)
    current = rng.integers(0, most + 1) * (rng.random(jobs) < 0.5)
    gpus = int((current * size).sum() + rng.integers(0, 2 * jobs))
    total = gpus + sum(job.min_gpus for job in drawn)
    speed_ups = tuple(
        speed.rates(job) / speed.rate(job, -(-total // (jobs * job.gpus_per_worker)))
        for job in drawn
    )
    factors = [
        restart_factor(float(rng.exponential(20000)), int(rng.integers(0, 9))) for _ in drawn
    ]
    return PolluxEpoch(
        gpus=gpus,
        speed_ups=speed_ups,
        gpus_per_worker=size,
        current=current,
        restart_factor=np.array(factors),
    )


def fits(epoch: PolluxEpoch, extra: IntArray) -> bool:
    """Whether so many workers of each job fit."""
    return bool(
        np.all((extra >= 0) & (extra <= epoch.most))
        and int((extra * epoch.gpus_per_worker).sum()) <= epoch.gpus
    )


def fitness(epoch: PolluxEpoch, extra: IntArray) -> float:
    """Return the fitness of an allocation as Pollux writes it, without the costs of the epoch."""
    effective = [
        float(table[k]) * (1.0 if k == now else float(factor))
        for table, k, now, factor in zip(
            epoch.speed_ups, extra.tolist(), epoch.current, epoch.restart_factor, strict=True
        )
    ]
    if not effective or min(effective) == 0:
        return 0.0
    return float(np.mean(np.array(effective) ** -1.0) ** -1.0)
