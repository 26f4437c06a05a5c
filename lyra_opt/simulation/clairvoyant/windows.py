"""Improve a schedule window by window, with a short look ahead.

A change of one start shifts all later starts of a list schedule, mostly without benefit. So a
change is simulated only up to a horizon. Beyond the horizon, the GPUs that jobs hold cost what a
relaxation of the whole workload says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.simulation.clairvoyant.gangs import LATEST_US, MICROSECONDS, Capacity, Gangs
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from lyra_opt.simulation.clairvoyant.relaxation import Relaxation

WINDOWS = 100
"""Number of equal windows up to the last release."""
AHEAD = 3
"""Number of following windows that are simulated with each window."""
SHARES = (0.01, 0.05, 0.2)
"""Shares of the movable jobs that a random change moves."""
SPREADS = (0.005, 0.04, 0.15, 0.6)
"""Standard deviations of the moves, in windows."""
LARGE = 0.9
"""Quantile of the areas above which a job may be moved although it is not held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of list scheduling: the order of the jobs, and whether jobs are backfilled.

    Parameters
    ----------
    turn : array of jobs
        Priority of each job; the least goes first.
    backfills
        Whether jobs that do not fit are skipped.
    """

    turn: FloatArray
    backfills: bool


class WindowSearch:
    """A local search that improves the earliest starts of jobs, one time window after another.

    Parameters
    ----------
    gangs, capacity
        The jobs, and the number of GPUs over time.
    rule
        The rule of the list schedules.
    relaxation
        Provides the prices of GPUs that are held beyond the horizon.
    rng
        Random numbers for the changes.
    """

    def __init__(
        self,
        gangs: Gangs,
        capacity: Capacity,
        rule: Rule,
        relaxation: Relaxation,
        rng: np.random.Generator,
    ) -> None:
        self.gangs, self.rule, self.relaxation, self._rng = gangs, rule, relaxation, rng
        self.since_us, self.capacity = capacity.steps_us
        self._window_us = max(1, int(gangs.release_us.max()) // WINDOWS)
        self._is_large = gangs.area_gpu_s >= np.quantile(gangs.area_gpu_s, LARGE)
        self.evaluations = 0

    def improve(self, starts: Sequence[IntArray], tries: int) -> IntArray:
        """Return the improved earliest start of each job, in microseconds.

        Parameters
        ----------
        starts
            Vectors of earliest starts that are tried in each window; the first is the initial one.
        tries
            Random changes tried in each window; none after a time limit is used up.

        Notes
        -----
        Source: this project; a pilot method (Duin and Voss 1999) with prices as cost-to-go.
        Complexity: (tries + starts) list schedules of (1 + AHEAD) windows in each window.
        """
        gangs = self.gangs
        earliest_us = np.maximum(starts[0], gangs.release_us)
        start_us = np.full(len(gangs), -1)
        for window in range(WINDOWS + 1):
            now_us = window * self._window_us
            is_last = window == WINDOWS
            until_us = LATEST_US if is_last else now_us + self._window_us
            horizon_us = LATEST_US if is_last else until_us + AHEAD * self._window_us
            jobs = np.flatnonzero((start_us < 0) & (earliest_us < horizon_us))
            if len(jobs) == 0:
                continue
            part = _Part(self, jobs, start_us, now_us, horizon_us)
            part.attempt(earliest_us[jobs])
            for other_us in starts[1:]:
                part.attempt(other_us[jobs])
            for _ in range(tries):
                if is_out_of_time():
                    break
                part.attempt(self._moved(part.earliest_us, part.release_us, jobs))
            earliest_us[jobs] = part.earliest_us
            settled = part.start_us < until_us
            start_us[jobs[settled]] = part.start_us[settled]
        return earliest_us

    def _moved(self, earliest_us: IntArray, release_us: IntArray, jobs: IntArray) -> IntArray:
        """Return the earliest starts, with some starts moved at random."""
        rng = self._rng
        movable = np.flatnonzero((earliest_us > release_us) | self._is_large[jobs])
        if len(movable) == 0:
            movable = np.arange(len(jobs))
        share = SHARES[rng.integers(len(SHARES))]
        spread_us = SPREADS[rng.integers(len(SPREADS))] * self._window_us
        chosen = movable[rng.random(len(movable)) < share]
        if len(chosen) == 0:
            chosen = movable[[rng.integers(len(movable))]]
        moved = earliest_us.copy()
        moved[chosen] += (spread_us * rng.standard_normal(len(chosen))).astype(np.int64)
        return moved


class _Part:
    """A subproblem: the jobs of some time windows, on the GPUs that running jobs leave free."""

    def __init__(
        self, search: WindowSearch, jobs: IntArray, start_us: IntArray, now_us: int, horizon_us: int
    ) -> None:
        gangs = search.gangs
        self._search = search
        self._horizon_s = horizon_us / MICROSECONDS
        self._gpus = gangs.gpus[jobs]
        self._run_s = gangs.run_us[jobs] / MICROSECONDS
        self._turn = search.rule.turn[jobs]
        self.release_us = np.maximum(gangs.release_us[jobs], now_us)
        end_us = start_us + gangs.run_us
        runs = np.flatnonzero((start_us >= 0) & (end_us > now_us))
        since_us, gpus = search.since_us, search.capacity
        changes = np.diff(gpus, prepend=0)
        moments = np.concatenate((np.maximum(since_us, now_us), end_us[runs], [now_us]))
        changes = np.concatenate((changes, gangs.gpus[runs], [-gangs.gpus[runs].sum()]))
        moment_us, place = np.unique(moments, return_inverse=True)
        self._scheduler = ListScheduler(
            gpus=self._gpus,
            run_us=gangs.run_us[jobs],
            release_us=self.release_us,
            since_us=moment_us,
            capacity=np.cumsum(np.bincount(place, changes)).astype(np.int64),
        )
        self._least = np.inf
        self.earliest_us = self.start_us = self.release_us

    def attempt(self, earliest_us: IntArray) -> None:
        """Make a list schedule from earliest starts; keep them if no earlier ones were cheaper."""
        search = self._search
        earliest_us = np.maximum(earliest_us, self.release_us)
        found = self._scheduler.schedule(self._turn, earliest_us, backfills=search.rule.backfills)
        search.evaluations += 1
        start_s = found / MICROSECONDS
        end_s = start_s + self._run_s
        beyond_s = np.maximum(start_s, np.minimum(end_s, self._horizon_s))
        paid_until = search.relaxation.paid_until
        held = self._gpus * (paid_until(end_s) - paid_until(beyond_s))
        pays = float((start_s + held).sum())
        if pays <= self._least:
            self._least, self.earliest_us, self.start_us = pays, earliest_us, found
