"""Workloads and inference demand with the published statistics of Lyra's production clusters.

The traces of the paper (Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys
2023) are private, but the paper prints enough statistics to determine most of a workload: 50,390
jobs in 15 days on 3,544 training GPUs, percentiles of the JCT under FIFO (table 8), means of
queuing time, JCT and usage (table 5), the shares of elastic and fungible jobs (section 7.1), and
the hourly load of the inference cluster (figure 1). All other properties are assumed, and listed in
the ``assumptions`` of every workload.

If each JCT is rounded down to the next published percentile, the mean JCT is already 13,113 s. The
mean running time is only about 13,540 s. Running times therefore lie in narrow bands near the
percentiles, as in `_CLASSES`.
"""

import tomllib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import accumulate, pairwise

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import DAY_S, HOUR_MS
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_DAYS, MOST_GENERATED_JOBS
from lyra_opt.instances.workloads.load_shape import LoadShape, ShapedClass, ShapedJobs, shaped_jobs
from lyra_opt.instances.workloads.transform import JobAssumptions, assigned
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import InferenceDemand, Job, Workload

PUBLISHED_DAYS = 15
PUBLISHED_JOBS = 50_390
PUBLISHED_TRAINING_GPUS = 3_544
PUBLISHED_INFERENCE_SERVERS = 520
GPUS_PER_SERVER = 8

STEP_S = 300
STEPS_PER_HOUR = 12
VERSION = 1
"""The version of the generator, raised whenever a seed gives another workload."""

GPUS_PER_JOB = (1, 2, 4, 8, 16, 32, 64)


_HALF_A_DAY_OR_LESS, _A_DAY, _DAYS = LoadShape().long_quantiles
_SHORT_JOBS = (700, 110, 85, 85, 14, 4, 2)
_LONG_JOBS = (486, 153, 145, 157, 37, 15, 7)
_ELASTIC_JOBS = (0, 0, 280, 469, 199, 44, 8)

_WIDE_JOBS = (0, 0, 0, 300, 400, 200, 100)

_CLASSES = (  # shares of jobs per 100,000, quantiles, weights of `GPUS_PER_JOB`
    ShapedClass(
        72_940,
        ((0, 60), (137, 120), (411, 260), (685, 640), (890, 1300), (1000, 3000)),
        _SHORT_JOBS,
    ),
    ShapedClass(18_150, _HALF_A_DAY_OR_LESS, _LONG_JOBS),
    ShapedClass(3_030, _A_DAY, _LONG_JOBS),
    ShapedClass(880, _DAYS, _LONG_JOBS),
    ShapedClass(3_690, _HALF_A_DAY_OR_LESS, _ELASTIC_JOBS, mark=True),
    ShapedClass(1_130, _A_DAY, _ELASTIC_JOBS, mark=True),
    ShapedClass(180, _DAYS, _ELASTIC_JOBS, mark=True),
)
_LONGEST_SHORT_JOB_MS = 3_000_000
_PARTS = 1 << 20  # resolution of a random place in an interval

# Periods with many submissions alternate with periods with few submissions.
# Under strict FIFO on pooled GPUs, these periods queue jobs about as long as in the paper.
_HEAVY_HOURS = (7, 9)
_LIGHT_HOURS = (15, 17)
_LIGHT_PERCENT_OF_HEAVY = 5
_LIGHT_PERCENT_OF_HEAVY_FOR_SHORT_JOBS = 70
_HOURLY_PERCENT = (50, 150)

GENERATED = (
    "Generated, because Lyra's trace is private: means and percentiles of running times, GPU time "
    "and kinds of jobs are published or follow from published values; the rest is assumed."
)
ONE_GPU_WORKERS = "Assumed: each worker holds one GPU."
ASSUMPTIONS: tuple[str, ...] = (
    GENERATED,
    "Assumed: running times lie in narrow bands at the published percentiles of the JCT minus the "
    "mean queuing time, because the published mean allows no wider bands.",
    "Assumed: 1 to 64 GPUs per job, in powers of two, 61 % of the jobs on one GPU, long jobs wider "
    "than short ones, so that the jobs need 77 % of the GPU time. The paper states a usage of 72 % "
    "(table 5) and of 82 % (section 2), and with 77 % jobs queue as published.",
    "Assumed: jobs of the elastic kind (5 % of all, 36 % of the GPU time) run for 14.2 hours with "
    "about 10 GPUs each at their base demand.",
    "Assumed: submissions are a doubly stochastic Poisson process, in which 7 to 9 heavy hours and "
    "15 to 17 light hours alternate and every hour has its own random rate; jobs of less than 50 "
    "minutes arrive more evenly.",
    ONE_GPU_WORKERS,
)


