"""Parts of composed schemes that are ours: which jobs go on loan, hold what, and are stopped.

*Loan rule.* Loans are called back, so jobs go there by how long they still run.

*Run-time caps.* Caps on what long jobs hold together, so that short ones find GPUs free when they
come. Nobody is preempted by it: that long jobs fill the cluster is what makes short ones wait where
jobs keep their GPUs until they complete.

*Voluntary preemption.* Running jobs are stopped for waiting ones, within a budget, for the sake of
the mean.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from itertools import pairwise
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.hosts import PoolRoom
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.view import View


HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRule:
    """Jobs that are done before long are put on loan, others wait for own servers.

    A job that is stopped when servers are called back loses what it did there. The shorter it runs,
    the less likely that is, and the less it loses. Every job fits the own servers when nothing else
    runs, so that nobody waits for a loan, and who may not be put on loan starts nevertheless.

    Parameters
    ----------
    longest_h
        Hours that a job has left at most, on its base demand, to be put on loan; above 0.
    first_h
        Hours that it has left at most to be put there though own servers have room; at least 0, at
        most `longest_h`.

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
        """Whether a job that has so many seconds left may be put on loan."""
        return left_s <= self.longest_h * HOUR_S

    def prefers(self, left_s: float) -> bool:
        """Whether it is put on loan though own servers have room for it."""
        return left_s <= self.first_h * HOUR_S


DAY_S = 86_400.0

SAMPLE_S = 600.0
"""Between two looks at what jobs ask for."""

SAMPLES_PER_UPDATE = 6
"""Looks between two times at which caps are set anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeCaps:
    """Jobs of at least x hours may together hold what shorter ones seldom need.

    For each x of `classes_h`: what shorter jobs would occupy if each ran from its submission on is
    looked at over a window of the past. Jobs of at least x hours may hold the own GPUs less a
    percentile of that. The caps are nested: a job counts for each x that it is not shorter than.
    Run times are those on the base demand, as far as the scheduler knows, and of jobs that were
    preempted what is left of them.

    A gang that is larger than a cap may start when no other job counts for it. So an idle cluster
    takes any job, and who is held back starts when the jobs that he is held back by have gone and
    no shorter one of them has come, which is what he waits for without caps too.

    Parameters
    ----------
    classes_h
        Where classes begin, in hours, rising and above 0; at least one.
    percentile
        Of what shorter jobs occupy, from 0 (their least) to 100 (their peak).
    long_demand
        A cap is not below so many times what the jobs that count for it ask for in the mean, so
        that they do not fall behind where there are GPUs for all; at least 0.
    short_demand
        But it leaves so many times what shorter jobs ask for in the mean, where there are not; at
        least 0.
    window_days
        How far back is looked, above 0.

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
            raise FieldError("classes_h", list(classes_h), "must be hours that rise, one at least")
        object.__setattr__(self, "classes_h", classes_h)
        if require_number("percentile", self.percentile, minimum=0) > 100:
            raise FieldError("percentile", self.percentile, "must be at most 100")
        for name in ("long_demand", "short_demand"):
            require_number(name, getattr(self, name), minimum=0)
        require_number("window_days", self.window_days, minimum=0, above=True)


class CapsInForce:
    """The caps of a run, and what counts for them.

    Parameters
    ----------
    rule
        How they are set.
    gpus
        Own GPUs of the cluster.
    now_s
        When the run begins.

    Attributes
    ----------
    gpus
        The caps, by class.

    Notes
    -----
    `submitted` takes O(classes + log jobs), `admits` O(classes); setting caps anew, once an hour,
    O(classes * samples of the window).
    """

    def __init__(self, rule: RunTimeCaps, *, gpus: int, now_s: float) -> None:
        self._begins_s = [hours * HOUR_S for hours in rule.classes_h]
        self._own_gpus, self._rule = gpus, rule
        classes = len(self._begins_s)
        # GPUs that jobs shorter than each class would occupy now, and all jobs.
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
        """Return for how many caps a job counts that runs so long."""
        return bisect_right(self._begins_s, run_time_s)

    def submitted(self, now_s: float, run_time_s: float, gpus: int) -> None:
        """Take note of what a job asks for that is submitted now."""
        self.advance(now_s)
        counted = self.class_of(run_time_s)
        for place in range(counted, len(self._asked)):
            self._asked[place] += gpus
        heappush(self._leaving, (now_s + run_time_s, counted, gpus))

    def advance(self, now_s: float) -> None:
        """Look at what was asked for up to now, and set caps anew where that is due."""
        while self._next_sample_s <= now_s:
            self._forget(self._next_sample_s)
            self._samples.append(tuple(self._asked))
            self._next_sample_s += SAMPLE_S
            self._until_update -= 1
            if not self._until_update:
                self._set_caps()
                self._until_update = SAMPLES_PER_UPDATE

    def _forget(self, now_s: float) -> None:
        """Count no longer who would be gone by now."""
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
        """Whether a job that counts for so many caps may start on so many own GPUs."""
        held, caps = self._held, self.gpus
        return all(not held[place] or held[place] + gpus <= caps[place] for place in range(counted))

    def starts(self, order: int, counted: int, gpus: int) -> None:
        """Take note of a job that gets own GPUs."""
        if counted and gpus:
            self._holder[order] = counted, gpus
            self._add(counted, gpus)

    def ends(self, order: int) -> None:
        """Take note of a job that gives up its GPUs."""
        counted, gpus = self._holder.pop(order, (0, 0))
        self._add(counted, -gpus)

    def _add(self, counted: int, gpus: int) -> None:
        for place in range(counted):
            self._held[place] += gpus


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
