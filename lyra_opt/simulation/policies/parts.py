"""Optional rules of this project for schemes: loans to short jobs, run-time caps, preemption.

*Loan rule.* Servers on loan are reclaimed, so only jobs with a short remaining run time use them.

*Run-time caps.* Long jobs may hold only part of the GPUs together, so that short jobs find free
GPUs when they arrive. No job is preempted for it. Without caps, short jobs wait because long jobs
fill the cluster and keep their GPUs until they complete.

*Voluntary preemption.* Running jobs are stopped for waiting jobs, within a budget, to reduce the
mean JCT.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from itertools import pairwise

from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.core.rules import require_number
from lyra_opt.simulation.hosts import PoolRoom
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRule:
    """Puts jobs with a short remaining run time on loan; longer jobs wait for own servers.

    A job that is stopped by reclaiming loses its progress. The shorter it runs, the less likely
    that is, and the less it loses. Every job fits the empty own servers, so no job has to wait for
    a loan, and jobs that may not use a loan start eventually.

    Parameters
    ----------
    longest_h
        Longest remaining run time, in hours with the base demand, of a job that may use servers on
        loan; above 0.
    first_h
        Longest remaining run time, in hours, of a job that uses servers on loan even if own servers
        have room; at least 0, at most `longest_h`.

    Notes
    -----
    Source: this project.
    """

    longest_h: float = 12.0
    first_h: float = 1.0

    def __post_init__(self) -> None:
        longest_h = require_number("longest_h", self.longest_h, minimum=0, above=True)
        if require_number("first_h", self.first_h, minimum=0) > longest_h:
            raise FieldError("first_h", self.first_h, f"must be at most longest_h, {longest_h:g}")

    def admits(self, left_s: float) -> bool:
        """Return whether a job with `left_s` seconds left may use servers on loan."""
        return left_s <= self.longest_h * HOUR_S

    def prefers(self, left_s: float) -> bool:
        """Return whether a job with `left_s` seconds left prefers a loan to free own servers."""
        return left_s <= self.first_h * HOUR_S


SAMPLE_S = 600.0
"""Seconds between two samples of the demand."""

SAMPLES_PER_UPDATE = 6
"""Number of samples between two updates of the caps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeCaps:
    """Limits how many GPUs long jobs hold together, so that GPUs stay free for shorter jobs.

    For each x of `classes_h`, the demand of jobs shorter than x hours is sampled over a past
    window, as if each job ran from its submission on. Jobs of at least x hours may hold the own
    GPUs less a percentile of that demand. The caps are nested: a job counts towards every cap whose
    x it reaches. Run times are for the base demand, as the scheduler estimates them; after a
    preemption, the remaining run time counts.

    A gang larger than a cap may start if no other job counts towards that cap. So an idle cluster
    takes any job. A job that is held back starts when the jobs counted before it have completed and
    no shorter such job has arrived, for which it also waits without caps.

    Parameters
    ----------
    classes_h
        Lower limits of the classes in hours, increasing and above 0; at least one.
    percentile
        Percentile of the shorter jobs' demand that stays reserved, from 0 (minimum) to 100 (peak).
    long_demand
        A cap is at least this multiple of the mean demand of the jobs that count towards it, so
        that they do not fall behind when there are GPUs for all jobs; at least 0.
    short_demand
        A cap leaves at least this multiple of the mean demand of shorter jobs, when there are too
        few GPUs for all jobs; at least 0.
    window_days
        Length of the window of samples in days, above 0.

    Notes
    -----
    Source: this project.
    """

    classes_h: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    percentile: float = 75.0
    long_demand: float = 1.3
    short_demand: float = 1.0
    window_days: float = 3.0

    def __post_init__(self) -> None:
        classes_h = tuple(
            require_number(f"classes_h[{place}]", hours, minimum=0, above=True)
            for place, hours in enumerate(self.classes_h)
        )
        if not classes_h or any(b <= a for a, b in pairwise(classes_h)):
            raise FieldError("classes_h", list(classes_h), "must be one or more increasing hours")
        object.__setattr__(self, "classes_h", classes_h)
        require_number("percentile", self.percentile, minimum=0, maximum=100)
        for name in ("long_demand", "short_demand"):
            require_number(name, getattr(self, name), minimum=0)
        require_number("window_days", self.window_days, minimum=0, above=True)