def lyra_like(
    *,
    days: int = PUBLISHED_DAYS,
    seed: int = 0,
    training_gpus: int = PUBLISHED_TRAINING_GPUS,
    jobs: int | None = None,
    assumptions: JobAssumptions | None = None,
    shape: LoadShape | None = None,
) -> Workload:
    """Generate a workload with the published statistics of Lyra's trace.

    Lyra's scenarios (section 7.1) are: Basic, the default assumptions; Advanced, with
    `heterogeneous_percent` 10; Heterogeneous, with `heterogeneous_percent` 10 and
    `fungible_percent` 0; Ideal, with `all_elastic`. Each property has its own random stream, so
    workloads that differ in one assumption are otherwise equal.

    Parameters
    ----------
    days
        The days over which jobs are submitted, at least 1.
    seed
        The random seed, at least 0; a seed gives the same workload on any machine.
    training_gpus
        The training GPUs of the cluster, at least 1. No job needs more.
    jobs
        The number of jobs. None scales the published 50,390 jobs with days and GPUs, which keeps
        the load.
    assumptions
        The assumptions on the jobs; None for Basic. Up to 5 % elastic jobs are drawn from the
        classes marked as elastic; further ones are drawn from all other jobs.
    shape
        The job arrivals and sizes that replace the default assumptions on both.

    Raises
    ------
    FieldError
        If a value breaks its rule.

    Notes
    -----
    Every workload keeps shares and quantiles, not only the mean over seeds: one value of class,
    GPUs and running time is drawn from each of equally likely intervals. With fewer than a few
    thousand jobs the load still varies, because a few jobs use a quarter of the GPU time. Takes
    O(jobs log jobs) time, about two seconds for 50,390 jobs.

    Results of strict FIFO on pooled GPUs with seeds 0 to 5, with published values in brackets
    (tables 5 and 8):
    mean queuing time 2,530 to 4,920 s (3,072), its median 0 (55), 75th percentile 4,050 to 9,940
    (1,892) and 95th 11,900 to 21,900 (8,357); mean JCT 16,060 to 18,440 s (16,610), its median
    1,890 to 4,540 (791), 75th percentile 26,200 to 26,600 (29,163), 95th 77,300 (82,933) and 99th
    362,000 (376,513); 31 to 39 % of the jobs queue (38 %). The medians do not match, because a
    pooled cluster is either full for hours or not at all. The load, 77 % of the GPU time during
    submissions, lies between the two usages that the paper states, 72 % (table 5) and 82 % (section
    2).
    """
    assumptions = assumptions or JobAssumptions()
    jobs = _job_count(days=days, seed=seed, training_gpus=training_gpus, jobs=jobs)
    if shape is None:
        drawn = _drawn_jobs(days=days, seed=seed, training_gpus=training_gpus, jobs=jobs)
        label, said = "", ASSUMPTIONS
    else:
        found = lyra_shaped(shape, days=days, seed=seed, training_gpus=training_gpus, jobs=jobs)
        drawn = list(zip(*(column.tolist() for column in found), strict=True))
        label, said = shape.label, (GENERATED, *shape.in_words, ONE_GPU_WORKERS)
    digits = len(str(jobs))
    plain = [
        Job(
            id=f"j{number:0{digits}d}",
            submit_s=submit_ms / 1000,
            work_worker_s=duration_ms * gpus / 1000,
            min_workers=gpus,
            max_workers=gpus,
        )
        for number, (submit_ms, duration_ms, gpus, _) in enumerate(drawn, start=1)
    ]
    elastic_kind = [number for number, (*_, is_elastic) in enumerate(drawn) if is_elastic]
    size = f"{days}d-{training_gpus}gpus-{jobs}jobs"
    return Workload(
        name=f"lyra-like-v{VERSION}-{size}{label}{assumptions.label}-seed{seed}",
        jobs=assigned(plain, assumptions, seed=seed, elastic_first=elastic_kind),
        assumptions=(*said, assumptions.in_words),
    )


