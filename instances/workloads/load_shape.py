"""Quasi-random job arrivals and job sizes, with parameters that can be calibrated.

The plain generator (`lyra_opt.instances.workloads.lyra_like`) draws all values at random. Its seeds
differ much, because a few jobs use most of the GPU time. This module uses quasi-random sampling
instead. In each class the number of jobs with each number of GPUs is exact. Running times and
submission times follow an additive recurrence over the jobs in the order of their GPUs, so that
jobs of any size cover the whole range of both. A seed only shifts these sequences. The variation
between seeds is therefore no estimate of the variation of a real trace.

Source of the sequence: the additive recurrence by the powers of the plastic number, which fills the
unit square evenly (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.arrays import BoolArray, IntArray
from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import HOUR_MS
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.randomness import IntegerStream

FIRST_STEP, SECOND_STEP = 0xC13FA9A902A6328F, 0x91E10DA5C79E7B1D
"""1/p and 1/p**2 of the plastic number p, as fractions of 2**64."""

DAYS_A_WEEK, HOURS_A_DAY = 7, 24
SHORTEST_MS = 60_000
SHORTEST_STAND_IN_S = 60
PER_MILLE = 1000
JOBS_OF_STAND_INS = 100_000

_DURATION_BITS, _MOMENT_BITS, _SPARE_BITS = 20, 31, 16
_LIMITS = {
    "wide_per_mille": (0, 1000),
    "working_hours_from": (0, 23),
    "working_hours": (1, 24),
    "light_percent": (0, 300),
    "light_percent_of_short": (1, 300),
    "weekend_percent": (1, 200),
    "first_weekday": (0, 6),
    "short_median_s": (60, 3000),
    "short_bulk_per_mille": (501, 999),
    "short_bulk_s": (60, 3000),
    "short_longest_s": (60, 3000),
    "half_a_day_s": (10_000, 60_000),
    "stand_ins_per_100000": (0, 10_000),
    "stand_in_gpus_percent": (1, 100),
    "stand_in_longest_s": (60, 86_400),
    "a_day_s": (20_000, 200_000),
    "days_s": (100_000, 800_000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """Integer parameters of job arrivals and job sizes, which can be calibrated.

    Parameters
    ----------
    wide_per_mille
        The share of additional long jobs with 8 to 64 GPUs, in thousandths; it sets the load.
    working_hours_from, working_hours
        The hour of the day at which the working hours begin, and their number.
    light_percent, light_percent_of_short
        Submissions per hour outside working hours as a percentage of those in working hours, for
        long and for short jobs.
    weekend_percent
        Submissions on days 6 and 7 of the week as a percentage of those on other days.
    first_weekday
        The weekday of the first day, from 0 to 6; 5 and 6 are the weekend.
    short_median_s, short_bulk_per_mille, short_bulk_s, short_longest_s
        Quantiles of the running times of short jobs, linear in between. The shortest is 60 s. The
        median is `short_median_s`, `short_bulk_per_mille` thousandths run for at most
        `short_bulk_s`, and the longest is `short_longest_s`.
    half_a_day_s, a_day_s, days_s
        The shortest running times of jobs of half a day or less, of about a day and of days; the
        longest are 1,500, 4,000 and 24,000 s longer.
    stand_ins_per_100000, stand_in_gpus_percent, stand_in_longest_s
        Large extra jobs that are not known from the trace: their number per 100,000 jobs, their
        share of the cluster, and their longest running time (the shortest is 60 s). They replace
        the unknown cause that makes some jobs wait for days, as the published mean requires.
    """

    wide_per_mille: int = 0
    working_hours_from: int = 9
    working_hours: int = 10
    light_percent: int = 50
    light_percent_of_short: int = 100
    weekend_percent: int = 60
    first_weekday: int = 0
    short_median_s: int = 400
    short_bulk_per_mille: int = 900
    short_bulk_s: int = 1300
    short_longest_s: int = 3000
    half_a_day_s: int = 26_000
    stand_ins_per_100000: int = 0
    stand_in_gpus_percent: int = 72
    stand_in_longest_s: int = 720
    a_day_s: int = 77_000
    days_s: int = 360_000

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            require_integer(name, getattr(self, name), minimum=least, maximum=most)
        if not self.short_median_s <= self.short_bulk_s <= self.short_longest_s:
            rule = "must be at least short_median_s and at most short_longest_s"
            raise FieldError("short_bulk_s", self.short_bulk_s, rule)

    @property
    def label(self) -> str:
        """A hash of all parameters that distinguishes the names of workloads."""
        return f"-shape{hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:8]}"

    @property
    def in_words(self) -> tuple[str, ...]:
        """The assumptions of the shape, as sentences for results."""
        figures = ", ".join(f"{each.name} {getattr(self, each.name)}" for each in fields(self))
        sentences = [
            "Assumed: job arrivals and sizes follow a load shape that was calibrated or chosen: "
            f"{figures}.",
            "Assumed: submissions, running times and GPUs are spread evenly (quasi-random), so "
            "seeds differ less than real traces do.",
        ]
        if self.stand_ins_per_100000:
            sentences.append(
                f"Assumed for an unknown cause: {self.stand_ins_per_100000} of 100,000 jobs need "
                f"{self.stand_in_gpus_percent} % of the training GPUs for "
                f"{SHORTEST_STAND_IN_S} to {self.stand_in_longest_s} s, and wait for days if other "
                "jobs overtake them. The published mean of queuing times requires such waits; "
                "their cause is not known."
            )
        return tuple(sentences)

    @property
    def short_quantiles(self) -> tuple[tuple[int, int], ...]:
        """Quantiles of the running times of short jobs: (thousandths, seconds) pairs."""
        return (
            (0, SHORTEST_MS // 1000),
            (500, self.short_median_s),
            (self.short_bulk_per_mille, self.short_bulk_s),
            (1000, self.short_longest_s),
        )

    @property
    def long_quantiles(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The bands of running times of jobs of half a day or less, of a day and of days."""
        bands = ((self.half_a_day_s, 1500), (self.a_day_s, 4000), (self.days_s, 24_000))
        return tuple(((0, least_s), (1000, least_s + width_s)) for least_s, width_s in bands)

    def hourly(self, days: int, light_percent: int) -> IntArray:
        """Return the relative submission rate of each hour of the workload."""
        hour = np.arange(HOURS_A_DAY * days)
        weekday = (hour // HOURS_A_DAY + self.first_weekday) % DAYS_A_WEEK
        since = (hour - self.working_hours_from) % HOURS_A_DAY
        weights: IntArray = np.where(since < self.working_hours, 100, light_percent)
        weights = weights * np.where(weekday >= DAYS_A_WEEK - 2, self.weekend_percent, 100)
        # If no hour is a working hour and light_percent is 0, all hours get equal weights.
        return weights if weights.any() else np.ones_like(weights)


class ShapedClass(NamedTuple):
    """A class of jobs with similar running times.

    Parameters
    ----------
    share
        The weight of the class among all jobs.
    quantiles
        Quantiles of the running time, as (thousandths, seconds) pairs, linear in between.
    gpu_shares
        The weights of the possible numbers of GPUs.
    mark
        Whether the jobs of the class are elastic in Lyra's Basic scenario.
    light_percent
        Submissions per light hour as a percentage of those per heavy hour.
    """

    share: int
    quantiles: Sequence[tuple[int, int]]
    gpu_shares: Sequence[int]
    mark: bool = False
    light_percent: int = 100


class ShapedJobs(NamedTuple):
    """Jobs as arrays of submission time, running time, GPUs and whether the job is elastic.

    The jobs are in the order of submission.
    """

    submit_ms: IntArray
    duration_ms: IntArray
    gpus: IntArray
    mark: BoolArray


def shaped_jobs(
    classes: Sequence[ShapedClass],
    gpus_per_job: Sequence[int],
    shape: LoadShape,
    *,
    jobs: int,
    days: int,
    training_gpus: int,
    seed: int,
) -> ShapedJobs:
    """Generate jobs whose sizes and submission times are spread evenly (quasi-random).

    Parameters
    ----------
    classes
        The classes of jobs; the stand-in jobs of the shape are added.
    gpus_per_job
        The possible numbers of GPUs, to which `gpu_shares` refers.
    jobs, days, training_gpus
        The total number of jobs, the days of submission, and the largest number of GPUs of a job.
    seed
        The shift of the quasi-random sequences.

    Notes
    -----
    Takes O(jobs log jobs) time: 20 ms for 50,390 jobs.
    """
    stand_ins = (jobs * shape.stand_ins_per_100000 + JOBS_OF_STAND_INS // 2) // JOBS_OF_STAND_INS
    stand_ins = min(stand_ins, jobs - 1)
    widest = 1 << (training_gpus.bit_length() - 1)
    shifts = IntegerStream(workload="shaped", seed=seed)
    parts = []
    counts = _exact([each.share for each in classes], jobs - stand_ins)
    for each, count in zip(classes, counts, strict=True):
        gpus = np.repeat(gpus_per_job, _exact(each.gpu_shares, count))
        first, second = _sequence(count, shifts)
        parts.append(
            (
                _moments_ms(shape.hourly(days, each.light_percent), second),
                _quantiles_ms(each.quantiles, first),
                np.minimum(gpus, widest),
                np.full(count, each.mark),
            )
        )
    first, second = _sequence(stand_ins, shifts)
    of_stand_ins = ((0, SHORTEST_STAND_IN_S), (1000, shape.stand_in_longest_s))
    parts.append(
        (
            _moments_ms(np.ones(HOURS_A_DAY * days, dtype=np.int64), second),
            _quantiles_ms(of_stand_ins, first),
            np.full(stand_ins, max(1, training_gpus * shape.stand_in_gpus_percent // 100)),
            np.full(stand_ins, False),
        )
    )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return ShapedJobs(*(column[order] for column in columns))


def _exact(shares: Sequence[int], count: int) -> IntArray:
    """Divide `count` in proportion to `shares` into integers, by rounding the cumulative sums."""
    ends = np.cumsum(np.array([0, *shares], dtype=np.int64))
    parts: IntArray = np.diff((2 * ends * count + ends[-1]) // (2 * ends[-1]))
    return parts


def _sequence(count: int, shifts: IntegerStream) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return `count` quasi-random points of the unit square, as fractions of 2**64."""
    places = np.arange(count, dtype=np.uint64)
    first, second = (
        np.uint64(shifts.word()) + places * np.uint64(step) for step in (FIRST_STEP, SECOND_STEP)
    )
    return first, second


def _quantiles_ms(quantiles: Sequence[tuple[int, int]], points: NDArray[np.uint64]) -> IntArray:
    """Map points of [0, 1) to running times in ms, linearly between given quantiles.

    Points are fractions of 2**64.
    """
    place = (points >> np.uint64(64 - _DURATION_BITS)).astype(np.int64) * PER_MILLE
    ranks, values_s = np.array(quantiles, dtype=np.int64).T
    begins = ranks << _DURATION_BITS
    found = np.searchsorted(begins, place, side="right") - 1
    rise_ms = (values_s[found + 1] - values_s[found]) * 1000
    above = place - begins[found]
    durations: IntArray = values_s[found] * 1000 + (rise_ms * (above >> 10)) // (
        (begins[found + 1] - begins[found]) >> 10
    )
    return durations


def _moments_ms(hourly: IntArray, points: NDArray[np.uint64]) -> IntArray:
    """Map points of [0, 1) to submission times in ms, by the submission rate of each hour.

    Points are fractions of 2**64.
    """
    place = (points >> np.uint64(64 - _MOMENT_BITS)).astype(np.int64) * hourly.sum()
    ends = np.cumsum(hourly) << _MOMENT_BITS
    hour = np.searchsorted(ends, place, side="right")
    left = ends[hour] - place  # above 0, at most the weight of the hour
    weight = hourly[hour] << (_MOMENT_BITS - _SPARE_BITS)
    moments: IntArray = (hour + 1) * HOUR_MS - 1 - (((left - 1) >> _SPARE_BITS) * HOUR_MS // weight)
    return moments
