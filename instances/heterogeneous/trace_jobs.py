"""Gangs drawn from a job trace, with models by the class of their GPU time, as Hadar does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_integer
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
    from lyra_opt.simulation.cluster import GpuType


HOUR_S = 3600
DAY_S = 86_400
VERSION = 1
"""Goes up when a seed gives another workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs of like size, and the models that stand for them.

    Parameters
    ----------
    name
        One or two letters.
    least_gpu_h, most_gpu_h
        GPU time: above the former, at most the latter.
    single, distributed
        Model and batch size of jobs of one GPU, and of more.
    """

    name: str
    least_gpu_h: float
    most_gpu_h: float
    single: tuple[str, int | None]
    distributed: tuple[str, int | None]

    def holds(self, gpu_h: float) -> bool:
        """Whether a job of so much GPU time is of this class."""
        return self.least_gpu_h < gpu_h <= self.most_gpu_h


HADAR_CLASSES = (
    JobClass(
        name="S",
        least_gpu_h=0,
        most_gpu_h=1,
        single=("ResNet-18", 128),
        distributed=("ResNet-18", 128),
    ),
    JobClass(
        name="M",
        least_gpu_h=1,
        most_gpu_h=10,
        single=("CycleGAN", None),
        distributed=("Transformer", 64),
    ),
    JobClass(name="L", least_gpu_h=10, most_gpu_h=50, single=("LM", 20), distributed=("LM", 20)),
    JobClass(
        name="XL",
        least_gpu_h=60,
        most_gpu_h=100,
        single=("ResNet-50", 64),
        distributed=("ResNet-50", 64),
    ),
)
"""Bounds and models from memory. Transformer is of class L in Hadar, as LM is: it stands here for
jobs of class M on several GPUs, for which CycleGAN was not measured."""

PHILLY_TRACE = "philly_jobs.csv.gz"
"""From which Hadar's jobs are drawn, as in Hadar."""

HADAR_JOBS = 480
HADAR_GANGS = (1, 2, 4, 8)
BUSY_HOURS = (3, 11)
"""Hours 3 to 10 of the day, the last one included."""


def hadar_480(
    trace: Workload,
    *,
    seed: int,
    gpu_types: Sequence[GpuType],
    jobs: int = HADAR_JOBS,
    table: ThroughputTable | None = None,
) -> Workload:
    """Return jobs drawn from a trace by class, as Hadar's simulation has them.

    Parameters
    ----------
    trace
        Any; jobs on 1, 2, 4 or 8 GPUs of one of the classes, submitted in the busy hours of a day
        counted from the first submission, are candidates.
    seed
        Of the draws.
    gpu_types
        For which the jobs get rates.
    jobs
        How many.
    table
        With the models of the classes; None for Gavel's.

    Raises
    ------
    FieldError
        If a class has no candidate, or the table lacks its model.

    Notes
    -----
    The class of each job is drawn, each as likely, then a job of it, without putting it back
    until all of the class are drawn. Time O(trace + jobs).
    """
    require_integer("jobs", jobs, minimum=1)
    table = gavel_throughputs() if table is None else table
    candidates = [
        [job for job in trace.jobs if _is_candidate(job, job_class)] for job_class in HADAR_CLASSES
    ]
    for job_class, found in zip(HADAR_CLASSES, candidates, strict=True):
        if not found:
            rule = f"must hold a job of class {job_class.name} in the busy hours"
            raise FieldError("trace", trace.name, rule)
    classes = IntegerStream(workload="hadar-480", version=VERSION, purpose="classes", seed=seed)
    draws = [
        IntegerStream(workload="hadar-480", version=VERSION, purpose=job_class.name, seed=seed)
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
            f"Drawn by seed: {jobs} jobs of the trace on 1, 2, 4 or 8 GPUs, classes S, M, L and XL "
            "as likely, submitted at their time of day, hours 3 to 10 of days counted from the "
            "first submission. That Hadar draws so is from memory, as are the classes by GPU time "
            "(0-1, 1-10, 10-50, 60-100 h).",
            *(("A class had fewer jobs than drawn: some stand twice.",) if repeated else ()),
            "Assigned: the model by class (S ResNet-18, M CycleGAN, on several GPUs Transformer, L "
            "LM, XL ResNet-50; classes from memory, batch sizes 128, -, 64, 20, 64 assumed), with "
            f"the steps that {table.reference} does in the running time of the trace. "
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
