"""In which ways a job may run: where, on how many GPUs, and how fast.

A way stands for all that a job may do on GPUs of a pool, or of several of which that pool's are
the cheapest at the moment: a gang on unlike GPUs keeps the pace of the slowest, so that all of
it could as well be on the cheapest ones among those that are no slower. One that reaches the mean
of its GPUs, times the mixed efficiency, does what it would do if it were on each of them alone in
turn, at that efficiency, for as much of the time as it has workers there. With k workers it is only
listed for the fewest and the most that find room: what lies between is a mixture of both in time,
as work grows no faster than workers do. Where distance costs, every k is listed.

Copies of a job run on a server each, all at once if they like: a way of each pool, which add up.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.pricing.kernel import PricedJobs
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.least_run import BestRates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from lyra_opt.simulation.least_run import Place
    from lyra_opt.simulation.speed import Speed
    from lyra_opt.simulation.workload import Job, Workload

    FloatArray = NDArray[np.float64]


def runs_in_one_piece(job: Job, reading: Reading) -> bool:
    """Whether the last run of a job is all of it, on one pool."""
    return reading is Reading.RESTART and not (
        job.checkpoints or job.is_elastic or job.heterogeneous
    )


class Way(NamedTuple):
    """GPUs of a pool, and the work that a job does on them a second, in its unit."""

    pool: int
    gpus: int
    rate: float


def ways_of(job: Job, rates: BestRates) -> list[Way]:
    """Return the ways of a job that the cluster can run."""
    return _undominated([way for place in rates.places(job) for way in _ways_at(job, rates, place)])


def copies_of(job: Job, rates: BestRates) -> list[Way]:
    """Return ways of a job that add up, on all servers at once; none where it has no copies.

    A copy, and those on all other servers that are alike: whoever holds one copy does not wait.
    That a server with GPUs of several types runs one copy is left out.
    """
    found = [
        Way(way.pool, way.gpus * copies, way.rate * copies)
        for place, count in rates.places_of_copies(job)
        for way in _undominated([*_ways_at(job, rates, place, is_copy=True)])
        for copies in (1, count - 1)
        if copies
    ]
    if not found:
        return []
    # A gang that is no copy adds up too, unless one copy does as much on no more GPUs.
    return found + [
        way
        for way in ways_of(job, rates)
        if not any(
            copy.pool == way.pool and copy.gpus <= way.gpus and copy.rate >= way.rate
            for copy in found
        )
    ]


def _ways_at(job: Job, rates: BestRates, place: Place, *, is_copy: bool = False) -> Iterator[Way]:
    """Yield the ways of a job on the GPUs of some pools; see the module."""
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
        # The slowest that must help out where the fastest are too few.
        last = int(np.searchsorted(there, count))
        for number, room in enumerate(rooms):
            pace = room.pace if number >= last else rooms[last].pace
            if mixes:
                pace = room.pace * (1.0 if count <= room.workers else rates.mixed_efficiency)
            if pace > 0:
                yield Way(
                    room.pool,
                    count * room.gpus_per_worker,
                    float(scaled[which] * pace * efficiency[which]),
                )


def _undominated(ways: list[Way]) -> list[Way]:
    """Return the fastest way of each pool and number of GPUs, none slower on more of them."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda each: (each.pool, each.gpus, -each.rate)):
        if not kept or kept[-1].pool != way.pool or way.rate > kept[-1].rate:
            kept.append(way)
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
    """Return the jobs as the kernel takes them; times are from the first submission on.

    Parameters
    ----------
    workload, speed, reading, copy_efficiency
        As of `lyra_opt.simulation.bounds.whole.whole_bound`.
    borrows
        Whether jobs may be on servers that can be lent.
    weight : array of jobs
        What each counts for.
    border_s : array of cells + 1
        Begins of cells and the horizon.
    """
    rates = BestRates(speed, borrows=borrows, copy_efficiency=copy_efficiency)
    known: dict[object, tuple[list[Way], bool]] = {}
    first, pool, gpus, rate = [0], [], [], []
    adds, is_contiguous = [], []
    for job in workload.jobs:
        key = rates.shape_of(job)
        if key not in known:
            copies = copies_of(job, rates)
            known[key] = copies or ways_of(job, rates), bool(copies)
        ways, has_copies = known[key]
        work = speed.unit_of(job).work
        for way in ways:
            pool.append(way.pool)
            gpus.append(way.gpus)
            rate.append(way.rate / work)
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
