"""How much is asked of a cluster, day by day, before anything is simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.experiments.simulation.setup import DAY_S
from lyra_opt.simulation.speed import Speed

if TYPE_CHECKING:
    from lyra_opt.experiments.simulation.setup import Setup


@dataclass(frozen=True, slots=True)
class DayOfDemand:
    """A day of submissions.

    Parameters
    ----------
    load
        Work submitted on it, as a share of what all GPUs can do in a day.
    backlog_days
        Days that all GPUs need, after it, for what is left of all submissions until then even if
        none ever idles.
    """

    load: float
    backlog_days: float


def demand_by_day(setup: Setup) -> list[DayOfDemand]:
    """Return how much is submitted on each day, counted from the first submission.

    A lower bound on what becomes of the cluster: each job counts what it takes on the GPUs that
    suit it best, and GPUs on loan count as own ones of their speed. Time O(jobs + days).
    """
    workload, cluster = setup.workload, setup.cluster
    first_s = workload.jobs[0].submit_s
    days = max(1, math.ceil(workload.submission_span_s / DAY_S))
    speed = Speed(cluster)
    # Jobs that were measured nowhere run everywhere as fast as the GPUs are: their work is counted
    # on the reference GPU, and so is what the GPUs can do.
    is_measured = any(job.measured is not None for job in workload.jobs)
    work_gpu_s = np.zeros(days)
    for job in workload.jobs:
        place = min(days - 1, int((job.submit_s - first_s) // DAY_S))
        work_gpu_s[place] += (
            speed.least_gpu_s(job) if is_measured else job.work_worker_s * job.gpus_per_worker
        )
    own_gpus: float = cluster.gpus
    if not is_measured:
        own_gpus = sum(
            count * cluster.type_of[name].relative_speed for name, count in cluster.own_gpus.items()
        )
    capacity_gpu_s = np.full(days, own_gpus * DAY_S, dtype=float)
    if setup.plan is not None:
        capacity_gpu_s += _lent_gpu_s(setup, days)
    found = []
    backlog_gpu_s = 0.0
    for submitted, capacity in zip(work_gpu_s, capacity_gpu_s, strict=True):
        backlog_gpu_s = max(0.0, backlog_gpu_s + submitted - capacity)
        found.append(DayOfDemand(float(submitted / capacity), float(backlog_gpu_s / capacity)))
    return found


def _lent_gpu_s(setup: Setup, days: int) -> np.ndarray:
    """Return what GPUs on loan can do on each day, in seconds of own GPUs."""
    plan, cluster = setup.plan, setup.cluster
    lent = cluster.lent_type
    assert plan is not None, "there are loans"
    assert lent is not None, "there are loans"
    gpus_of_server = cluster.inference_gpus / cluster.inference_servers
    found = np.zeros(days)
    for tick, servers in enumerate(plan.on_loan):
        place = int(tick * plan.interval_s // DAY_S)
        if place >= days:
            break
        found[place] += servers * plan.interval_s
    return found * gpus_of_server * lent.relative_speed
