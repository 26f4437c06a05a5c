"""The execution modes of a job: on which pool it runs, on how many GPUs, and how fast.

A mode represents everything that a job may do on GPUs of one pool, or of several pools among which
this pool is currently the cheapest. A gang on GPUs of different speeds runs at the speed of the
slowest, so all of it could as well be on the cheapest of the GPUs that are at least that fast. A
heterogeneous job runs at the mean speed of its GPUs times the mixed efficiency. That equals running
entirely on each pool in turn, at that efficiency, for a share of the time equal to its share of the
workers. Only the fewest and the most workers that fit are listed: the rate grows at most linearly
with the workers, so numbers in between are mixtures of both over time. If distance matters, every
number of workers is listed.

Copies of a job run on a server each, possibly all at once: they have one mode for each pool, and
these modes add up.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from lyra_opt.core.arrays import FloatArray
from lyra_opt.pricing.kernel import PricedJobs
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.least_run import BestRates, Place
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job, Workload


def runs_in_one_piece(job: Job, reading: Reading) -> bool:
    """Return whether a bound may assume that a job does all its work in one uninterrupted run."""
    return reading is Reading.RESTART and not (
        job.checkpoints or job.is_elastic or job.heterogeneous
    )


class Mode(NamedTuple):
    """An execution mode: a number of GPUs of one pool, and a job's work per second on them."""

    pool: int
    gpus: int
    rate: float


def modes_of(job: Job, rates: BestRates) -> list[Mode]:
    """Return the execution modes of a job that fits the cluster."""
    modes = (mode for place in rates.places(job) for mode in _modes_at(job, rates, place))
    return _undominated(list(modes))


def copies_of(job: Job, rates: BestRates) -> list[Mode]:
    """Return the execution modes of a job's copies, whose rates add up; empty without copies.

    The modes are one copy, and the copies on all other identical servers together, because a job
    that holds one copy is not waiting. That a server with several GPU types runs only one copy is
    ignored.
    """
    found = [
        Mode(mode.pool, mode.gpus * copies, mode.rate * copies)
        for place, count in rates.places_of_copies(job)
        for mode in _undominated([*_modes_at(job, rates, place, is_copy=True)])
        for copies in (1, count - 1)
        if copies
    ]
    if not found:
        return []
    # A single gang is added as a mode, unless copies are as fast with at most as many GPUs.
    return found + [
        mode
        for mode in modes_of(job, rates)
        if not any(
            copy.pool == mode.pool and copy.gpus <= mode.gpus and copy.rate >= mode.rate
            for copy in found
        )
    ]


def _modes_at(job: Job, rates: BestRates, place: Place, *, is_copy: bool = False) -> Iterator[Mode]:
    """Yield the execution modes (pool, GPUs, rate) of a job on one set of GPUs.

    See the docstring of the module.
    """
    rooms = sorted(place.rooms, key=attrgetter("pace"), reverse=True)
    if not rooms:
        return
    there = np.cumsum([room.workers for room in rooms])
    mixes = rates.mixes(job)
    if is_copy:
        counts = [job.min_workers] if there[-1] >= job.min_workers else []
    elif rates.is_concave:
        ends = {int(count) for count in there} | {room.workers for room in rooms}
        counts = sorted(
            {job.min_workers, *(min(count, job.max_workers) for count in ends)}
            & set(range(job.min_workers, min(job.max_workers, int(there[-1])) + 1))
        )
    else:
        counts = list(range(job.min_workers, min(job.max_workers, int(there[-1])) + 1))
    if not counts:
        return
    workers = np.array(counts)
    scaled = rates.scaled(job, workers)
    efficiency = np.array(
        [
            np.broadcast_to(
                rates.efficiency(job, workers * room.gpus_per_worker, place.is_spread),
                workers.shape,
            )
            for room in rooms
        ]
    ).max(axis=0)
    for which, count in enumerate(counts):
        # Index of the slowest pool that is needed for this number of workers.
        last = int(np.searchsorted(there, count))
        for number, room in enumerate(rooms):
            pace = room.pace if number >= last else rooms[last].pace
            if mixes:
                pace = room.pace * (1.0 if count <= room.workers else rates.mixed_efficiency)
            if pace > 0:
                yield Mode(
                    room.pool,
                    count * room.gpus_per_worker,
                    float(scaled[which] * pace * efficiency[which]),
                )


def _undominated(modes: list[Mode]) -> list[Mode]:
    """Return the modes that are faster than every mode on fewer GPUs of the same pool."""
    kept: list[Mode] = []
    for mode in sorted(modes, key=lambda each: (each.pool, each.gpus, -each.rate)):
        if not kept or kept[-1].pool != mode.pool or mode.rate > kept[-1].rate:
            kept.append(mode)
    return kept


def priced_jobs(
    workload: Workload,
    speed: Speed,
    *,
    reading: Reading,
    borrows: bool,
    copy_efficiency: Sequence[float] | None,
    weight: FloatArray,
    border_s: FloatArray,
) -> PricedJobs:
    """Return the jobs and their execution modes as arrays, to compute their cheapest schedules.

    Times are relative to the first submission.

    Parameters
    ----------
    workload, speed, reading, copy_efficiency
        See `lyra_opt.simulation.bounds.whole.whole_bound`.
    borrows
        Whether jobs may run on borrowed servers.
    weight : array of jobs
        Weight of each job.
    border_s : array of cells + 1
        Begins of the time intervals (cells) and the horizon.
    """
    rates = BestRates(speed, borrows=borrows, copy_efficiency=copy_efficiency)
    known: dict[object, tuple[list[Mode], bool]] = {}
    first, pool, gpus, rate = [0], [], [], []
    adds, is_contiguous = [], []
    for job in workload.jobs:
        key = rates.shape_of(job)
        if key not in known:
            copies = copies_of(job, rates)
            known[key] = copies or modes_of(job, rates), bool(copies)
        modes, has_copies = known[key]
        work = speed.unit_of(job).work
        for mode in modes:
            pool.append(mode.pool)
            gpus.append(mode.gpus * speed.share_on(job, mode.pool))
            rate.append(mode.rate / work)
        first.append(len(pool))
        adds.append(has_copies)
        is_contiguous.append(runs_in_one_piece(job, reading) and not has_copies)
    release_s = np.array([job.submit_s for job in workload.jobs]) - workload.jobs[0].submit_s
    cell = np.searchsorted(border_s, release_s, side="right") - 1
    return PricedJobs(
        release_s=release_s,
        weight=weight,
        is_contiguous=np.array(is_contiguous, dtype=np.int64),
        adds=np.array(adds, dtype=np.int64),
        first=np.array(first),
        pool=np.array(pool),
        gpus=np.array(gpus, dtype=float),
        rate=np.array(rate),
        cell=cell,
    )
