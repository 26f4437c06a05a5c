"""All gangs of a simulation as arrays, so that what a placement rule decides on is made quickly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.network.heuristics.policy import RunningGangs, WaitingGangs
from lyra_opt.simulation.network.communication import SCATTERED_MODELS
from lyra_opt.simulation.network.sensitivity import network_sensitivity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.speed import Speed


class GangTable:
    """Every job of a workload, a row each, by order of submission.

    Parameters
    ----------
    runs
        Of all jobs.
    speed
        How fast they run.

    Notes
    -----
    `smallest_waiting` takes O(distinct gangs), `waiting_rows` O(jobs) on one byte each, all else
    O(gangs asked for).
    """

    def __init__(self, runs: Sequence[Run], speed: Speed) -> None:
        jobs = [run.job for run in runs]
        self.tier = np.zeros(len(jobs), np.int64)
        self._ids: Any = np.array([job.id for job in jobs], object)
        self.gang = np.array([job.min_gpus for job in jobs], np.int64)
        self.is_waiting = np.zeros(len(jobs), np.bool_)
        self._waiting_of_size: dict[int, int] = {}
        base_rates = [speed.unit_of(job).base_rate for job in jobs]
        self._base_rate = base_rates
        self._ideal_s = [run.work / rate for run, rate in zip(runs, base_rates, strict=True)]
        self._score, self._since_s, self._remaining_s, self._attained_gpu_s = np.zeros(
            (4, len(jobs))
        )
        self._needs_consolidation = np.array(
            [job.model is not None and job.model not in SCATTERED_MODELS for job in jobs]
        )
        self._weight = np.array([job.weight for job in jobs])
        self._zeros = np.zeros(len(jobs))

    def wait(self, run: Run, now_s: float) -> None:
        """Let a job wait from now on."""
        row = run.order
        ideal_s = self._ideal_s[row]
        remaining_s = run.left / self._base_rate[row]
        gang = run.job.min_gpus
        self.is_waiting[row] = True
        self._waiting_of_size[gang] = self._waiting_of_size.get(gang, 0) + 1
        self._score[row] = network_sensitivity(
            done_share=1.0 - remaining_s / ideal_s, running_s=run.running_s, ideal_s=ideal_s
        )
        self._since_s[row] = now_s
        self._remaining_s[row] = remaining_s
        self._attained_gpu_s[row] = run.running_s * gang

    def start(self, run: Run) -> None:
        """Let a job wait no more."""
        self.is_waiting[run.order] = False
        gang = run.job.min_gpus
        self._waiting_of_size[gang] -= 1
        if not self._waiting_of_size[gang]:
            del self._waiting_of_size[gang]

    def smallest_waiting(self) -> float:
        """Return the GPUs of the smallest gang that waits, infinite if none does."""
        return min(self._waiting_of_size, default=math.inf)

    def waiting_rows(self) -> np.ndarray:
        """Return who waits."""
        return np.flatnonzero(self.is_waiting)

    def waiting(self, rows: np.ndarray, efficiency: np.ndarray, now_s: float) -> WaitingGangs:
        """Return what a policy sees of jobs that wait, in order.

        Parameters
        ----------
        efficiency
            Of all jobs at each tier, shape (jobs, tiers).
        """
        # Of neighbours, and so of one alone, what never changes need not be copied.
        part: np.ndarray | slice = rows
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            part = slice(int(rows[0]), int(rows[-1]) + 1)
        return WaitingGangs(
            ids=self._ids[part],
            gang=self.gang[part],
            efficiency=efficiency[part],
            score=self._score.take(rows),
            waiting_s=now_s - self._since_s[part],
            weight=self._weight[part],
            remaining_s=self._remaining_s.take(rows),
            attained_gpu_s=self._attained_gpu_s.take(rows),
            needs_consolidation=self._needs_consolidation[part],
            rack_timer_s=self._zeros[: len(rows)],
            network_timer_s=self._zeros[: len(rows)],
        )

    def running(
        self, rows: np.ndarray, efficiency: np.ndarray, placements: Sequence[dict[int, int]]
    ) -> RunningGangs:
        """Return what a policy sees of jobs that run where they are placed."""
        return RunningGangs(
            ids=self._ids[rows],
            gang=self.gang[rows],
            efficiency=efficiency[rows],
            tier=self.tier[rows],
            placements=placements,
        )
