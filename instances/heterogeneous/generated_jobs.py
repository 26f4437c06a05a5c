"""Generated gangs for heterogeneous GPUs: Gavel's generator, HadarE's mixes, Hadar's 480 jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lyra_opt.core.errors import FieldError
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.heterogeneous.utility import Deadline
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.heterogeneous.throughputs import SCALED, ThroughputTable
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads import MOST_GENERATED_JOBS
from lyra_opt.simulation.cluster import GpuType
from lyra_opt.simulation.workload import Job, Workload

VERSION = 1
"""The version of the generator, raised whenever a seed gives another workload."""

GANGS = (1, 2, 4, 8)
GANG_PERCENT = (70, 10, 15, 5)
SHORT_PERCENT = 80
SHORT_EXPONENTS = (1.5, 3.0)
LONG_EXPONENTS = (3.0, 4.0)
"""Running times are 60 s x 10^u, where u is uniform between the two exponents."""

HIGH_PRIORITY = 5.0
SLO_FACTORS = (1.2, 2.0, 10.0)


MIX_SIZES = (1, 3, 4, 5, 8, 10, 12)
"""Numbers of jobs of HadarE's mixes, from memory."""

MIX_KINDS: tuple[tuple[tuple[str, int | None], int], ...] = (
    (("ResNet-18", 128), 3_600),
    (("LM", 20), 14_400),
    (("Transformer", 64), 14_400),
    (("Recommendation", 2048), 7_200),
    (("CycleGAN", None), 7_200),
)
"""The jobs of a mix, in order: model, batch size, and running time in seconds on a V100."""


