"""The data of an allocation instance and of its solutions, validated on construction."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property

from lyra_opt.core.documents import join_path
from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import (
    LARGEST_INTEGER,
    require_choice,
    require_flag,
    require_integer,
    require_number,
    require_text,
)
from lyra_opt.core.variant import Variant

LARGEST_AMOUNT = float(LARGEST_INTEGER)
"""The most work and the latest release: sums and quotients of them stay finite in floats."""


class Objective(Variant):
    """What is optimised; the variants of the problem."""

    JCT_REDUCTION = "jct_reduction", "max"
    """Extra workers for jobs whose base demand is granted: most sum of T(w_min) - T(w)."""
    TWO_PHASE = "two_phase", "min"
    """Base demands by work / w_max, then the knapsack of `JCT_REDUCTION`: sum of T(w) started."""
    JOINT = "joint", "min"
    """Which jobs start, and with how many workers, in one shot: least sum of completions."""
    MEAN_JCT = "mean_jct", "min", 1e-6  # bounds are sums of many floats
    """The schedule over time: least mean job completion time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJob:
    """A training job that runs with any number of workers in a range.

    Parameters
    ----------
    id
        Its name, unique in the instance.
    min_workers, max_workers
        w_min and w_max: the base demand, at least 1, and the most workers that it can use.
    work_worker_s
        Its work in worker-seconds, above 0: what w_min workers do in T(w_min) seconds, times
        w_min.
    gpus_per_worker
        GPUs that each of its workers holds, at least 1.
    release_s
        When it is submitted, at least 0.
    running
        Whether it has started at time 0; it is then released at 0.
    scaling_loss
        From 0 (linear speed-up) to 1 (workers beyond the base demand do nothing).
    """

    id: str
    min_workers: int
    max_workers: int
    work_worker_s: float
    gpus_per_worker: int = 1
    release_s: float = 0.0
    running: bool = False
    scaling_loss: float = 0.0

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_integer("min_workers", self.min_workers, minimum=1)
        require_integer("max_workers", self.max_workers, minimum=1)
        if self.max_workers < self.min_workers:
            raise FieldError(
                "max_workers",
                self.max_workers,
                f"must be at least the job's min_workers, {self.min_workers}",
            )
        self._keep_float("work_worker_s", above=True)
        require_integer("gpus_per_worker", self.gpus_per_worker, minimum=1)
        self._keep_float("release_s")
        require_flag("running", self.running)
        self._keep_float("scaling_loss")
        if self.scaling_loss > 1:
            raise FieldError("scaling_loss", self.scaling_loss, "must be at most 1")
        if self.running and self.release_s != 0:
            raise FieldError("release_s", self.release_s, "must be 0 for a running job")

    def _keep_float(self, field: str, *, above: bool = False) -> None:
        """Check a number and keep it as a float, so that 300 and 300.0 are one content."""
        number = require_number(field, getattr(self, field), minimum=0, above=above)
        if number > LARGEST_AMOUNT:
            raise FieldError(field, number, f"must be at most {LARGEST_INTEGER} (2**53 - 1)")
        object.__setattr__(self, field, number)

    @property
    def min_gpus(self) -> int:
        """GPUs of the base demand."""
        return self.min_workers * self.gpus_per_worker

    @property
    def max_gpus(self) -> int:
        """GPUs of the most workers."""
        return self.max_workers * self.gpus_per_worker

    def with_work(self, work_worker_s: float) -> ElasticJob:
        """Return the job with another amount of work; what is unchanged is not checked again."""
        job = object.__new__(ElasticJob)
        for keep, value_of in _OTHER_FIELDS:
            keep(job, value_of(self))
        _KEEP_WORK(job, work_worker_s)
        if type(work_worker_s) is not float or not 0 < work_worker_s <= LARGEST_AMOUNT:
            job._keep_float("work_worker_s", above=True)
        return job

    def rate(self, workers: Fraction | int) -> Fraction:
        """Return the work done a second by `workers` workers, at least w_min; exact."""
        extra = Fraction(workers) - self.min_workers
        return self.min_workers + extra * (1 - Fraction(self.scaling_loss))

    def duration_s(self, workers: Fraction | int) -> Fraction:
        """Return T(w): how long all its work takes with a constant number of workers; exact."""
        return Fraction(self.work_worker_s) / self.rate(workers)


_KEEP_WORK = vars(ElasticJob)["work_worker_s"].__set__
_OTHER_FIELDS = tuple(
    (member.__set__, member.__get__)
    for member in (
        vars(ElasticJob)[field.name]
        for field in fields(ElasticJob)
        if field.name != "work_worker_s"
    )
)
"""How a field of a frozen job is written and read, without a look-up by name."""