class CapsInForce:
    """The current run-time caps of a simulation run, and the GPUs that count towards them.

    Parameters
    ----------
    rule
        The settings of the caps.
    gpus
        Own GPUs of the cluster.
    now_s
        Start time of the run.

    Attributes
    ----------
    gpus
        The caps by class, in GPUs.

    Notes
    -----
    `submitted` takes O(classes + log jobs), `admits` O(classes); updating the caps, once an hour,
    takes O(classes * samples in the window).
    """

    def __init__(self, rule: RunTimeCaps, *, gpus: int, now_s: float) -> None:
        self._begins_s = [hours * HOUR_S for hours in rule.classes_h]
        self._own_gpus, self._rule = gpus, rule
        classes = len(self._begins_s)
        # Entry k is the demand, in GPUs, of jobs shorter than class k; the last counts all jobs.
        self._asked = [0] * (classes + 1)
        self._leaving: list[tuple[float, int, int]] = []
        length = max(1, math.ceil(rule.window_days * DAY_S / SAMPLE_S))
        self._samples: deque[tuple[int, ...]] = deque(maxlen=length)
        self._next_sample_s = now_s + SAMPLE_S
        self._until_update = 1
        self.gpus = [float(gpus)] * classes
        self._held = [0] * classes
        self._holder: dict[int, tuple[int, int]] = {}

    def class_of(self, run_time_s: float) -> int:
        """Return how many run-time caps limit a job with a run time of `run_time_s` seconds."""
        return bisect_right(self._begins_s, run_time_s)

    def submitted(self, now_s: float, run_time_s: float, gpus: int) -> None:
        """Add the demand of a job that is submitted at `now_s`."""
        self.advance(now_s)
        counted = self.class_of(run_time_s)
        for place in range(counted, len(self._asked)):
            self._asked[place] += gpus
        heappush(self._leaving, (now_s + run_time_s, counted, gpus))

    def advance(self, now_s: float) -> None:
        """Sample the demand until `now_s`, and update the caps when they are due."""
        while self._next_sample_s <= now_s:
            self._forget(self._next_sample_s)
            self._samples.append(tuple(self._asked))
            self._next_sample_s += SAMPLE_S
            self._until_update -= 1
            if not self._until_update:
                self._set_caps()
                self._until_update = SAMPLES_PER_UPDATE

    def _forget(self, now_s: float) -> None:
        """Remove the demand of jobs that would have completed by `now_s`."""
        leaving = self._leaving
        while leaving and leaving[0][0] <= now_s:
            _, counted, gpus = heappop(leaving)
            for place in range(counted, len(self._asked)):
                self._asked[place] -= gpus

    def _set_caps(self) -> None:
        import numpy as np

        rule, samples = self._rule, np.array(self._samples)
        shorter = samples[:, :-1]
        mean = shorter.mean(axis=0)
        longer = samples[:, -1].mean() - mean
        left = np.percentile(shorter, rule.percentile, axis=0, method="higher")
        left = np.minimum(left, self._own_gpus - rule.long_demand * longer)
        left = np.maximum(left, rule.short_demand * mean)
        self.gpus = (self._own_gpus - left).tolist()

    def admits(self, counted: int, gpus: int) -> bool:
        """Return whether a job that counts towards `counted` caps may start on `gpus` own GPUs."""
        held, caps = self._held, self.gpus
        return all(not held[place] or held[place] + gpus <= caps[place] for place in range(counted))

    def starts(self, order: int, counted: int, gpus: int) -> None:
        """Count the own GPUs of a job that starts."""
        if counted and gpus:
            self._holder[order] = counted, gpus
            self._add(counted, gpus)

    def ends(self, order: int) -> None:
        """Stop counting the GPUs of a job that gives them up."""
        counted, gpus = self._holder.pop(order, (0, 0))
        self._add(counted, -gpus)

    def _add(self, counted: int, gpus: int) -> None:
        for place in range(counted):
            self._held[place] += gpus


MOST_TRIED = 16
"""Most waiting jobs for which preemptions are tried at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoluntaryPreemption:
    """Lets a job that has waited long take the GPUs of jobs with much more work left.

    Only jobs that come later in the queue are stopped, so that they do not take the GPUs back at
    once.

    Parameters
    ----------
    budget
        Allowed preemptions per job submitted so far, including preemptions by reclaiming; at least
        0.
    waited_run_times
        A job may preempt after it has waited for this multiple of its run time; at least 0.
    area_ratio
        A stopped job has at least this multiple of the waiting job's remaining GPU-seconds; at
        least 1.
    least_left_h
        Least remaining run time of a stopped job, in hours; at least 0.
    lost_share
        Most GPU-seconds that a stopped job without checkpoints may lose, as a share of the waiting
        job's remaining GPU-seconds; at least 0.
    interval_s
        Least time between two rounds of preemptions, in seconds; at least 0.

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


