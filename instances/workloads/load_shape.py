"""When jobs come and how large they are, by parameters that can be calibrated.

The plain generator (`lyra_opt.instances.workloads.lyra_like`) draws all at random, so that seeds
differ as much as the few jobs do that hold most of the GPU time. Here everything is spread evenly
instead: of each class exactly so many jobs ask for each number of GPUs, and running times and
moments of submission are those of an additive recurrence, in the order of their GPUs, so that jobs
of any size are spread over the whole range of both (quasi-random sampling). A seed only shifts
these sequences. What is kept from seed to seed is thus no estimate of how much a real trace varies.

Source of the sequence: the additive recurrence by the powers of the plastic number, which fills the
unit square evenly (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018).
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    IntArray = NDArray[np.int64]

FIRST_STEP, SECOND_STEP = 0xC13FA9A902A6328F, 0x91E10DA5C79E7B1D
"""1/p and 1/p**2 of the plastic number p, in parts of 2**64."""

DAYS_A_WEEK, HOURS_A_DAY, HOUR_MS = 7, 24, 3_600_000
SHORTEST_MS = 60_000
HALF_A_DAY_BAND_S = 1500
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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """When jobs come and how large they are; whole numbers.

    Parameters
    ----------
    wide_per_mille
        Of the long jobs, those that ask for 8 to 64 GPUs beside the ones that would anyway; it
        sets the load.
    working_hours_from, working_hours
        Hour of the day at which heavy submission begins, and for how many hours it lasts.
    light_percent, light_percent_of_short
        Submissions in an hour outside of these, of those within; of long and of short jobs.
    weekend_percent
        Submissions on days 6 and 7 of the week, of those on other days.
    first_weekday
        Day of the week of the first day, 0 for the first one.
    short_median_s, short_bulk_per_mille, short_bulk_s, short_longest_s
        Running times of short jobs: from 60 s their median, the length that so many in a thousand
        do not exceed, and the longest; evenly in between.
    half_a_day_s
        Least running time of the jobs of half a day or less, which are at most 1,500 s longer.
    stand_ins_per_100000, stand_in_gpus_percent, stand_in_longest_s
        Jobs that are no part of what is known of the trace: so many in 100,000, of so much of the
        cluster each, that run from 60 s to this. They stand in for whatever it is that makes some
        jobs wait for days, as the published mean says.
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

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            require_integer(name, getattr(self, name), minimum=least, maximum=most)
        if not self.short_median_s <= self.short_bulk_s <= self.short_longest_s:
            rule = "must be at least short_median_s and at most short_longest_s"
            raise FieldError("short_bulk_s", self.short_bulk_s, rule)

    @property
    def label(self) -> str:
        """What tells it from others, for names."""
        return f"-shape{hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:8]}"

    @property
    def in_words(self) -> tuple[str, ...]:
        """What is assumed, a sentence each."""
        figures = ", ".join(f"{each.name} {getattr(self, each.name)}" for each in fields(self))
        sentences = [
            "Assumed: jobs come and are as large as in a shape that was calibrated or chosen: "
            f"{figures}.",
            "Assumed: submissions, running times and GPUs are spread evenly (quasi-random), so "
            "that seeds differ less than traces would.",
        ]
        if self.stand_ins_per_100000:
            sentences.append(
                f"Stands in for something unknown: {self.stand_ins_per_100000} of 100,000 jobs ask "
                f"for {self.stand_in_gpus_percent} % of the training GPUs for "
                f"{SHORTEST_STAND_IN_S} to {self.stand_in_longest_s} s, and wait for days where "
                "they are overtaken. The published mean of queuing times needs such waits; what "
                "caused them is not known."
            )
        return tuple(sentences)

    @property
    def short_quantiles(self) -> tuple[tuple[int, int], ...]:
        """Running times of short jobs in seconds at parts per thousand."""
        return (
            (0, SHORTEST_MS // 1000),
            (500, self.short_median_s),
            (self.short_bulk_per_mille, self.short_bulk_s),
            (1000, self.short_longest_s),
        )

    def hourly(self, days: int, light_percent: int) -> IntArray:
        """Return weights of all hours in which jobs are submitted."""
        hour = np.arange(HOURS_A_DAY * days)
        weekday = (hour // HOURS_A_DAY + self.first_weekday) % DAYS_A_WEEK
        since = (hour - self.working_hours_from) % HOURS_A_DAY
        weights: IntArray = np.where(since < self.working_hours, 100, light_percent)
        weights = weights * np.where(weekday >= DAYS_A_WEEK - 2, self.weekend_percent, 100)
        # Where only working hours have any, all of the days must not fall outside of them.
        return weights if weights.any() else np.ones_like(weights)


class ShapedClass(NamedTuple):
    """Jobs of like length.

    Parameters
    ----------
    share
        Of all jobs, as a weight.
    quantiles
        Running time in seconds at parts per thousand of the class, linear in between.
    gpu_shares
        Weights of the numbers of GPUs that jobs ask for.
    mark
        Whether these are the jobs that are elastic in Lyra's Basic scenario.
    light_percent
        Submissions in light hours, of those in heavy ones.
    """

    share: int
    quantiles: Sequence[tuple[int, int]]
    gpu_shares: Sequence[int]
    mark: bool = False
    light_percent: int = 100


class ShapedJobs(NamedTuple):
    """Jobs by submission: when, for how long, on how many GPUs, and the mark of their class."""

    submit_ms: IntArray
    duration_ms: IntArray
    gpus: IntArray
    mark: NDArray[np.bool_]


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
    """Spread jobs evenly over sizes and time.

    Parameters
    ----------
    classes
        What is drawn of; the stand-ins of the shape come beside them.
    gpus_per_job
        What the shares of GPUs are of.
    jobs, days, training_gpus
        How many in all, over how long, for how many GPUs; none asks for more.
    seed
        Shifts the sequences.

    Notes
    -----
    Complexity O(jobs log jobs); 50,390 take 20 ms.
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
    """Divide a count by shares, each part rounded to the next border."""
    ends = np.cumsum(np.array([0, *shares], dtype=np.int64))
    parts: IntArray = np.diff((2 * ends * count + ends[-1]) // (2 * ends[-1]))
    return parts


def _sequence(count: int, shifts: IntegerStream) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return points of the unit square, in parts of 2**64."""
    places = np.arange(count, dtype=np.uint64)
    first, second = (
        np.uint64(shifts.word()) + places * np.uint64(step) for step in (FIRST_STEP, SECOND_STEP)
    )
    return first, second


def _quantiles_ms(quantiles: Sequence[tuple[int, int]], points: NDArray[np.uint64]) -> IntArray:
    """Return running times at points, by the quantile function, in integers."""
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
    """Return moments of submission at points, by the weights of hours, in integers."""
    place = (points >> np.uint64(64 - _MOMENT_BITS)).astype(np.int64) * hourly.sum()
    ends = np.cumsum(hourly) << _MOMENT_BITS
    hour = np.searchsorted(ends, place, side="right")
    left = ends[hour] - place  # above 0, at most the weight of the hour
    weight = hourly[hour] << (_MOMENT_BITS - _SPARE_BITS)
    moments: IntArray = (hour + 1) * HOUR_MS - 1 - (((left - 1) >> _SPARE_BITS) * HOUR_MS // weight)
    return moments
