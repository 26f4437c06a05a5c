"""Workloads and inference demand with the published figures of Lyra's production clusters.

The paper (Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys 2023) keeps
its traces private, but prints enough figures to pin most of a workload down: 50,390 jobs in 15
days on 3,544 training GPUs, percentiles of the JCT under FIFO (table 8), means of queuing time,
JCT and usage (table 5), the shares of elastic and fungible jobs (section 7.1), and the load of
the inference cluster hour by hour (figure 1). What it does not print is assumed here, and said
to be in the ``assumptions`` of every workload.

The published percentiles of the JCT alone ask for a mean of at least 13,113 s (each job counted
at the percentile below it), and the mean running time is about 13,540 s. So running times cannot
be spread smoothly: they must lie in narrow bands at the percentiles, as `_CLASSES` has them.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_DAYS, MOST_GENERATED_JOBS
from lyra_opt.instances.workloads.load_shape import (
    HALF_A_DAY_BAND_S,
    LoadShape,
    ShapedClass,
    ShapedJobs,
    shaped_jobs,
)
from lyra_opt.instances.workloads.transform import JobAssumptions, assigned
from lyra_opt.simulation.workload import InferenceDemand, Job, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.cluster import Cluster

PUBLISHED_DAYS = 15
PUBLISHED_JOBS = 50_390
PUBLISHED_TRAINING_GPUS = 3_544
PUBLISHED_INFERENCE_SERVERS = 520
GPUS_PER_SERVER = 8

DAY_S = 86_400
HOUR_MS = 3_600_000
STEP_S = 300
STEPS_PER_HOUR = 12
VERSION = 1
"""Goes up when a seed gives another workload."""

GPUS_PER_JOB = (1, 2, 4, 8, 16, 32, 64)


_HALF_A_DAY_OR_LESS = ((0, 26_000), (1000, 27_500))
_A_DAY = ((0, 77_000), (1000, 81_000))
_DAYS = ((0, 360_000), (1000, 384_000))
_SHORT_JOBS = (700, 110, 85, 85, 14, 4, 2)
_LONG_JOBS = (486, 153, 145, 157, 37, 15, 7)
_ELASTIC_JOBS = (0, 0, 280, 469, 199, 44, 8)

_WIDE_JOBS = (0, 0, 0, 300, 400, 200, 100)

_CLASSES = (  # shares in parts of 100,000, of GPUs per mille by `GPUS_PER_JOB`
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
_PARTS = 1 << 20  # of an interval that a draw can hit

# Hours of heavy and of light submission take turns. The lengths, and how much less is submitted
# in light hours, are such that strict FIFO on pooled GPUs queues jobs about as the paper has it.
_HEAVY_HOURS = (7, 9)
_LIGHT_HOURS = (15, 17)
_LIGHT_PERCENT_OF_HEAVY = 5
_LIGHT_PERCENT_OF_HEAVY_FOR_SHORT_JOBS = 70
_HOURLY_PERCENT = (50, 150)

GENERATED = (
    "Generated, not a trace: Lyra's own is private; means and percentiles of running times, GPU "
    "time and kinds of jobs are those published or follow from them, the rest is assumed."
)
ONE_GPU_WORKERS = "Assumed: each worker holds one GPU."
ASSUMPTIONS: tuple[str, ...] = (
    GENERATED,
    "Assumed: running times lie in narrow bands at the published percentiles of the JCT less the "
    "mean queuing time, for these and the mean leave no room for more.",
    "Assumed: 1 to 64 GPUs per job, in powers of two, 61 % of the jobs on one GPU, long jobs wider "
    "than short ones, so that the cluster is asked for 77 % of its GPU time: the paper states a "
    "usage of 72 % (table 5) and of 82 % (section 2), and with 77 % jobs queue as published.",
    "Assumed: jobs of the elastic kind (5 % of all, 36 % of the GPU time) run for 14.2 hours with "
    "about 10 GPUs each at their base demand.",
    "Assumed: submissions are a doubly stochastic Poisson process, in which 7 to 9 heavy hours and "
    "15 to 17 light ones take turns, and every hour has a random rate of its own; jobs of less "
    "than 50 minutes come more evenly.",
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
    """Generate a workload with the published figures of Lyra's trace.

    Lyra's scenarios (section 7.1) are: Basic, what is assumed by default; Advanced,
    `heterogeneous_percent` 10; Heterogeneous, that and `fungible_percent` 0; Ideal, `all_elastic`.
    Every draw has a stream of its own, so that workloads that differ in an assumption are equal in
    all else.

    Parameters
    ----------
    days
        Length of the submissions, at least 1.
    seed
        Of all draws, at least 0; the same seed gives the same workload on any machine.
    training_gpus
        Of the cluster that the load is meant for, at least 1. No job asks for more.
    jobs
        How many; None scales the published 50,390 with days and GPUs, which keeps the load.
    assumptions
        Of the jobs; None for Basic. Up to 5 %, elastic jobs are drawn from those of the elastic
        kind; beyond, from all others.
    shape
        When jobs come and how large they are, in place of what is assumed of both.

    Raises
    ------
    FieldError
        If a value breaks its rule.

    Notes
    -----
    Shares and quantiles are kept by every workload, not only in the mean over seeds: kinds of
    jobs, GPUs and running times are drawn one from each of equally likely intervals. With fewer
    than some thousand jobs the load still varies, for a handful of jobs holds a quarter of the GPU
    time. Time O(jobs log jobs), about two seconds for 50,390.

    How well it fits, by strict FIFO on pooled GPUs with seeds 0 to 5 (published: tables 5 and 8):
    mean queuing time 2,530 to 4,920 s (3,072), its median 0 (55), 75th percentile 4,050 to 9,940
    (1,892) and 95th 11,900 to 21,900 (8,357); mean JCT 16,060 to 18,440 s (16,610), its median
    1,890 to 4,540 (791), 75th percentile 26,200 to 26,600 (29,163), 95th 77,300 (82,933) and 99th
    362,000 (376,513); 31 to 39 % of the jobs queue (38 %). Medians are not met: a pooled cluster
    is either full for hours or not at all. The load, 77 % of the GPU time during submissions, lies
    between the two usages that the paper states, 72 % (table 5) and 82 % (section 2).
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
    """Return the jobs of `lyra_like` with a shape as arrays, in a hundredth of the time.

    Parameters and errors as there.
    """
    jobs = _job_count(days=days, seed=seed, training_gpus=training_gpus, jobs=jobs)
    half_a_day = ((0, shape.half_a_day_s), (1000, shape.half_a_day_s + HALF_A_DAY_BAND_S))
    classes = []
    for position, kind in enumerate(_CLASSES):
        is_short = position == 0
        quantiles = kind.quantiles
        if is_short:
            quantiles = shape.short_quantiles
        elif quantiles == _HALF_A_DAY_OR_LESS:
            quantiles = half_a_day
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
        classes,
        GPUS_PER_JOB,
        shape,
        jobs=jobs,
        days=days,
        training_gpus=training_gpus,
        seed=seed,
    )