@dataclass(frozen=True, kw_only=True)
class AllocationInstance:
    """How many workers each elastic job gets, at once or over time.

    Source: Lyra (EuroSys 2023), section 5.2; the objectives beside `JCT_REDUCTION` and
    `TWO_PHASE` are this project's.

    Parameters
    ----------
    name
        Its name, used to match solutions.
    objective
        What is optimised.
    gpus
        GPUs to give, at least 0: what base demands leave (`JCT_REDUCTION`), else all.
    jobs
        The jobs, in file order; at least one.

    Raises
    ------
    FieldError
        If any rule is broken; names the field, its value and the rule.
    """

    name: str
    objective: Objective
    gpus: int
    jobs: tuple[ElasticJob, ...]

    def __post_init__(self) -> None:
        require_text("name", self.name)
        objective = require_choice("objective", self.objective, [str(o) for o in Objective])
        object.__setattr__(self, "objective", Objective(objective))
        require_integer("gpus", self.gpus, minimum=0)
        if not self.jobs:
            raise FieldError("jobs", [], "must have at least one entry")
        seen = set()
        for position, job in enumerate(self.jobs):
            if job.id in seen:
                raise FieldError(f"jobs[{position}].id", job.id, "must be unique")
            seen.add(job.id)
        self._require_sums_to_be_exact()
        if self.objective is Objective.JOINT and self.gpus == 0:
            raise FieldError("gpus", self.gpus, "must be at least 1 for the objective joint")
        if self.objective is Objective.MEAN_JCT:
            self._require_every_job_to_fit()
        if self.objective in (Objective.MEAN_JCT, Objective.JOINT, Objective.TWO_PHASE):
            self._require_running_jobs_to_fit()

    def _require_sums_to_be_exact(self) -> None:
        """All GPUs that the jobs can use are counted in 64 bits."""
        gpus = 0
        for position, job in enumerate(self.jobs):
            gpus += job.max_gpus
            if gpus > LARGEST_INTEGER:
                raise FieldError(
                    f"jobs[{position}].max_workers",
                    job.max_workers,
                    f"all jobs up to this one must be able to use at most {LARGEST_INTEGER} GPUs",
                )

    def _require_every_job_to_fit(self) -> None:
        for position, job in enumerate(self.jobs):
            if job.min_gpus > self.gpus:
                raise FieldError(
                    f"jobs[{position}].min_workers",
                    job.min_workers,
                    f"the job's base demand of {job.min_gpus} GPUs must be at most the "
                    f"{self.gpus} of the cluster",
                )

    def _require_running_jobs_to_fit(self) -> None:
        held = 0
        for position, job in enumerate(self.jobs):
            if not job.running:
                continue
            held += job.min_gpus
            if held > self.gpus:
                raise FieldError(
                    f"jobs[{position}].running",
                    job.running,
                    f"the base demands of the running jobs up to this one, {held} GPUs, must be "
                    f"at most the {self.gpus} of the cluster",
                )

    @property
    def variant(self) -> Objective:
        """The objective, with its sense."""
        return self.objective

    @cached_property
    def job_position(self) -> dict[str, int]:
        """File position of each job by id."""
        return {job.id: position for position, job in enumerate(self.jobs)}


@dataclass(frozen=True, slots=True)
class WorkerAllocation:
    """How many workers each job gets, in file order; 0 for one that waits."""

    workers: tuple[int, ...]

    def __post_init__(self) -> None:
        for position, workers in enumerate(self.workers):
            require_integer(f"workers[{position}]", workers, minimum=0)


@dataclass(frozen=True, slots=True)
class NamedWorkers:
    """How many workers each job gets, by id, as a file says it; `check` judges it."""

    entries: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        for job, workers in self.entries:
            require_text("workers", job)
            require_integer(join_path("workers", job), workers, minimum=0)

    def in_file_order(self, instance: AllocationInstance) -> WorkerAllocation:
        """Return the same without names; KeyError if a job of `instance` has no entry."""
        workers = dict(self.entries)
        return WorkerAllocation(tuple(workers[job.id] for job in instance.jobs))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePiece:
    """A stretch of time in which a job holds a constant, possibly fractional number of workers.

    Parameters
    ----------
    job
        Its id.
    start_s, end_s
        From when to when, ``start_s`` below ``end_s``.
    workers
        From the job's w_min to its w_max; a fraction is realised by time-sharing.
    """

    job: str
    start_s: float
    end_s: float
    workers: float

    def __post_init__(self) -> None:
        require_text("job", self.job)
        require_number("start_s", self.start_s, minimum=0)
        require_number("end_s", self.end_s, minimum=0)
        require_number("workers", self.workers, minimum=0, above=True)
        if self.end_s <= self.start_s:
            raise FieldError("end_s", self.end_s, f"must be above start_s, {self.start_s}")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The pieces of a schedule, by start, then by job in file order; `check` judges it."""

    pieces: tuple[SchedulePiece, ...]


Solution = WorkerAllocation | NamedWorkers | Schedule
"""A schedule for `Objective.MEAN_JCT`, workers for the other objectives."""
