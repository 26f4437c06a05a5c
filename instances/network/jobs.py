"""Workloads with the figures of Dally's: its sets of jobs, and traces whose jobs train its models.

Source of the sets: the job files of Dally's public simulator (aakash-sharma/cluster-sim), counted.
Which model goes with which gang, and how long each job is, are drawn: the counts and a few figures
of the work are what is used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_JOBS
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


KindT = TypeVar("KindT")

HOUR_MS = 3_600_000
LEAST_WORK_H = 2.0
MOST_WORK_H = 323.8


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSet:
    """Jobs by what they train, by GPUs, and how much they work.

    The work of a job is log-normal between `LEAST_WORK_H` and `MOST_WORK_H`, with the median and
    the mean that were published.

    Parameters
    ----------
    name
        What workloads are called after.
    models
        How many jobs train each model.
    gangs
        How many jobs have so many GPUs.
    log_work_h, log_spread
        Mean and standard deviation of the logarithm of the hours on one GPU, before the ends are
        cut off.
    """

    name: str
    models: Mapping[str, int]
    gangs: Mapping[int, int]
    log_work_h: float
    log_spread: float

    @property
    def jobs(self) -> int:
        """All of them."""
        return sum(self.models.values())

    def work_h(self, share: float) -> float:
        """Return the hours on one GPU below which this share of the jobs is; 0 < share < 1."""
        normal = NormalDist(self.log_work_h, self.log_spread)
        below, above = normal.cdf(math.log(LEAST_WORK_H)), normal.cdf(math.log(MOST_WORK_H))
        return math.exp(normal.inv_cdf(below + share * (above - below)))

    def drawn_work_ms(self, jobs: int, stream: IntegerStream) -> list[int]:
        """Return the work of so many jobs, in milliseconds on one GPU, in no order.

        One from each of equally likely intervals, so that the figures hold for every seed and not
        only in the mean over seeds. Whole milliseconds: the last digit of a logarithm may differ
        between machines.
        """
        drawn = [
            round(HOUR_MS * self.work_h((place + stream.fraction()) / jobs))
            for place in range(jobs)
        ]
        stream.shuffle(drawn)
        return drawn


BATCH = JobSet(
    name="dally-batch",
    models={
        "mobilenetv3": 125,
        "bert": 125,
        "resnet50": 125,
        "alexnet": 53,
        "resnet18": 38,
        "vgg11": 34,
    },
    gangs={1: 270, 2: 13, 4: 52, 8: 109, 16: 42, 32: 11, 40: 1, 48: 1, 56: 1},
    log_work_h=2.71378,
    log_spread=1.05032,
)
"""500 jobs. Work: median 15.6 h and mean 26.1 h, from 2.0 h to 323.8 h, all as published."""

DISTRIBUTED = JobSet(
    name="dally-distributed",
    models={
        "mobilenetv3": 125,
        "bert": 125,
        "resnet50": 125,
        "alexnet": 29,
        "vgg11": 4,
        "resnet18": 3,
    },
    gangs={2: 41, 3: 1, 4: 96, 8: 190, 16: 56, 32: 23, 40: 2, 48: 1, 56: 1},
    log_work_h=2.95908,
    log_spread=1.05999,
)
"""411 jobs of several GPUs. Work: median 19.6 h and mean 32.6 h, as published; its ends are taken
from `BATCH`."""


def apportioned(counts: Mapping[KindT, int], total: int) -> list[KindT]:
    """Return `total` entries whose kinds have the shares of `counts`, kind by kind.

    The numbers of each are the counts themselves where `total` is their sum. By largest remainder
    else, the earlier kind first where remainders are equal. O(kinds log kinds + total).

    >>> apportioned({"a": 3, "b": 2, "c": 1}, 4)
    ['a', 'a', 'b', 'c']
    """
    everything = sum(counts.values())
    whole = {kind: total * count // everything for kind, count in counts.items()}
    left = total - sum(whole.values())
    by_remainder = sorted(counts, key=lambda kind: -(total * counts[kind] % everything))
    for kind in by_remainder[:left]:
        whole[kind] += 1
    return [kind for kind, count in whole.items() for _ in range(count)]


VERSION = 1
"""Goes up when a seed gives another workload."""

DAY_MS = 86_400_000

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


def dally_poisson(
    *, seed: int, jobs: int = BATCH.jobs, jobs_per_day: float = PUBLISHED_JOBS_PER_DAY[-1]
) -> Workload:
    """Return the jobs of `dally_batch` of the same seed, submitted one after the other.

    Parameters
    ----------
    seed, jobs
        As for `dally_batch`.
    jobs_per_day
        Mean rate of the Poisson process, above 0; `PUBLISHED_JOBS_PER_DAY` are those of the paper's
        simulator, and the busiest is the default. Rates stretch the same gaps.
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
            submit_ms += round(DAY_MS * gaps.exponential() / jobs_per_day)
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


ASSIGNED_VERSION = 1
"""Goes up when a seed gives another workload."""


def shares_of(models: Collection[str]) -> Mapping[str, int]:
    """Return how likely models are, in parts of their sum, where a trace does not say.

    Those of Dally's batch set if all of its models are known, else each known one as likely.
    """
    if all(model in models for model in BATCH.models):
        return BATCH.models
    return dict.fromkeys(models, 1)


def assigned_models(
    trace: Workload, *, seed: int, shares: Mapping[str, int] = BATCH.models
) -> Workload:
    """Return the jobs of a trace, each with the model that it names, or else one drawn by seed.

    A job's gang is its GPUs, elastic jobs with their base demand, and its work is its running time
    on all of them: in the trace the network cost it what it did, here that comes on top. Steps,
    weights, deadlines and the GPU types asked for are kept.

    Parameters
    ----------
    trace
        Any.
    seed
        Of the draws.
    shares
        How likely each model is, in parts of their sum; those of Dally's batch set by default.

    Notes
    -----
    Time O(jobs).
    """
    stream = IntegerStream(workload="network-models", version=ASSIGNED_VERSION, seed=seed)
    models, weights = list(shares), list(shares.values())
    drawn = sum(job.model is None for job in trace.jobs)
    return Workload(
        name=f"{trace.name}-network-models-seed{seed}" if drawn else trace.name,
        jobs=tuple(
            replace(
                Job.rigid(
                    id=job.id,
                    submit_s=job.submit_s,
                    gpus=job.min_gpus,
                    work_gpu_s=job.duration_s * job.min_gpus,
                    model=models[stream.weighted(weights)] if job.model is None else job.model,
                ),
                steps=job.steps,
                weight=job.weight,
                deadline_s=job.deadline_s,
                gpu_types=job.gpu_types,
            )
            for job in trace.jobs
        ),
        assumptions=(
            *trace.assumptions,
            _where_models_are_from(drawn, len(trace.jobs), shares),
            "Assumed: a job's running time in the trace is what it takes if the network costs "
            "nothing.",
        ),
    )


def _where_models_are_from(drawn: int, jobs: int, shares: Mapping[str, int]) -> str:
    """Return a sentence on what jobs train, of which so many are drawn."""
    if not drawn:
        return "What jobs train is as in the trace, whatever the seed."
    total = sum(shares.values())
    listed = ", ".join(f"{model} {100 * share / total:.3g} %" for model, share in shares.items())
    whose = "its jobs train" if drawn == jobs else f"{drawn:,} of its {jobs:,} jobs train"
    how = (
        "with the shares of Dally's batch set"
        if shares == BATCH.models
        else "from those of the slowdowns, each as likely"
    )
    return (
        f"Assigned by seed: the trace does not say what {whose}; models are drawn {how} ({listed})."
    )
