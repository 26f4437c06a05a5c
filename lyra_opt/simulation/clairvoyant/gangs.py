"""Rigid jobs and the GPUs that there are over time, as clairvoyant schedules see them.

Times are whole microseconds, rounded so that what fits in them fits in seconds too: releases, run
times and rises of the capacity up, falls down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import FieldError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

MICROSECONDS = 1_000_000
"""In a second."""
LARGEST_EXACT = 2.0**53
"""Below which floats hold every whole number."""
LATEST_US = 2**61
"""By which every schedule must end that leaves no GPU idle for nothing."""


def microseconds(seconds: FloatArray, *, up: bool) -> IntArray:
    """Return whole microseconds, rounded up or down, and whole seconds as they are.

    The product is rounded itself, and 0.1 s is a little more than 100,000 microseconds: so one
    microsecond may be lost.
    """
    product = seconds * MICROSECONDS
    if up:
        rounded = np.ceil(np.nextafter(product, np.inf))
    else:
        rounded = np.floor(np.nextafter(product, -np.inf))
    is_exact = (seconds == np.floor(seconds)) & (product < LARGEST_EXACT)
    found: IntArray = np.where(is_exact, product, rounded).astype(np.int64)
    return found


@dataclass(frozen=True, kw_only=True)
class Gangs:
    """Rigid jobs: each holds its GPUs from its start to its completion, once and without a break.

    Parameters
    ----------
    release_s : array of jobs
        When each may start at the earliest, at least 0.
    run_s : array of jobs
        For how long each runs, above 0.
    gpus : array of jobs
        How many GPUs each holds, at least 1.
    weight : array of jobs
        What each counts for in the mean, at least 0 and not 0 throughout.

    Raises
    ------
    FieldError
        If a field breaks its rule.
    """

    release_s: FloatArray
    run_s: FloatArray
    gpus: IntArray
    weight: FloatArray

    def __post_init__(self) -> None:
        jobs = len(self.release_s)
        for name in ("run_s", "gpus", "weight"):
            if len(getattr(self, name)) != jobs or jobs == 0:
                rule = f"must be a number for each of the {jobs} jobs, of which there must be one"
                raise FieldError(name, len(getattr(self, name)), rule)
        _require("release_s", self.release_s, self.release_s >= 0, "must be finite, at least 0")
        _require("run_s", self.run_s, self.run_s > 0, "must be finite, above 0")
        _require("gpus", self.gpus, self.gpus >= 1, "must be at least 1")
        _require("weight", self.weight, self.weight >= 0, "must be finite, at least 0")
        if not self.weight.any():
            raise FieldError("weight", 0.0, "must not be 0 for all jobs")
        latest_us = (self.release_s.max() + self.run_s.sum()) * MICROSECONDS
        if latest_us >= LATEST_US:
            rule = "must be together, with the last release, less than 2**61 microseconds"
            raise FieldError("run_s", float(self.run_s.sum()), rule)

    @classmethod
    def of(
        cls,
        release_s: ArrayLike,
        run_s: ArrayLike,
        gpus: ArrayLike,
        weight: ArrayLike | None = None,
    ) -> Gangs:
        """Return jobs given by anything like arrays; without weights all count alike."""
        released = np.array(release_s, dtype=np.float64)
        return cls(
            release_s=released,
            run_s=np.array(run_s, dtype=np.float64),
            gpus=np.array(gpus, dtype=np.int64),
            weight=np.ones(len(released)) if weight is None else np.array(weight, dtype=float),
        )

    def __len__(self) -> int:
        return len(self.release_s)

    @cached_property
    def release_us(self) -> IntArray:
        """Releases in microseconds, rounded up."""
        return microseconds(self.release_s, up=True)

    @cached_property
    def run_us(self) -> IntArray:
        """Run times in microseconds, rounded up."""
        return microseconds(self.run_s, up=True)

    @cached_property
    def area_gpu_s(self) -> FloatArray:
        """GPU-seconds of each job."""
        return self.run_s * self.gpus

    def jct_mean_s(self, start_us: IntArray) -> float:
        """Return the weighted mean of completion less release, for starts in microseconds."""
        jct_s = (start_us + self.run_us) / MICROSECONDS - self.release_s
        return float((self.weight * jct_s).sum() / self.weight.sum())


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How many GPUs there are over time.

    Parameters
    ----------
    since_s : array of steps
        When each step begins, rising from 0.
    gpus : array of steps
        GPUs from there to the next step, at least 0; those of the last one stay for ever.

    Raises
    ------
    FieldError
        If a field breaks its rule.
    """

    since_s: FloatArray
    gpus: IntArray

    def __post_init__(self) -> None:
        if len(self.since_s) != len(self.gpus) or len(self.gpus) == 0:
            raise FieldError("gpus", len(self.gpus), "must be a number for each step, at least one")
        if self.since_s[0] != 0:
            raise FieldError("since_s[0]", float(self.since_s[0]), "must be 0")
        rises = np.concatenate(([True], np.diff(self.since_s) > 0))
        _require("since_s", self.since_s, rises, "must be finite and rise")
        _require("gpus", self.gpus, self.gpus >= 0, "must be at least 0")
        if self.since_s[-1] * MICROSECONDS >= LATEST_US:
            rule = "must be less than 2**61 microseconds"
            raise FieldError("since_s", float(self.since_s[-1]), rule)

    @classmethod
    def constant(cls, gpus: int) -> Capacity:
        """Return so many GPUs for ever."""
        return cls(since_s=np.zeros(1), gpus=np.array([gpus], dtype=np.int64))

    @cached_property
    def steps_us(self) -> tuple[IntArray, IntArray]:
        """Begins of steps in microseconds, and GPUs.

        A rise is rounded up and a fall down. Steps that this leaves no time are left out.
        """
        later = microseconds(self.since_s, up=True)
        sooner = microseconds(self.since_s, up=False)
        rises = np.concatenate(([True], np.diff(self.gpus) > 0))
        since = np.minimum.accumulate(np.where(rises, later, sooner)[::-1])[::-1]
        lasts = np.concatenate((np.diff(since) > 0, [True]))
        return since[lasts], self.gpus[lasts]


def _require(field: str, values: NDArray[np.generic], keeps: NDArray[np.bool_], rule: str) -> None:
    """Raise for the first value that is not finite or does not keep a rule."""
    wrong = np.flatnonzero(~(np.isfinite(values) & keeps))
    if len(wrong):
        raise FieldError(f"{field}[{wrong[0]}]", values[wrong[0]].item(), rule)
