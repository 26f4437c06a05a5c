"""Workloads with the published statistics of Dally's job sets, and traces with Dally's models.

Source of the statistics: the job files of Dally's public simulator (aakash-sharma/cluster-sim). The
numbers of jobs per model and per gang size are those of the files. Which model a gang trains, and
the work of each job, are drawn.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from statistics import NormalDist
from typing import TypeVar

import msgspec

from lyra_opt.core.numbers import DAY_MS, HOUR_MS
from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_JOBS
from lyra_opt.simulation.workload import Job, Workload

KindT = TypeVar("KindT")

LEAST_WORK_H = 2.0
MOST_WORK_H = 323.8


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSet:
    """The statistics of a set of jobs: jobs per model, jobs per gang size, and their work.

    The work of a job is log-normal, cut off at `LEAST_WORK_H` and `MOST_WORK_H`, with the published
    median and mean.

    Parameters
    ----------
    name
        The first part of the names of workloads.
    models
        The number of jobs that train each model.
    gangs
        The number of jobs with each gang size in GPUs.
    log_work_h, log_spread
        Mean and standard deviation of the logarithm of the work, in hours on one GPU, before the
        distribution is cut off.
    """

    name: str
    models: Mapping[str, int]
    gangs: Mapping[int, int]
    log_work_h: float
    log_spread: float

    @property
    def jobs(self) -> int:
        """The total number of jobs."""
        return sum(self.models.values())

    def work_h(self, share: float) -> float:
        """Return the quantile of the work, in hours on one GPU, for a share between 0 and 1."""
        normal = NormalDist(self.log_work_h, self.log_spread)
        below, above = normal.cdf(math.log(LEAST_WORK_H)), normal.cdf(math.log(MOST_WORK_H))
        return math.exp(normal.inv_cdf(below + share * (above - below)))

    def drawn_work_ms(self, jobs: int, stream: IntegerStream) -> list[int]:
        """Return the work of `jobs` random jobs, in milliseconds on one GPU, in random order.

        One value comes from each of `jobs` equally likely intervals, so that every seed has nearly
        the same distribution. Values are rounded to milliseconds, because the last digit of a
        logarithm may differ between machines.
        """
        drawn = [
            round(HOUR_MS * self.work_h((place + stream.fraction()) / jobs))
            for place in range(jobs)
        ]
        stream.shuffle(drawn)
        return drawn


_JOB_SETS = msgspec.toml.decode(
    (files("lyra_opt.instances.network") / "job_sets.toml").read_bytes(), type=dict[str, JobSet]
)
BATCH, DISTRIBUTED = _JOB_SETS["batch"], _JOB_SETS["distributed"]


def apportioned(counts: Mapping[KindT, int], total: int) -> list[KindT]:
    """Return a list of `total` items, sorted by kind, with frequencies in proportion to `counts`.

    If `total` is the sum of the counts, the frequencies are the counts. Otherwise they are rounded
    by the method of largest remainders, with ties in the order of `counts`. Takes O(kinds log kinds
    + total) time.

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
"""The version of the generator, raised whenever a seed gives another workload."""


PUBLISHED_JOBS_PER_DAY = (10.0, 100 / 7, 25.0, 50.0, 75.0, 100.0)
"""Arrival rates of Dally's Poisson job sets, in jobs per day; the second is 100 jobs per week."""

DISTRIBUTED_DAYS = (6.9, 13.9)
"""Days over which the distributed set was submitted: by one process, and by three processes."""

DISTRIBUTED_JOBS_PER_DAY = DISTRIBUTED.jobs / DISTRIBUTED_DAYS[0]


def dally_batch(*, seed: int, jobs: int = BATCH.jobs) -> Workload:
    """Return Dally's batch set, whose jobs are all submitted at time 0.

    The numbers of jobs per model and per gang size are the published ones. The pairing of models
    with gang sizes is random, and the work is drawn.

    Parameters
    ----------
    seed
        The random seed, at least 0; each property has its own random stream.
    jobs
        The number of jobs. Any number other than the published 500 keeps the shares of models and
        gang sizes and the distribution of work.

    Raises
    ------
    FieldError
        If a value breaks its rule.

    Notes
    -----
    The published work on one GPU is 2.0 h to 323.8 h, with median 15.6 h and mean 26.1 h; a
    truncated log-normal distribution matches all four. The published quotient of work and gang size
    has median 4.0 h and mean 14.6 h. With independent work and gang size it has median 6.9 h and
    mean 16.0 h, so in the original set large gangs have somewhat more work than small ones. Takes
    O(jobs) time.
    """
    return _workload(BATCH, jobs, seed, jobs_per_day=None)


