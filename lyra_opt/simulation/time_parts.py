"""Where the time of a job goes: its JCT as a sum of parts.

While a job runs at the rate r, below its best rate R (`lyra_opt.simulation.least_run`), each second
does what ``r / R`` seconds would do at best. The rest of it is lost, in this order: by its number
of workers, with which the best is R' instead of R; by the types of its GPUs, with which the best is
R'' with these workers; and by where they are:

    1 - r / R = (R - R') / R + (R' - R'') / R + (R'' - r) / R,  where r <= R'' <= R' <= R.

Copies count as workers, being on several types, or on own and borrowed GPUs, as the type, and
sharing GPUs with another job as where they are. What
a job is slowed by its number of workers is so told at the best types and places for that number.
A job does its work and what it loses of it at preemptions, so that its time is

    JCT = least run time + queuing + lost work / R + these three + pauses,

where pauses are times in which it holds GPUs and does nothing: restarts, a move's wait for the
hand-over of its own GPUs, and merges of copies. Copies that start or are merged at different times
pause for as much as they could have done. Jobs that are tuned while they run have the best rate of
tuned ones; where that changes with their progress, it is the best of all of it, and what they lose
before counts as by where they are.

Source: this project.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.simulation.least_run import BestRates
    from lyra_opt.simulation.run import Run

FloatArray = NDArray[np.float64]


def note_slowness(run: Run, best_rates: BestRates) -> None:
    """Add up what a job has lost by running below its best rate since its rate was set; O(1)."""
    rates, copies = run.best_rates, run.copies
    ran_s = run.running_s - run.rated_s
    if copies is None:
        rate = placed = run.rate
        with_workers = rates.of_workers[run.workers - rates.least_workers]
        if run.beside is not None or best_rates.tells_near_from_far(run.job):
            placed = min(max(rate, best_rates.where_placed(run)), with_workers)
    else:
        rate = placed = math.fsum(copies.rates)
        with_workers = rates.of_copies[len(copies.rates) - 1]
        worked_s = (copies.left - run.left) / rate
        run.idle_copies_s += ran_s - worked_s
        ran_s = worked_s
    share_s = ran_s / rates.best
    run.fewer_workers_s += (rates.best - with_workers) * share_s
    run.slower_type_s += (with_workers - placed) * share_s
    run.slower_placement_s += (placed - rate) * share_s


def time_parts(runs: Sequence[Run]) -> Mapping[str, FloatArray]:
    """Return the parts of the JCT of jobs that are complete, float64, shape (jobs,) each.

    By name, in the order of pictures: ``least_run_s``, ``queue_first_s`` (before a job starts),
    ``queue_again_s`` (after it has started), ``lost_work_s``, ``fewer_workers_s``,
    ``slower_type_s``, ``slower_placement_s``, ``pause_s``.
    """

    def column(name: str) -> FloatArray:
        return np.array([getattr(run, name) for run in runs], np.float64)

    best = np.array([run.best_rates.best for run in runs])
    first_s = column("start_s") - np.array([run.job.submit_s for run in runs])
    return {
        "least_run_s": column("work") / best,
        "queue_first_s": first_s,
        "queue_again_s": column("queued_s") - first_s,
        "lost_work_s": column("lost_work") / best,
        **{
            name: column(name)
            for name in ("fewer_workers_s", "slower_type_s", "slower_placement_s")
        },
        "pause_s": column("paused_s") + column("idle_copies_s"),
    }
