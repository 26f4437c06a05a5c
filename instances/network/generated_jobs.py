"""Workloads with the figures of Dally's: all jobs at once, or one after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.core.validation import require_integer, require_number
from lyra_opt.instances.network.job_sets import BATCH, DISTRIBUTED, apportioned
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_JOBS
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from lyra_opt.instances.network.job_sets import JobSet

VERSION = 1
"""Goes up when a seed gives another workload."""

DAY_MS = 86_400_000
_PARTS = 1 << 53

PUBLISHED_JOBS_PER_DAY = (10.0, 100 / 7, 25.0, 50.0, 75.0, 100.0)
"""Rates of the Poisson sets; the second is a hundred a week."""

DISTRIBUTED_DAYS = (6.9, 13.9)
"""Over which the distributed set was submitted, by one process and by three."""

DISTRIBUTED_JOBS_PER_DAY = DISTRIBUTED.jobs / DISTRIBUTED_DAYS[0]


def dally_batch(*, seed: int, jobs: int = BATCH.jobs) -> Workload:
    """Return the batch set: all jobs at time 0.

    Models and gangs are those published in number, paired at random; work is drawn.

    Parameters
    ----------
    seed
        Of all draws, at least 0; each property is drawn from a stream of its own.
    jobs
        How many; other numbers than the published 500 keep the shares of models, gangs and work.

    Raises
    ------
    FieldError
        If a value breaks its rule.

    Notes
    -----
    Published of the work on one GPU: from 2.0 h to 323.8 h, median 15.6 h, mean 26.1 h, which a
    log-normal distribution with these ends meets. Published of work over gang: median 4.0 h, mean
    14.6 h; with work and gang independent they are 6.9 h and 16.0 h, so that in the original
    large gangs work somewhat longer than small ones. Time O(jobs).
    """
    return _workload(BATCH, jobs, seed, jobs_per_day=None)


def dally_poisson(*, jobs_per_day: float, seed: int, jobs: int = BATCH.jobs) -> Workload:
    """Return the jobs of `dally_batch` of the same seed, submitted one after the other.

    Parameters
    ----------
    jobs_per_day
        Mean rate of the Poisson process, above 0; `PUBLISHED_JOBS_PER_DAY` are those of the paper's
        simulator. Rates stretch the same gaps.
    seed, jobs
        As for `dally_batch`.
    """
    return _workload(BATCH, jobs, seed, jobs_per_day=jobs_per_day)


def dally_distributed(
    *, seed: int, jobs: int = DISTRIBUTED.jobs, jobs_per_day: float = DISTRIBUTED_JOBS_PER_DAY
) -> Workload:
    """Return the set of gangs of several GPUs alone.

    Parameters
    ----------
    seed, jobs
        As for `dally_batch`; 411 were published.
    jobs_per_day
        Mean rate of the Poisson process, above 0; by default the published jobs take 6.9 days,
        and 13.9 days at half the rate, both as published.
    """
    return _workload(DISTRIBUTED, jobs, seed, jobs_per_day=jobs_per_day)


def _workload(job_set: JobSet, jobs: int, seed: int, *, jobs_per_day: float | None) -> Workload:
    require_integer("jobs", jobs, minimum=1, maximum=MOST_GENERATED_JOBS)
    require_integer("seed", seed, minimum=0)
    if jobs_per_day is not None:
        require_number("jobs_per_day", jobs_per_day, minimum=0, above=True)

    def stream(purpose: str) -> IntegerStream:
        return IntegerStream(workload=job_set.name, version=VERSION, purpose=purpose, seed=seed)

    models, gangs = apportioned(job_set.models, jobs), apportioned(job_set.gangs, jobs)
    stream("models").shuffle(models)
    stream("gangs").shuffle(gangs)
    work_ms = job_set.drawn_work_ms(jobs, stream("work"))
    gaps = stream("gaps")
    submit_ms = 0
    generated = []
    for number, (model, gang, worked_ms) in enumerate(zip(models, gangs, work_ms, strict=True)):
        if number and jobs_per_day is not None:
            waited = -math.log1p(-gaps.below(_PARTS) / _PARTS)
            submit_ms += round(DAY_MS * waited / jobs_per_day)
        generated.append(
            Job.rigid(
                id=f"j{number}",
                submit_s=submit_ms / 1000,
                gpus=gang,
                work_gpu_s=worked_ms / 1000,
                model=model,
            )
        )
    name = job_set.name
    rate = "all at once"
    if jobs_per_day is not None:
        name = name.replace("batch", "poisson") + f"-{jobs_per_day:.3g}perday"
        rate = f"one after the other, {jobs_per_day:.3g} a day on average (Poisson)"
    return Workload(
        name=f"{name}-v{VERSION}-{jobs}jobs-seed{seed}",
        jobs=tuple(generated),
        assumptions=_assumptions(job_set, jobs, rate),
    )


def _assumptions(job_set: JobSet, jobs: int, rate: str) -> tuple[str, ...]:
    numbers = f"{job_set.jobs} jobs"
    if jobs != job_set.jobs:
        numbers = f"{numbers}, here {jobs} with the same shares"
    ideal = (
        " Work over GPUs comes to 6.9 h at the median and 16.0 h in the mean; published are 4.0 h "
        "and 14.6 h."
        if job_set is BATCH
        else " Assumed: its ends are those of the batch set."
    )
    return (
        f"Generated with the figures of Dally's {job_set.name.removeprefix('dally-')} set "
        f"({numbers}), submitted {rate}: models and gang sizes as often as in the job files of its "
        "public simulator. Assumed: which model goes with which gang is drawn by seed; VGG is "
        "VGG11.",
        "Assumed: work on one GPU is log-normal, with the published median and mean, and does not "
        f"depend on the gang.{ideal}",
    )
