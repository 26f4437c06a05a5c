"""The schedule of somebody who knows a whole workload, where its jobs can be gangs on own GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.simulation.clairvoyant.best import CheckedSchedule, best_schedule
from lyra_opt.simulation.clairvoyant.gangs import Capacity, Gangs
from lyra_opt.simulation.least_run import least_run_s

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lyra_opt.simulation.speed import Speed
    from lyra_opt.simulation.workload import Workload


def obstacle(workload: Workload, speed: Speed) -> str | None:
    """Return why no schedule is searched for a workload, in a clause; None if one is.

    A schedule is one of GPUs by their number, so that every worker has to be a GPU; and what a job
    holds is always the same, at its best rate.
    """
    cluster = speed.cluster
    if len(cluster.pools) > 1:
        return "there are GPUs of several kinds, or on loan"
    if speed.communication is not None:
        return "distance costs speed"
    for job in workload.jobs:
        if job.gpus_per_worker > 1:
            return f"a worker of job {job.id} has several GPUs, which belong together"
        if job.is_elastic:
            return f"job {job.id} is elastic"
        if job.measured is not None:
            return f"the speed of job {job.id} was measured"
    return None


def schedule_of(
    workload: Workload, speed: Speed, border_s: NDArray[np.float64], *, seed: int = 0
) -> CheckedSchedule:
    """Return the best schedule found of a workload without an `obstacle`; see `best_schedule`.

    Parameters
    ----------
    workload
        What is submitted.
    speed
        How fast jobs run on their cluster.
    border_s : array of cells + 1
        Begins of the cells within which a price stands, from 0, and the horizon.
    seed
        Of the search.
    """
    first_s = workload.jobs[0].submit_s
    gangs = Gangs.of(
        release_s=[job.submit_s - first_s for job in workload.jobs],
        run_s=least_run_s(workload, speed, borrows=False),
        gpus=[job.min_gpus for job in workload.jobs],
    )
    return best_schedule(gangs, Capacity.constant(speed.cluster.gpus), border_s, seed=seed)
