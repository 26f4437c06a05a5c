"""Rigid jobs, and the number of GPUs over time, as inputs of clairvoyant schedules.

Times are whole microseconds, rounded so that a schedule that is valid in microseconds is valid in
seconds: releases, run times and increases of the capacity are rounded up, decreases down.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lyra_opt.core.arrays import BoolArray, FloatArray, IntArray
from lyra_opt.core.errors import FieldError

MICROSECONDS = 1_000_000
"""Microseconds in a second."""
LARGEST_EXACT = 2.0**53
"""Below this number, floats represent every integer."""
LATEST_US = 2**61
"""Latest end, in microseconds, of any schedule that does not leave GPUs idle needlessly."""


def microseconds(seconds: FloatArray, *, up: bool) -> IntArray:
    """Return seconds in whole microseconds, rounded up or down; whole seconds stay exact.

    The product itself is rounded, and as a float 0.1 s is slightly more than 100,000 microseconds;
    so one microsecond may be lost.
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
    """Rigid jobs: each holds its GPUs from start to completion, without interruption.

    Parameters
    ----------
    release_s : array of jobs
        Earliest start of each job, at least 0.
    run_s : array of jobs
        Run time of each job, above 0.
    gpus : array of jobs
        Number of GPUs of each job, at least 1.

    Raises
    ------
    FieldError
        If a field breaks its rule.
    """

    release_s: FloatArray
    run_s: FloatArray
    gpus: IntArray

    def __post_init__(self) -> None:
        jobs = len(self.release_s)
        for name in ("run_s", "gpus"):
            if len(getattr(self, name)) != jobs or jobs == 0:
                rule = f"must have one number per job ({jobs}), and at least one job"
                raise FieldError(name, len(getattr(self, name)), rule)
        _require("release_s", self.release_s, self.release_s >= 0, "must be finite, at least 0")
        _require("run_s", self.run_s, self.run_s > 0, "must be finite, above 0")
        _require("gpus", self.gpus, self.gpus >= 1, "must be at least 1")
        latest_us = (self.release_s.max() + self.run_s.sum()) * MICROSECONDS
        if latest_us >= LATEST_US:
            rule = "all run times plus the last release must be less than 2**61 microseconds"
            raise FieldError("run_s", float(self.run_s.sum()), rule)

    @classmethod
    def of(cls, release_s: ArrayLike, run_s: ArrayLike, gpus: ArrayLike) -> "Gangs":
        """Return gangs from array-like values."""
        return cls(
            release_s=np.array(release_s, dtype=np.float64),
            run_s=np.array(run_s, dtype=np.float64),
            gpus=np.array(gpus, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.release_s)

    @cached_property
    def release_us(self) -> IntArray:
        """The releases in microseconds, rounded up."""
        return microseconds(self.release_s, up=True)

    @cached_property
    def run_us(self) -> IntArray:
        """The run times in microseconds, rounded up."""
        return microseconds(self.run_s, up=True)

    @cached_property
    def area_gpu_s(self) -> FloatArray:
        """The GPU-seconds of each job."""
        return self.run_s * self.gpus

    def jct_mean_s(self, start_us: IntArray) -> float:
        """Return the mean JCT in seconds for starts in microseconds."""
        return float(((start_us + self.run_us) / MICROSECONDS - self.release_s).mean())


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The number of GPUs of a cluster over time, as a step function.

    Parameters
    ----------
    since_s : array of steps
        Begin of each step, increasing from 0.
    gpus : array of steps
        GPUs from there to the next step, at least 0; the last number lasts for ever.

    Raises
    ------
    FieldError
        If a field breaks its rule.
    """

    since_s: FloatArray
    gpus: IntArray

    def __post_init__(self) -> None:
        if len(self.since_s) != len(self.gpus) or len(self.gpus) == 0:
            raise FieldError("gpus", len(self.gpus), "must have one number per step, at least one")
        if self.since_s[0] != 0:
            raise FieldError("since_s[0]", float(self.since_s[0]), "must be 0")
        rises = np.concatenate(([True], np.diff(self.since_s) > 0))
        _require("since_s", self.since_s, rises, "must be finite and increasing")
        _require("gpus", self.gpus, self.gpus >= 0, "must be at least 0")
        if self.since_s[-1] * MICROSECONDS >= LATEST_US:
            rule = "must be less than 2**61 microseconds"
            raise FieldError("since_s", float(self.since_s[-1]), rule)

    @classmethod
    def constant(cls, gpus: int) -> "Capacity":
        """Return a capacity of `gpus` GPUs for ever."""
        return cls(since_s=np.zeros(1), gpus=np.array([gpus], dtype=np.int64))

    @cached_property
    def steps_us(self) -> tuple[IntArray, IntArray]:
        """Two arrays: the start of each step of the capacity in microseconds, and its GPUs.

        An increase is rounded up and a decrease down. Steps that become empty by rounding are left
        out.
        """
        later = microseconds(self.since_s, up=True)
        sooner = microseconds(self.since_s, up=False)
        rises = np.concatenate(([True], np.diff(self.gpus) > 0))
        since = np.minimum.accumulate(np.where(rises, later, sooner)[::-1])[::-1]
        lasts = np.concatenate((np.diff(since) > 0, [True]))
        return since[lasts], self.gpus[lasts]


def _require(field: str, values: NDArray[np.generic], keeps: BoolArray, rule: str) -> None:
    """Raise `FieldError` for the first value that is not finite or breaks a rule."""
    wrong = np.flatnonzero(~(np.isfinite(values) & keeps))
    if len(wrong):
        raise FieldError(f"{field}[{wrong[0]}]", values[wrong[0]].item(), rule)