def _job_count(*, days: int, seed: int, training_gpus: int, jobs: int | None) -> int:
    """Return how many jobs there are, once what is asked for has been checked."""
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
    """Draw (submission in ms, running time in ms, GPUs, whether of the elastic kind), in order."""
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
    """Draw (running time in ms, GPUs, whether of the elastic kind) of each job, in no order."""
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
    """Draw a position of `shares` from each of equally likely intervals, in rising order.

    How often each is drawn differs from its share of the draws by less than 2, and by nothing in
    the mean, however few the draws are.
    """
    ends = list(accumulate(shares))
    unit = ends[-1] * _PARTS  # of which there are `intervals` in all
    drawn = []
    for interval in range(intervals):
        place = interval * unit + stream.below(unit)
        drawn.append(bisect_right(ends, place // (intervals * _PARTS)))
    return drawn


def _quantile_ms(
    quantiles: Sequence[tuple[int, int]], interval: int, intervals: int, stream: IntegerStream
) -> int:
    """Draw from one of equally likely intervals, by the quantile function, in integers."""
    parts = _PARTS
    place = (interval * parts + stream.below(parts)) * 1000  # of `intervals * parts` per mille
    for (low, low_s), (high, high_s) in pairwise(quantiles):
        if place < high * intervals * parts:
            above = place - low * intervals * parts
            return low_s * 1000 + (high_s - low_s) * 1000 * above // (
                (high - low) * intervals * parts
            )
    raise AssertionError("the quantile function ends at 1000 per mille")


def _submissions_ms(durations_ms: Sequence[int], days: int, seed: int) -> list[int]:
    """Draw when each job is submitted, given how many there are in all."""
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


def bootstrapped(workload: Workload, *, days: int = 10, seed: int) -> Workload:
    """Return `days` days drawn with replacement from the days of a workload.

    So does Lyra to get ten traces of ten days out of its one (section 7.2, figure 12).

    Parameters
    ----------
    workload
        Its days are counted from moment 0; the last one counts when half of it or more is there.
    days
        At least 1.
    seed
        Of the draws, at least 0.

    Raises
    ------
    FieldError
        If a value breaks its rule, or no job was submitted on any of the days drawn.
    """
    require_integer("days", days, minimum=1)
    require_integer("seed", seed, minimum=0)
    source_days = max(1, int(workload.jobs[-1].submit_s / DAY_S + 0.5))
    jobs_of: list[list[Job]] = [[] for _ in range(source_days)]
    for job in workload.jobs:
        day = int(job.submit_s // DAY_S)
        if day < source_days:
            jobs_of[day].append(job)
    stream = IntegerStream(workload="bootstrapped", purpose="days", seed=seed)
    chosen = [stream.below(source_days) for _ in range(days)]
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


INFERENCE_BUSY_PER_MILLE = (
    # Share of inference GPUs that serve, hour by hour from 1 to 7 October 2020 (figure 1).
    *(645, 502, 442, 425, 422, 439, 526, 624, 695, 770, 831, 843),
    *(831, 831, 840, 807, 829, 834, 839, 906, 968, 966, 968, 871),
    *(606, 487, 426, 420, 402, 420, 467, 529, 621, 698, 805, 820),
    *(795, 786, 788, 797, 812, 834, 847, 933, 972, 967, 922, 751),
    *(595, 480, 429, 407, 400, 421, 485, 564, 644, 747, 865, 891),
    *(850, 839, 752, 779, 777, 787, 785, 871, 926, 927, 847, 685),
    *(545, 450, 411, 388, 401, 418, 481, 551, 618, 706, 772, 769),
    *(742, 728, 726, 764, 778, 781, 774, 857, 928, 946, 856, 701),
    *(585, 493, 463, 454, 450, 465, 529, 589, 669, 735, 808, 812),
    *(780, 769, 763, 790, 806, 800, 821, 904, 938, 952, 880, 745),
    *(592, 501, 468, 460, 456, 471, 535, 584, 666, 731, 788, 800),
    *(782, 769, 762, 768, 803, 812, 816, 885, 916, 932, 840, 687),
    *(521, 418, 374, 359, 362, 382, 435, 537, 587, 676, 756, 769),
    *(731, 730, 725, 751, 757, 778, 781, 852, 899, 922, 839, 676),
)

LARGEST_DEPARTURE = 0.0282
"""Of the busy share from its smooth curve: the median change within 5 minutes is then 2 %."""


def inference_demand(
    *, days: int = PUBLISHED_DAYS, seed: int = 0, servers: int = PUBLISHED_INFERENCE_SERVERS
) -> InferenceDemand:
    """Generate the demand of an inference cluster with the published load of Lyra's.

    The hourly curve of figure 1 (one week, then again from its start) is interpolated to steps of
    5 minutes. Bursts are added: in each hour the twelve steps depart from the curve by twelve
    equally spaced amounts from -2.8 % to 2.8 % of the cluster, in random order. The mean of each
    hour stays that of the curve, and the median change from one step to the next is 2 % of the
    cluster, which is the burst that Lyra's headroom covers (section 7.1). The departures cannot
    be foreseen: a forecast that knows the curve has a mean squared error of about 0.0003, where
    Lyra's predictor has 0.00048 (section 6).

    Parameters
    ----------
    days
        At least 1.
    seed
        Of the bursts, at least 0.
    servers
        Of the cluster, 8 GPUs each, at least 1; shares are of whole GPUs.

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
            "Generated: the hourly load that Lyra's figure 1 shows for a week, again and again.",
            "Assumed: within each hour the load departs from the curve by up to 2.8 % of the "
            "cluster at random, so that the median change within 5 minutes is 2 %.",
        ),
    )


def _values_at_half_past() -> list[float]:
    """Return values between which straight lines have the published means of the hours.

    Such a line's mean over an hour is six eighths of its value at half past and an eighth of each
    neighbour's. That system is solved by repeated substitution, whose error shrinks to a third
    each time.
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
# Shares of the jobs and running times up to them: 2 minutes to 2 hours as published, and a mean of
# 2,540 s, by which the published means of JCT and queuing time differ.
TESTBED_DURATIONS_S = ((0.0, 120.0), (0.5, 1400.0), (1.0, 7200.0))


def lyra_testbed(
    cluster: Cluster,
    seed: int,
    *,
    jobs: int = TESTBED_JOBS,
    assumptions: JobAssumptions | None = None,
) -> Workload:
    """Return the jobs of the testbed (section 7.5).

    Each asks for half the GPUs of a job of the large cluster and none for more than 16,
    submissions last 8 hours, running times 2 minutes to 2 hours in the order of the original ones.

    Parameters
    ----------
    cluster
        Of whose training GPUs no job asks for more.
    seed
        Of all draws.
    jobs
        How many.
    assumptions
        Shares of jobs; None for Basic with 6 % elastic ones: 11 of 180, 10 in the paper.
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
