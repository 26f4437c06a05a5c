"""List schedules of gangs, one after the other on the same space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.clairvoyant.list_kernel import ASIDE, Space, Turns, Work, list_schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.simulation.clairvoyant.gangs import Capacity, Gangs

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

STEPS_A_JOB = 50
"""Elementary steps that a job takes, about."""


class ListScheduler:
    """Makes list schedules of the same jobs.

    Parameters
    ----------
    gangs
        The jobs.
    capacity
        The GPUs that there are.
    """

    def __init__(self, gangs: Gangs, capacity: Capacity) -> None:
        self._gangs = gangs
        jobs = len(gangs)
        kind_gpus, kind = np.unique(gangs.gpus, return_inverse=True)
        since, gpus = capacity.steps_us
        of_kind = np.bincount(kind)
        self._work = Work(
            gpus=gangs.gpus,
            run=gangs.run_us,
            kind=kind.astype(np.int64),
            kind_gpus=kind_gpus,
            first=np.cumsum(of_kind) - of_kind,
            since=since,
            capacity=gpus,
        )
        self._space = Space(
            heap=np.zeros(jobs, dtype=np.int64),
            size=np.zeros(len(kind_gpus), dtype=np.int64),
            end=np.zeros(jobs, dtype=np.int64),
            freed=np.zeros(jobs, dtype=np.int64),
            held=np.zeros(len(since), dtype=np.int64),
            aside=np.zeros(ASIDE, dtype=np.int64),
        )
        self._starts = np.zeros(jobs, dtype=np.int64)

    def schedule(
        self, turn: FloatArray, earliest_us: IntArray | None = None, *, backfills: bool = True
    ) -> IntArray:
        """Return the starts of all jobs in microseconds.

        Parameters
        ----------
        turn : array of jobs
            Least goes first; ties in file order.
        earliest_us : array of jobs
            Before which a job does not start, if that is later than its release.
        backfills
            Whether jobs for which there is no room are passed over; else all wait for the first.

        Raises
        ------
        UserError
            If there is never room for a job when its turn comes.

        Notes
        -----
        Source: list scheduling (Graham 1969). Complexity O(jobs * (log jobs + kinds) + steps that
        begin while jobs run), where a kind is a number of GPUs; jobs passed over because the
        capacity falls before they would complete are at most `ASIDE` at a moment. A schedule of
        80,000 jobs takes 20 ms. Guarantee: none with releases and gangs.
        """
        gangs = self._gangs
        jobs = len(gangs)
        earliest = gangs.release_us
        if earliest_us is not None:
            earliest = np.maximum(earliest, earliest_us)
        order = np.argsort(turn, kind="stable")
        rank = np.empty(jobs, dtype=np.int64)
        rank[order] = np.arange(jobs)
        arrivals = np.argsort(earliest, kind="stable")
        found = list_schedule.run(
            self._work,
            Turns(order, rank, earliest, arrivals),
            int(backfills),
            self._space,
            self._starts,
            work=STEPS_A_JOB * jobs,
            largest=int(earliest.max()) + int(gangs.run_us.sum()),
        )
        start_us = np.array(found, dtype=np.int64)
        never = np.flatnonzero(start_us < 0)
        if len(never):
            gpus = int(gangs.gpus[never[0]])
            raise UserError(f"there is never room for job {never[0]}, which needs {gpus} GPUs")
        return start_us