def gavel_like(
    *,
    jobs: int,
    seed: int,
    gpu_types: Sequence[GpuType],
    arrivals_per_hour: float | None = None,
    largest_gang: int = GANGS[-1],
    high_priority_percent: int = 0,
    slo_percent: int = 0,
    table: ThroughputTable | None = None,
) -> Workload:
    """Generate jobs by the rules of Gavel's simulator.

    Source: scheduler/utils.py and generate_trace.py of stanford-futuredata/gavel. Running times on
    reference GPUs (V100) are log-uniform: from 32 to 1,000 min for 80 % of the jobs, and from 1,000
    to 10,000 min for the others. 70, 10, 15 and 5 % of the jobs have 1, 2, 4 and 8 GPUs. All models
    and batch sizes that were measured on the job's number of GPUs are equally likely.

    Parameters
    ----------
    jobs
        The number of jobs, at least 1.
    seed
        The random seed; each property has its own random stream.
    gpu_types
        The GPU types for which jobs get rates.
    arrivals_per_hour
        The mean arrival rate of a Poisson process, above 0; None submits all jobs at once.
    largest_gang
        The largest gang size, at least 1; larger gangs are never drawn.
    high_priority_percent
        The percentage of jobs with weight 5; Gavel uses 0 or 20.
    slo_percent
        The percentage of jobs with a deadline of 1.2, 2 or 10 times their running time, with equal
        probability; Gavel uses 0 or 100.
    table
        The throughput table; None for Gavel's. Running times are those on its reference GPUs.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    require_integer("jobs", jobs, minimum=1, maximum=MOST_GENERATED_JOBS)
    require_integer("seed", seed, minimum=0)
    require_integer("largest_gang", largest_gang, minimum=1)
    if arrivals_per_hour is not None:
        require_number("arrivals_per_hour", arrivals_per_hour, minimum=0, above=True)
    require_integer("high_priority_percent", high_priority_percent, minimum=0, maximum=100)
    require_integer("slo_percent", slo_percent, minimum=0, maximum=100)
    table = gavel_throughputs() if table is None else table

    def stream(purpose: str) -> IntegerStream:
        return IntegerStream(workload="gavel-like", version=VERSION, purpose=purpose, seed=seed)

    times, gangs, models = stream("times"), stream("gangs"), stream("models")
    gaps, priorities, deadlines = stream("gaps"), stream("priorities"), stream("deadlines")
    usable = sum(gang <= largest_gang for gang in GANGS)
    generated = []
    release_ms = 0
    for number in range(jobs):
        gang = GANGS[gangs.weighted(GANG_PERCENT[:usable])]
        choices = table.types_for(gang, gpu_types)
        low, high = SHORT_EXPONENTS if times.percent(SHORT_PERCENT) else LONG_EXPONENTS
        # Times are rounded to 1 ms, because the last digit of a power may differ between machines.
        reference_ms = round(60_000 * 10 ** (low + (high - low) * times.fraction()))
        factor = SLO_FACTORS[deadlines.below(len(SLO_FACTORS))]
        has_deadline = deadlines.percent(slo_percent)
        deadline_s = factor * reference_ms / 1000 if has_deadline else None
        drawn = table.gang_of(
            f"j{number}",
            choices[models.below(len(choices))],
            gang=gang,
            reference_s=reference_ms / 1000,
            release_s=release_ms / 1000,
            gpu_types=gpu_types,
            weight=HIGH_PRIORITY if priorities.percent(high_priority_percent) else 1.0,
            utility=None if deadline_s is None else Deadline(deadline_s=deadline_s),
        )
        generated.append(replace(Job.of_gang(drawn), deadline_s=deadline_s))
        if arrivals_per_hour is not None:
            release_ms += round(3_600_000 * gaps.exponential() / arrivals_per_hour)
    rate = "at once" if arrivals_per_hour is None else f"{arrivals_per_hour:g} per hour (Poisson)"
    return Workload(
        name=f"gavel-like-v{VERSION}-{jobs}jobs-seed{seed}",
        jobs=tuple(generated),
        packed=table.packed_rates([job.measured for job in generated], gpu_types),
        assumptions=(
            f"Generated by the rules of Gavel's simulator, submitted {rate}. {table.in_words}",
            *table.remarks(gpu_types),
            *((SCALED,) if set(GANGS[:usable]) - set(table.measured_gangs) else ()),
            *((f"No job has more than {largest_gang} GPUs.",) if usable < len(GANGS) else ()),
        ),
    )


def mix(
    jobs: int, *, gpu_types: Sequence[GpuType], table: ThroughputTable | None = None
) -> Workload:
    """Return a small mix of one-GPU jobs, all submitted at once, like HadarE's mix M-k.

    Parameters
    ----------
    jobs
        The number of jobs k, one of `MIX_SIZES`.
    gpu_types
        The GPU types for which jobs get rates.
    table
        A throughput table with the models of `MIX_KINDS`; None for Gavel's.

    Raises
    ------
    FieldError
        If `jobs` is not in `MIX_SIZES`, or the table lacks a model.
    """
    table = gavel_throughputs() if table is None else table
    if jobs not in MIX_SIZES:
        listed = ", ".join(map(str, MIX_SIZES))
        raise FieldError("jobs", jobs, f"must be one of: {listed}")
    gangs = []
    for number in range(jobs):
        model, reference_s = MIX_KINDS[number % len(MIX_KINDS)]
        name = model[0].lower()
        gangs.append(
            table.gang_of(
                f"{name}-{number}",
                table.find_type(*model, 1),
                gang=1,
                reference_s=reference_s,
                release_s=0.0,
                gpu_types=gpu_types,
            )
        )
    return Workload(
        name=f"mix-{jobs}",
        jobs=tuple(map(Job.of_gang, gangs)),
        assumptions=(
            f"Mix of {jobs} jobs of one GPU, all submitted at once. HadarE's mixes were not found; "
            "their sizes and models are from memory. Assumed: ResNet-18, LM, Transformer, "
            "Recommendation and CycleGAN in turn, with 1, 4, 4, 2 and 2 hours on "
            f"{table.reference}; CycleGAN replaces the weather model, which has no published "
            f"throughput. {table.in_words}",
            *table.remarks(gpu_types),
        ),
    )


HADAR_VERSION = 1
"""The version of `hadar_480`, raised whenever a seed gives another workload."""


@dataclass(frozen=True, slots=True)
class JobClass:
    """A class of jobs with similar GPU time, and the models assigned to its jobs.

    Parameters
    ----------
    name
        One or two letters.
    least_gpu_h, most_gpu_h
        The GPU time in hours: above `least_gpu_h`, at most `most_gpu_h`.
    single, distributed
        Model and batch size of jobs with one GPU, and of jobs with several GPUs.
    """

    name: str
    least_gpu_h: float
    most_gpu_h: float
    single: tuple[str, int | None]
    distributed: tuple[str, int | None]

    def holds(self, gpu_h: float) -> bool:
        """Return whether a job with this GPU time, in hours, belongs to the class."""
        return self.least_gpu_h < gpu_h <= self.most_gpu_h


HADAR_CLASSES = (
    JobClass("S", 0, 1, ("ResNet-18", 128), ("ResNet-18", 128)),
    JobClass("M", 1, 10, ("CycleGAN", None), ("Transformer", 64)),
    JobClass("L", 10, 50, ("LM", 20), ("LM", 20)),
    JobClass("XL", 60, 100, ("ResNet-50", 64), ("ResNet-50", 64)),
)
"""Hadar's job classes; bounds and models are from memory. In Hadar, Transformer belongs to class L.
It is assigned to class M on several GPUs, because CycleGAN was not measured on several GPUs."""

PHILLY_TRACE = "philly_jobs.csv.gz"
"""The file of the Philly trace, from which Hadar draws its jobs."""

HADAR_JOBS = 480
HADAR_GANGS = (1, 2, 4, 8)
BUSY_HOURS = (3, 11)
"""The first busy hour of the day, and the hour after the last one."""


def hadar_480(
    trace: Workload,
    *,
    seed: int,
    gpu_types: Sequence[GpuType],
    jobs: int = HADAR_JOBS,
    table: ThroughputTable | None = None,
) -> Workload:
    """Return jobs drawn from a trace by job class, as in Hadar's simulation.

    Parameters
    ----------
    trace
        Any workload. Its candidates are jobs of one of the classes with 1, 2, 4 or 8 GPUs that were
        submitted in the busy hours; days are counted from the first submission.
    seed
        The random seed.
    gpu_types
        The GPU types for which jobs get rates.
    jobs
        The number of jobs.
    table
        A throughput table with the models of the classes; None for Gavel's.

    Raises
    ------
    FieldError
        If a class has no candidate, or the table lacks its model.

    Notes
    -----
    All classes are equally likely. Jobs of a class are drawn without replacement until the class
    has no more jobs; then all jobs of the class can be drawn again. Takes O(trace + jobs) time.
    """
    require_integer("jobs", jobs, minimum=1)
    table = gavel_throughputs() if table is None else table
    candidates = [
        [job for job in trace.jobs if _is_candidate(job, job_class)] for job_class in HADAR_CLASSES
    ]
    for job_class, found in zip(HADAR_CLASSES, candidates, strict=True):
        if not found:
            rule = f"must have a job of class {job_class.name} submitted in the busy hours"
            raise FieldError("trace", trace.name, rule)
    classes = IntegerStream(
        workload="hadar-480", version=HADAR_VERSION, purpose="classes", seed=seed
    )
    draws = [
        IntegerStream(
            workload="hadar-480", version=HADAR_VERSION, purpose=job_class.name, seed=seed
        )
        for job_class in HADAR_CLASSES
    ]
    left: list[list[Job]] = [[] for _ in HADAR_CLASSES]
    drawn: list[tuple[float, int, Job, JobClass]] = []
    repeated = 0
    for number in range(jobs):
        place = classes.below(len(HADAR_CLASSES))
        if not left[place]:
            repeated += any(job_class is HADAR_CLASSES[place] for *_, job_class in drawn)
            left[place] = list(candidates[place])
            draws[place].shuffle(left[place])
        job = left[place].pop()
        submit_s = job.submit_s % DAY_S - BUSY_HOURS[0] * HOUR_S
        drawn.append((submit_s, number, job, HADAR_CLASSES[place]))
    drawn.sort(key=lambda entry: entry[:2])
    gangs = []
    for number, (submit_s, _, job, job_class) in enumerate(drawn):
        model = job_class.single if job.min_gpus == 1 else job_class.distributed
        gangs.append(
            table.gang_of(
                f"{job_class.name}{number}-{job.id}",
                table.find_type(*model, job.min_gpus),
                gang=job.min_gpus,
                reference_s=job.duration_s,
                release_s=submit_s - drawn[0][0],
                gpu_types=gpu_types,
            )
        )
    return Workload(
        name=f"hadar-{jobs}-of-{trace.name}-seed{seed}",
        jobs=tuple(map(Job.of_gang, gangs)),
        assumptions=(
            *trace.assumptions,
            f"Drawn by seed: {jobs} jobs of the trace on 1, 2, 4 or 8 GPUs, with equal probability "
            "for the classes S, M, L and XL, submitted at their time of day in hours 3 to 10; days "
            "are counted from the first submission. This rule of Hadar is from memory, and so are "
            "the bounds of the classes in GPU time (0-1, 1-10, 10-50, 60-100 h).",
            *(
                ("A class had too few jobs, so some jobs occur more than once.",)
                if repeated
                else ()
            ),
            "Assigned: models by class (S ResNet-18, M CycleGAN or, on several GPUs, Transformer, "
            "L LM, XL ResNet-50; from memory, with assumed batch sizes 128, -, 64, 20, 64). A job "
            f"has the steps that {table.reference} does in its running time in the trace. "
            f"{table.in_words}",
            *table.remarks(gpu_types),
        ),
    )


def _is_candidate(job: Job, job_class: JobClass) -> bool:
    first_h, end_h = BUSY_HOURS
    return (
        job.min_gpus in HADAR_GANGS
        and first_h * HOUR_S <= job.submit_s % DAY_S < end_h * HOUR_S
        and job_class.holds(job.min_gpus * job.duration_s / HOUR_S)
    )
