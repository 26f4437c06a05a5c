"""Caps on what long jobs hold together, so that short ones find GPUs free when they come.

Nobody is preempted by it: that long jobs fill the cluster is what makes short ones wait where jobs
keep their GPUs until they complete.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number

HOUR_S = 3600.0
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
