"""Epochs that tests of Pollux's search share."""

from __future__ import annotations

import numpy as np

from lyra_opt.simulation.goodput.pollux import PolluxEpoch, restart_factor
from lyra_opt.simulation.goodput.tuning import TunedSpeed
from lyra_opt.simulation.workload import Job


def sampled_epoch(seed: int, jobs: int, *, scaling: str = "goodput") -> PolluxEpoch:
    """Return an epoch of elastic jobs as a cluster may have them, half of the range held now."""
    rng = np.random.default_rng(seed)
    speed = TunedSpeed(scaling, seed=seed)
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