def lyra_shaped(
    shape: LoadShape,
    *,
    days: int = PUBLISHED_DAYS,
    seed: int = 0,
    training_gpus: int = PUBLISHED_TRAINING_GPUS,
    jobs: int | None = None,
) -> ShapedJobs:
    """Return the jobs that `lyra_like` generates for a load shape as arrays, 100 times as fast.

    Parameters and errors are those of `lyra_like`.
    """
    jobs = _job_count(days=days, seed=seed, training_gpus=training_gpus, jobs=jobs)
    classes = []
    # The classes are those of short jobs, and three of long jobs without and with elastic ones.
    bands = (shape.short_quantiles, *2 * shape.long_quantiles)
    for position, (kind, quantiles) in enumerate(zip(_CLASSES, bands, strict=True)):
        is_short = position == 0
        wide = 0 if is_short else shape.wide_per_mille
        gpu_shares = [
            (1000 - wide) * plain + wide * more
            for plain, more in zip(kind.gpu_shares, _WIDE_JOBS, strict=True)
        ]
        light = shape.light_percent_of_short if is_short else shape.light_percent
        classes.append(
            kind._replace(quantiles=quantiles, gpu_shares=gpu_shares, light_percent=light)
        )
    return shaped_jobs(
        classes, GPUS_PER_JOB, shape, jobs=jobs, days=days, training_gpus=training_gpus, seed=seed
    )


def _job_count(*, days: int, seed: int, training_gpus: int, jobs: int | None) -> int:
    """Check the parameters of a generated workload, and return its number of jobs."""
    require_integer("days", days, minimum=1, maximum=MOST_GENERATED_DAYS)
    require_integer("seed", seed, minimum=0)
    require_integer("training_gpus", training_gpus, minimum=1)
    if jobs is None:
        published_gpu_days = PUBLISHED_DAYS * PUBLISHED_TRAINING_GPUS
        jobs = (2 * PUBLISHED_JOBS * days * training_gpus + published_gpu_days) // (
            2 * published_gpu_days
        )
        jobs = max(1, jobs)
    require_integer("jobs", jobs, minimum=1, maximum=MOST_GENERATED_JOBS)
    return jobs


def _drawn_jobs(
    *, days: int, seed: int, training_gpus: int, jobs: int
) -> list[tuple[int, int, int, bool]]:
    """Return random (submission in ms, running time in ms, GPUs, elastic kind) tuples, in order."""
    sizes = _sizes(jobs, seed)
    submissions_ms = _submissions_ms([duration_ms for duration_ms, _, _ in sizes], days, seed)
    order = sorted(range(jobs), key=submissions_ms.__getitem__)
    widest = 1 << (training_gpus.bit_length() - 1)
    drawn = []
    for position in order:
        duration_ms, gpus, is_elastic = sizes[position]
        drawn.append((submissions_ms[position], duration_ms, min(gpus, widest), is_elastic))
    return drawn


def _sizes(jobs: int, seed: int) -> list[tuple[int, int, bool]]:
    """Return (running time in ms, GPUs, is of elastic kind) for each job, in random order."""
    classes, durations, gpus, order = (
        IntegerStream(workload="lyra-like", version=VERSION, purpose=purpose, seed=seed)
        for purpose in ("class", "duration", "gpus", "order")
    )
    class_of = _one_from_each_interval([kind.share for kind in _CLASSES], jobs, classes)
    sizes = []
    for position, kind in enumerate(_CLASSES):
        count = class_of.count(position)
        gpus_of = _one_from_each_interval(kind.gpu_shares, count, gpus)
        gpus.shuffle(gpus_of)
        for interval in range(count):
            duration_ms = _quantile_ms(kind.quantiles, interval, count, durations)
            sizes.append((duration_ms, GPUS_PER_JOB[gpus_of[interval]], kind.mark))
    order.shuffle(sizes)
    return sizes