Candidate = tuple[float, float, int, "JobRun"]
"""Lost GPU-seconds, remaining GPU-seconds as a negative number, index, and job."""


class PreemptionsInBudget:
    """Chooses, within a budget, which running jobs to stop for jobs that have waited long.

    Parameters
    ----------
    rule
        The settings of voluntary preemption.
    key
        Sort key of a job in the queue.
    """

    def __init__(
        self, rule: VoluntaryPreemption, key: Callable[[JobRun], tuple[float, ...]]
    ) -> None:
        self._rule, self._key = rule, key
        self._submitted = self._stopped = 0
        self._next_s = -math.inf
        self._patient: list[tuple[float, int, float, JobRun]] = []
        self._impatient: dict[int, tuple[float, JobRun]] = {}

    def waits(self, run: JobRun, now_s: float, run_time_s: float) -> None:
        """Note that a job has been submitted or stopped, and now waits."""
        if run.losses:
            self._stopped += 1
        else:
            self._submitted += 1
        at_s = now_s + self._rule.waited_run_times * run_time_s
        heappush(self._patient, (at_s, run.order, now_s, run))

    @property
    def left(self) -> int:
        """The number of preemptions that the budget still allows."""
        return max(0, int(self._rule.budget * self._submitted) - self._stopped)

    def impatient(self, view: View) -> list[JobRun]:
        """Return the waiting jobs that may preempt others, least remaining GPU-seconds first.

        At most `MOST_TRIED` jobs; none before `interval_s` has passed since the last call that
        returned jobs.
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

    def candidates(self, view: View, room: PoolRoom, running: Iterable[JobRun]) -> list[Candidate]:
        """Return the running jobs that may be stopped in an own pool, out of those given.

        They come in the order in which they are stopped for a job if one of them suffices: by lost
        work, then most remaining work, then submission. O(jobs log jobs).
        """
        found: list[Candidate] = []
        least_left_s = self._rule.least_left_h * HOUR_S
        for run in running:
            if len(run.parts) > 1 or run.parts[0].pool != room.number:
                continue
            view.account(run)
            left_gpu_s = view.left_gpu_s(run)
            if left_gpu_s / run.job.min_gpus >= least_left_s:
                found.append((view.lost_gpu_s(run), -left_gpu_s, run.order, run))
        found.sort()
        return found

    def stopped_for(
        self, view: View, run: JobRun, room: PoolRoom, candidates: Iterable[Candidate]
    ) -> list[JobRun]:
        """Return the jobs to stop in an own pool so that a waiting job fits; O(candidates).

        If one job suffices, it is the first such candidate; else several jobs, those with the most
        GPUs first. Empty if no choice suffices.

        Parameters
        ----------
        candidates
            The result of `candidates`, while no job has started or ended since.
        """
        job, rule = run.job, self._rule
        waiting_gpu_s = view.left_gpu_s(run)
        least_left_gpu_s = rule.area_ratio * waiting_gpu_s
        most_lost_gpu_s = rule.lost_share * waiting_gpu_s
        needed = job.min_gpus - view.hosts.free_of_pool[room.number]
        key = self._key(run), run.order
        found: list[JobRun] = []
        for lost_gpu_s, minus_left_gpu_s, order, other in candidates:
            if lost_gpu_s > most_lost_gpu_s:
                break
            if -minus_left_gpu_s >= least_left_gpu_s and key < (self._key(other), order):
                if other.held_gpus >= needed:
                    found = [other]
                    break
                found.append(other)
        stopped: list[JobRun] = []
        for other in sorted(found, key=lambda each: -each.held_gpus):
            stopped.append(other)
            needed -= other.held_gpus
            if needed <= 0:
                break
        else:
            return []
        if len(stopped) > self.left:
            return []
        leaving = [other.gpus for other in stopped]
        fits = room.fit.room_after(leaving, job.gpus_per_worker) >= job.min_workers
        return stopped if fits else []