def dally_poisson(
    *, seed: int, jobs: int = BATCH.jobs, jobs_per_day: float = PUBLISHED_JOBS_PER_DAY[-1]
) -> Workload:
    """Return the jobs of `dally_batch`, with the same seed, submitted by a Poisson process.

    Parameters
    ----------
    seed, jobs
        As for `dally_batch`.
    jobs_per_day
        The mean arrival rate, above 0. The default is the highest of `PUBLISHED_JOBS_PER_DAY`, the
        rates of the paper's simulator. Another rate scales all times between submissions.
    """
    return _workload(BATCH, jobs, seed, jobs_per_day=jobs_per_day)


def dally_distributed(
    *, seed: int, jobs: int = DISTRIBUTED.jobs, jobs_per_day: float = DISTRIBUTED_JOBS_PER_DAY
) -> Workload:
    """Return Dally's distributed set: only gangs of several GPUs, submitted by a Poisson process.

    Parameters
    ----------
    seed, jobs
        As for `dally_batch`; the published set has 411 jobs.
    jobs_per_day
        The mean arrival rate, above 0. At the default rate the published jobs arrive within 6.9
        days; at half of it, within 13.9 days. Both lengths are published.
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
        rate = f"by a Poisson process with {jobs_per_day:.3g} jobs per day"
    return Workload(
        name=f"{name}-v{VERSION}-{jobs}jobs-seed{seed}",
        jobs=tuple(generated),
        assumptions=_assumptions(job_set, jobs, rate),
    )


def _assumptions(job_set: JobSet, jobs: int, rate: str) -> tuple[str, ...]:
    numbers = f"{job_set.jobs} jobs"
    if jobs != job_set.jobs:
        numbers = f"{numbers}; this workload has {jobs} with the same shares"
    ideal = (
        " Work divided by GPUs has median 6.9 h and mean 16.0 h; the published values are 4.0 h "
        "and 14.6 h."
        if job_set is BATCH
        else " Assumed: the smallest and largest work are those of the batch set."
    )
    return (
        f"Generated with the statistics of Dally's {job_set.name.removeprefix('dally-')} set "
        f"({numbers}), submitted {rate}. Models and gang sizes are as frequent as in the job files "
        "of Dally's public simulator. Assumed: models and gang sizes are paired at random; VGG is "
        "VGG11.",
        "Assumed: work on one GPU is log-normal, with the published median and mean, and does not "
        f"depend on the gang.{ideal}",
    )


ASSIGNED_VERSION = 1
"""The version of the assignment of models, raised whenever a seed gives another workload."""


def shares_of(models: Collection[str]) -> Mapping[str, int]:
    """Return relative probabilities of models, for the jobs of a trace that name no model.

    They are the shares of Dally's batch set if `models` has all models of that set. Otherwise all
    `models` are equally likely.
    """
    if all(model in models for model in BATCH.models):
        return BATCH.models
    return dict.fromkeys(models, 1)


def assigned_models(
    trace: Workload, *, seed: int, shares: Mapping[str, int] = BATCH.models
) -> Workload:
    """Return a trace whose jobs all have a model: the one in the trace, or else a random one.

    The gang size of a job is its base demand in GPUs. Its work is its running time in the trace
    times its GPUs; the cost of the network in the simulation comes on top. Steps, weights,
    deadlines and GPU types are kept.

    Parameters
    ----------
    trace
        Any workload.
    seed
        The random seed.
    shares
        The relative probabilities of the models; by default those of Dally's batch set.

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
            "Assumed: a job's running time in the trace is its running time on a network without "
            "any cost.",
        ),
    )


def _where_models_are_from(drawn: int, jobs: int, shares: Mapping[str, int]) -> str:
    """Return a sentence that says where the models of a workload come from."""
    if not drawn:
        return "The models of all jobs are those of the trace, for every seed."
    total = sum(shares.values())
    listed = ", ".join(f"{model} {100 * share / total:.3g} %" for model, share in shares.items())
    whose = "its jobs" if drawn == jobs else f"{drawn:,} of its {jobs:,} jobs"
    how = (
        "with the shares of Dally's batch set"
        if shares == BATCH.models
        else "with equal probability from the models of the slowdowns"
    )
    return (
        f"Assigned by seed: the trace does not name the models of {whose}; models are drawn {how} "
        f"({listed})."
    )