def _one_from_each_interval(
    shares: Sequence[int], intervals: int, stream: IntegerStream
) -> list[int]:
    """Draw an index into `shares` from each of `intervals` equally likely intervals, ascending.

    The frequency of each index differs from its expected value by less than 2 for every seed, and
    the mean frequency over seeds is the expected value.
    """
    ends = list(accumulate(shares))
    unit = ends[-1] * _PARTS  # the range has `intervals` units
    drawn = []
    for interval in range(intervals):
        place = interval * unit + stream.below(unit)
        drawn.append(bisect_right(ends, place // (intervals * _PARTS)))
    return drawn


def _quantile_ms(
    quantiles: Sequence[tuple[int, int]], interval: int, intervals: int, stream: IntegerStream
) -> int:
    """Draw a running time in milliseconds from one of `intervals` equally likely intervals."""
    parts = _PARTS
    place = (interval * parts + stream.below(parts)) * 1000  # out of 1000 * intervals * parts
    for (low, low_s), (high, high_s) in pairwise(quantiles):
        if place < high * intervals * parts:
            above = place - low * intervals * parts
            return low_s * 1000 + (high_s - low_s) * 1000 * above // (
                (high - low) * intervals * parts
            )
    raise AssertionError("the quantile function ends at 1000 per mille")


def _submissions_ms(durations_ms: Sequence[int], days: int, seed: int) -> list[int]:
    """Draw the submission time of each job in milliseconds, given the number of jobs."""
    rates = IntegerStream(workload="lyra-like", version=VERSION, purpose="rates", seed=seed)
    moments = IntegerStream(workload="lyra-like", version=VERSION, purpose="moments", seed=seed)
    hours = 24 * days
    is_heavy: list[bool] = []
    heavy = rates.percent(50)
    while len(is_heavy) < hours:
        is_heavy += [heavy] * rates.between(*(_HEAVY_HOURS if heavy else _LIGHT_HOURS))
        heavy = not heavy
    hourly = [rates.between(*_HOURLY_PERCENT) for _ in range(hours)]

    def cumulated(light_percent: int) -> list[int]:
        percent = [100 if heavy else light_percent for heavy in is_heavy[:hours]]
        return list(accumulate(a * b for a, b in zip(hourly, percent, strict=True)))

    for_long = cumulated(_LIGHT_PERCENT_OF_HEAVY)
    for_short = cumulated(_LIGHT_PERCENT_OF_HEAVY_FOR_SHORT_JOBS)
    submissions = []
    for duration_ms in durations_ms:
        rate = for_short if duration_ms <= _LONGEST_SHORT_JOB_MS else for_long
        hour = bisect_right(rate, moments.below(rate[-1]))
        submissions.append(hour * HOUR_MS + moments.below(HOUR_MS))
    return submissions


def days_of(workload: Workload) -> int:
    """Return the number of days of a workload, counted from time 0.

    The last day counts if the workload covers at least half of it.
    """
    return max(1, int(workload.jobs[-1].submit_s / DAY_S + 0.5))


def usual_block_days(source_days: int) -> int:
    """Return the usual number of consecutive days that a bootstrap draws together.

    The cube root of the number of days, rounded down, because the best length for an estimate of a
    variance grows in this way (Hall, Horowitz and Jing, "On blocking rules for the bootstrap with
    dependent data", Biometrika 82, 1995).
    """
    return int(np.cbrt(source_days))


def drawn_days(source_days: int, *, days: int, block_days: int, seed: int) -> list[int]:
    """Return `days` days drawn with replacement, as numbers from 0 to ``source_days - 1``.

    Blocks of consecutive days are drawn, each beginning with any day equally likely (Kuensch, "The
    jackknife and the bootstrap for general stationary observations", Annals of Statistics 17,
    1989). The first day follows the last one, so that all days are equally likely (Politis and
    Romano, "A circular block-resampling procedure for stationary data", 1992).
    """
    stream = IntegerStream(workload="bootstrapped", purpose="days", seed=seed)
    chosen: list[int] = []
    while len(chosen) < days:
        first = stream.below(source_days)
        chosen += [(first + place) % source_days for place in range(block_days)]
    return chosen[:days]


def bootstrapped(workload: Workload, *, days: int = 10, block_days: int = 1, seed: int) -> Workload:
    """Return a workload of `days` days drawn with replacement from the days of a workload.

    Lyra's authors make ten traces of ten days from their trace in this way (section 7.2, figure
    12).

    Parameters
    ----------
    workload
        The original workload; see `days_of`.
    days
        The number of days to draw, at least 1.
    block_days
        The number of consecutive days that are drawn together, at least 1; see `drawn_days`.
    seed
        The random seed, at least 0.

    Raises
    ------
    FieldError
        If a value breaks its rule, or no job was submitted on any of the days drawn.
    """
    require_integer("days", days, minimum=1)
    require_integer("seed", seed, minimum=0)
    source_days = days_of(workload)
    if not 1 <= block_days <= source_days:
        rule = f"must be from 1 to {source_days}, the number of days of the jobs"
        raise FieldError("block_days", block_days, rule)
    jobs_of: list[list[Job]] = [[] for _ in range(source_days)]
    for job in workload.jobs:
        day = int(job.submit_s // DAY_S)
        if day < source_days:
            jobs_of[day].append(job)
    chosen = drawn_days(source_days, days=days, block_days=block_days, seed=seed)
    jobs = [
        replace(
            job,
            id=f"d{number + 1}-{job.id}",
            submit_s=number * DAY_S + (job.submit_s - day * DAY_S),
        )
        for number, day in enumerate(chosen)
        for job in jobs_of[day]
    ]
    if not jobs:
        raise FieldError("seed", seed, "must draw a day on which jobs were submitted")
    listed = ", ".join(str(day + 1) for day in chosen)
    return Workload(
        name=f"{workload.name}-bootstrapped{days}d-seed{seed}",
        jobs=tuple(jobs),
        assumptions=(
            *workload.assumptions,
            f"Bootstrapped: days {listed} of {source_days}, drawn with replacement.",
        ),
    )


_FIGURES = files("lyra_opt.instances.workloads").joinpath("lyra_like.toml")
INFERENCE_BUSY_PER_MILLE = tuple(
    tomllib.loads(_FIGURES.read_text("utf-8"))["inference_busy_per_mille"]
)
"""Busy inference GPUs in thousandths, for each hour of the week of figure 1."""

LARGEST_DEPARTURE = 0.0282
"""The largest deviation of the busy share from its curve, for a median change of 2 % in 5 min."""


def inference_demand(
    *, days: int = PUBLISHED_DAYS, seed: int = 0, servers: int = PUBLISHED_INFERENCE_SERVERS
) -> InferenceDemand:
    """Generate the demand of an inference cluster with the published hourly load of Lyra's cluster.

    The hourly curve of figure 1 covers one week, and repeats. It is interpolated to steps of 5
    minutes. Random bursts are added: in each hour the twelve steps deviate from the curve by twelve
    equally spaced amounts from -2.8 % to 2.8 % of the cluster, in random order. The mean of each
    hour is that of the curve. The median change from one step to the next is 2 % of the cluster,
    the burst that Lyra's headroom covers (section 7.1). The deviations are unpredictable: a
    forecast that knows the curve has a mean squared error of about 0.0003, and Lyra's predictor has
    0.00048 (section 6).

    Parameters
    ----------
    days
        The number of days, at least 1.
    seed
        The random seed of the bursts, at least 0.
    servers
        The number of 8-GPU servers of the cluster, at least 1; busy shares are multiples of one
        GPU.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    require_integer("days", days, minimum=1)
    require_integer("seed", seed, minimum=0)
    require_integer("servers", servers, minimum=1)
    stream = IntegerStream(workload="inference-demand", version=VERSION, seed=seed)
    middles = _values_at_half_past()
    gpus = servers * GPUS_PER_SERVER
    shares = []
    for hour in range(24 * days):
        at = hour % len(middles)
        before, middle, after = middles[at - 1], middles[at], middles[(at + 1) % len(middles)]
        departures = list(range(1 - STEPS_PER_HOUR, STEPS_PER_HOUR, 2))
        stream.shuffle(departures)
        for step, departure in enumerate(departures):
            from_middle = (2 * step + 1 - STEPS_PER_HOUR) / (2 * STEPS_PER_HOUR)
            neighbour = before if from_middle < 0 else after
            smooth = middle + (neighbour - middle) * abs(from_middle)
            share = smooth + departure / (STEPS_PER_HOUR - 1) * LARGEST_DEPARTURE
            shares.append(round(min(1.0, max(0.0, share)) * gpus) / gpus)
    return InferenceDemand(
        name=f"lyra-like-inference-v{VERSION}-{days}d-{servers}servers-seed{seed}",
        step_s=float(STEP_S),
        busy_share=tuple(shares),
        assumptions=(
            "Generated: the hourly load that Lyra's figure 1 shows for one week, repeated.",
            "Assumed: within each hour the load deviates at random from the curve by up to 2.8 % "
            "of the cluster, so that the median change within 5 minutes is 2 %.",
        ),
    )


def _values_at_half_past() -> list[float]:
    """Return busy shares at half past each hour whose linear interpolation has the hourly means.

    The mean over an hour is 6/8 of the value in the middle of the hour plus 1/8 of each
    neighbouring value. This linear system is solved by iteration, which reduces the error to a
    third each time.
    """
    means = [per_mille / 1000 for per_mille in INFERENCE_BUSY_PER_MILLE]
    values = means
    for _ in range(40):
        values = [
            (8 * mean - values[hour - 1] - values[(hour + 1) % len(values)]) / 6
            for hour, mean in enumerate(means)
        ]
    return values


TESTBED_JOBS = 180
TESTBED_ELASTIC_PERCENT = 6
TESTBED_SPAN_S = 8 * 3600
TESTBED_WIDEST_JOB = 16
# Quantiles of running times: from 2 minutes to 2 hours, as published.
# The mean running time, 2,540 s, is the published mean JCT minus the mean queuing time.
TESTBED_DURATIONS_S = ((0.0, 120.0), (0.5, 1400.0), (1.0, 7200.0))


def lyra_testbed(
    cluster: Cluster,
    seed: int,
    *,
    jobs: int = TESTBED_JOBS,
    assumptions: JobAssumptions | None = None,
) -> Workload:
    """Return the jobs of Lyra's testbed (section 7.5).

    Each job is a job of `lyra_like` with half as many GPUs, at most 16. Submissions last 8 hours.
    Running times are 2 minutes to 2 hours, in the same order as the original running times.

    Parameters
    ----------
    cluster
        The cluster; no job needs more than its training GPUs.
    seed
        The random seed.
    jobs
        The number of jobs.
    assumptions
        The assumptions on the jobs. None for Basic with 6 % elastic jobs, which are 11 of 180; the
        paper has 10.
    """
    shares = assumptions or JobAssumptions(elastic_percent=TESTBED_ELASTIC_PERCENT)
    original = lyra_like(training_gpus=cluster.gpus, jobs=jobs, seed=seed, assumptions=shares)
    first_s = original.jobs[0].submit_s
    faster = TESTBED_SPAN_S / original.submission_span_s
    by_length = sorted(range(jobs), key=lambda place: original.jobs[place].duration_s)
    portions, durations_s = zip(*TESTBED_DURATIONS_S, strict=True)
    duration_s = {
        place: float(np.interp((rank + 0.5) / jobs, portions, durations_s))
        for rank, place in enumerate(by_length)
    }
    scaled: list[Job] = []
    for place, job in enumerate(original.jobs):
        workers = min(max(1, job.min_workers // 2), TESTBED_WIDEST_JOB)
        scaled.append(
            replace(
                job,
                submit_s=(job.submit_s - first_s) * faster,
                work_worker_s=duration_s[place] * workers,
                min_workers=workers,
                max_workers=workers * job.max_workers // job.min_workers,
            )
        )
    return Workload(
        name=f"{original.name}-testbed",
        jobs=tuple(scaled),
        assumptions=(*original.assumptions, "Scaled to the paper's testbed."),
    )
