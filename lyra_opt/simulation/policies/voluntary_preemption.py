"""When running jobs are stopped for waiting ones: for the sake of the mean, within a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from typing import TYPE_CHECKING

from lyra_opt.core.rules import require_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.best_fit import PoolRoom
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.view import View

HOUR_S = 3600.0

MOST_TRIED = 16
"""Waiting jobs for which others are looked for at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoluntaryPreemption:
    """A job that has waited long takes the GPUs of jobs that have much more left than it.

    Only of jobs that come after it in the queue, so that they do not take them back at once.

    Parameters
    ----------
    budget
        Preemptions for each job submitted so far, those by calls for servers on loan counted too;
        at least 0.
    waited_run_times
        For how many of its run times a job has waited at least; at least 0.
    area_ratio
        How many times the GPU-seconds that a waiting job has left a stopped one has left at least;
        at least 1.
    least_left_h
        Hours that a stopped job has left at least; at least 0.
    lost_share
        GPU-seconds that a stopped job loses, which has no checkpoint, as a share of what the
        waiting one has left, at most; at least 0.
    interval_s
        Seconds between two times at which jobs are stopped, at least; at least 0.

    Notes
    -----
    Source: this project.
    """

    budget: float = 0.1
    waited_run_times: float = 1.0
    area_ratio: float = 2.0
    least_left_h: float = 1.0
    lost_share: float = 0.1
    interval_s: float = 300.0

    def __post_init__(self) -> None:
        for name in ("budget", "waited_run_times", "least_left_h", "lost_share", "interval_s"):
            require_number(name, getattr(self, name), minimum=0)
        require_number("area_ratio", self.area_ratio, minimum=1)

    def pays(
        self, *, waiting_gpu_s: float, left_gpu_s: float, left_s: float, lost_gpu_s: float
    ) -> bool:
        """Whether a job may be stopped for a waiting one.

        Parameters
        ----------
        waiting_gpu_s
            What the waiting job has left.
        left_gpu_s, left_s
            What the other has left, in GPU-seconds and, on its base demand, in seconds.
        lost_gpu_s
            What it would lose.
        """
        return (
            left_gpu_s >= self.area_ratio * waiting_gpu_s
            and left_s >= self.least_left_h * HOUR_S
            and lost_gpu_s <= self.lost_share * waiting_gpu_s
        )


class PreemptionsInBudget:
    """Who has waited long enough in a run, and whom to stop for him.

    Parameters
    ----------
    rule
        When that pays.
    comes_before
        Whether one job comes before another in the queue.
    """

    def __init__(
        self, rule: VoluntaryPreemption, comes_before: Callable[[JobRun, JobRun], bool]
    ) -> None:
        self._rule, self._comes_before = rule, comes_before
        self._submitted = self._stopped = 0
        self._next_s = -math.inf
        self._patient: list[tuple[float, int, float, JobRun]] = []
        self._impatient: dict[int, tuple[float, JobRun]] = {}

    def waits(self, run: JobRun, now_s: float, run_time_s: float) -> None:
        """Take note of a job that is submitted, or was stopped."""
        if run.losses:
            self._stopped += 1
        else:
            self._submitted += 1
        at_s = now_s + self._rule.waited_run_times * run_time_s
        heappush(self._patient, (at_s, run.order, now_s, run))

    @property
    def left(self) -> int:
        """How many jobs may be stopped now."""
        return max(0, int(self._rule.budget * self._submitted) - self._stopped)

    def impatient(self, view: View) -> list[JobRun]:
        """Return who has waited long enough, the least GPU-seconds first; nobody if it is early.

        At most `MOST_TRIED`.
        """
        now_s = view.now_s
        if now_s < self._next_s or not self.left:
            return []
        self._next_s = now_s + self._rule.interval_s
        while self._patient and self._patient[0][0] <= now_s:
            _, order, since_s, run = heappop(self._patient)
            self._impatient[order] = since_s, run
        self._impatient = {
            order: (since_s, run)
            for order, (since_s, run) in self._impatient.items()
            if run.waiting_since_s == since_s
        }
        runs = [run for _, run in self._impatient.values()]
        return nsmallest(MOST_TRIED, runs, key=lambda run: (view.left_gpu_s(run), run.order))

    def stopped_for(self, view: View, run: JobRun, room: PoolRoom) -> list[JobRun]:
        """Return whom to stop in a pool of own servers so that a waiting job has room; O(running).

        One job, if one is enough, of which least is lost and most is left; else the widest ones.
        Empty if there are none.
        """
        job, rule = run.job, self._rule
        waiting_gpu_s = view.left_gpu_s(run)
        needed = job.min_gpus - view.hosts.free_of_pool[room.number]
        found: list[tuple[float, float, int, JobRun]] = []
        for other in view.running.values():
            if len(other.parts) > 1 or other.parts[0].pool != room.number:
                continue
            view.account(other)
            lost_gpu_s = view.lost_gpu_s(other)
            left_gpu_s = view.left_gpu_s(other)
            left_s = left_gpu_s / other.job.min_gpus
            if rule.pays(
                waiting_gpu_s=waiting_gpu_s,
                left_gpu_s=left_gpu_s,
                left_s=left_s,
                lost_gpu_s=lost_gpu_s,
            ) and self._comes_before(run, other):
                found.append((lost_gpu_s, -left_gpu_s, other.order, other))
        enough = [each for each in found if each[3].held_gpus >= needed]
        if enough:
            stopped = [min(enough)[3]]
        else:
            stopped = []
            for each in sorted(found, key=lambda each: (-each[3].held_gpus, *each[:3])):
                stopped.append(each[3])
                needed -= each[3].held_gpus
                if needed <= 0:
                    break
        if (needed > 0 and not enough) or len(stopped) > self.left:
            return []
        leaving = [other.gpus for other in stopped]
        fits = room.fit.room_after(leaving, job.gpus_per_worker) >= job.min_workers
        return stopped if fits else []
