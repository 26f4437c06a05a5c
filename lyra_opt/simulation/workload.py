"""The inputs of a replay: training jobs, and the inference cluster's demand for servers."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError, methods_without_inner_frames
from lyra_opt.core.representations import html_of_object, short_repr
from lyra_opt.core.rules import located, require_flag, require_integer, require_number, require_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from lyra_opt.heterogeneous.instance import GangJob, PackedRate


WHOLE_GPU = 1000
"""The thousandths of a whole GPU."""

MOST_ELAPSED_S = 1e12
"""Largest allowed submission time and work; beyond it, rounding soon loses a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job as submitted.

    Parameters
    ----------
    id
        The name of the job, unique in the workload.
    submit_s
        Submission time in seconds, at least 0.
    work_worker_s
        Work in worker-seconds on training GPUs, above 0.
    min_workers, max_workers
        The base demand, at least 1, which starts as a gang; and the most workers that the job can
        use. Equal for an inelastic job.
    gpus_per_worker
        Training GPUs of each worker, at least 1.
    gpu_thousandths
        Part of one GPU that the job asks for, in thousandths from 1 to 999, instead of whole GPUs:
        a *slice*. The job has one worker, stays inside one GPU, and does `work_worker_s` on it at
        the speed of the slice, whatever else runs on the GPU. None for whole GPUs.
    gpu_memory_mib
        Part of one GPU that the job asks for, as MiB of its memory, at least 1: a slice whose
        thousandths depend on the GPU type (`slice_on`). None for whole GPUs.
    scaling_loss
        From 0 (linear speed-up) to 1 (workers beyond the base demand contribute nothing).
    fungible
        Whether the job can run on inference GPUs instead, with all its workers on one kind of GPU.
    heterogeneous
        Whether the job can have workers on training and inference GPUs at the same time.
    checkpoints
        Whether the job keeps its progress when it is preempted.
    estimated_work_worker_s
        The scheduler's estimate of the work; None if the scheduler knows the work.
    model
        The trained model, with the batch size if the source gives it (``ResNet-18-128``); None if
        unknown. It determines how distance slows the job.
    steps
        Number of training steps, above 0; None if unknown.
    weight
        Weight of the job in weighted means and in policies that use weights, above 0.
    priority
        Priority of the job, a 32-bit integer; a larger number is more important. Only the queue
        order ``priority`` and schemes that preempt for waiting gangs use it.
    tenant
        Name of the user, team or virtual cluster that submitted the job; None if unknown.
    deadline_s
        Seconds after submission by which the job should complete, above 0; None without a deadline.
    gpu_types
        Names of the only GPU types on which the job may run; empty for any type.
    measured
        The job's steps, throughput by GPU type, weight and utility; None if they are not measured.
        Steps and weight must equal those of the job. On these GPU types the job runs its steps at
        this throughput; on other types it runs `work_worker_s` at their relative speed.
    """

    id: str
    submit_s: float
    work_worker_s: float
    min_workers: int = 1
    max_workers: int = 1
    gpus_per_worker: int = 1
    scaling_loss: float = 0.0
    fungible: bool = False
    heterogeneous: bool = False
    checkpoints: bool = False
    estimated_work_worker_s: float | None = None
    model: str | None = None
    steps: float | None = None
    weight: float = 1.0
    deadline_s: float | None = None
    gpu_types: tuple[str, ...] = ()
    measured: GangJob | None = None
    priority: int = 0
    tenant: str | None = None
    gpu_thousandths: int | None = None
    gpu_memory_mib: int | None = None

    def __post_init__(self) -> None:
        require_text("id", self.id)
        require_integer("min_workers", self.min_workers, minimum=1)
        require_integer("max_workers", self.max_workers, minimum=1)
        if self.max_workers < self.min_workers:
            rule = f"must be at least the job's min_workers, {self.min_workers}"
            raise FieldError("max_workers", self.max_workers, rule)
        require_integer("gpus_per_worker", self.gpus_per_worker, minimum=1)
        self._keep_float("submit_s")
        self._keep_float("work_worker_s", above=True)
        self._keep_float("scaling_loss", most=1)
        for field in ("fungible", "heterogeneous", "checkpoints"):
            require_flag(field, getattr(self, field))
        if self.estimated_work_worker_s is not None:
            self._keep_float("estimated_work_worker_s", above=True)
        for field in ("model", "tenant"):
            if getattr(self, field) is not None:
                require_text(field, getattr(self, field))
        weight = require_number("weight", self.weight, minimum=0, above=True)
        object.__setattr__(self, "weight", weight)
        if self.steps is not None:
            steps = require_number("steps", self.steps, minimum=0, above=True)
            object.__setattr__(self, "steps", steps)
        if self.deadline_s is not None:
            self._keep_float("deadline_s", above=True)
        if self.gpu_types != ():
            self._keep_gpu_types()
        require_integer("priority", self.priority, minimum=-(2**31), maximum=2**31 - 1)
        if self.measured is not None:
            self._require_same_as_measured(self.measured)
        if self.is_slice:
            self._require_slice()

    def _require_slice(self) -> None:
        if self.gpu_thousandths is not None:
            require_integer("gpu_thousandths", self.gpu_thousandths, minimum=1, maximum=999)
        if self.gpu_memory_mib is not None:
            require_integer("gpu_memory_mib", self.gpu_memory_mib, minimum=1)
            if self.gpu_thousandths is not None:
                rule = "cannot be combined with gpu_thousandths"
                raise FieldError("gpu_memory_mib", self.gpu_memory_mib, rule)
        for field in ("max_workers", "gpus_per_worker"):
            if getattr(self, field) != 1:
                rule = "must be 1 for a job that asks for part of a GPU"
                raise FieldError(field, getattr(self, field), rule)
        for field in ("fungible", "heterogeneous", "measured"):
            if getattr(self, field):
                rule = "cannot be set for a job that asks for part of a GPU"
                raise FieldError(field, getattr(self, field), rule)

    def _keep_gpu_types(self) -> None:
        for position, name in enumerate(self.gpu_types):
            require_text(f"gpu_types[{position}]", name)
            if _is_among(name, tuple(self.gpu_types[:position])):
                raise FieldError(f"gpu_types[{position}]", name, "must not occur twice")
        object.__setattr__(self, "gpu_types", tuple(self.gpu_types))

    def _require_same_as_measured(self, measured: GangJob) -> None:
        if measured.gang != self.min_gpus:
            rule = f"must equal the job's base demand, {self.min_gpus} GPUs"
            raise FieldError("measured.gang", measured.gang, rule)
        if measured.current:
            raise FieldError("measured.current", dict(measured.current), "must be empty")
        if measured.weight != self.weight:
            rule = f"must equal the job's weight, {self.weight:g}"
            raise FieldError("measured.weight", measured.weight, rule)
        if self.steps is not None and measured.steps != self.steps:
            rule = f"must equal the job's steps, {self.steps:g}"
            raise FieldError("measured.steps", measured.steps, rule)

    @classmethod
    def of_gang(cls, gang: GangJob) -> Job:
        """Return a job with measured throughputs that is submitted at the gang's release time.

        Its work is the time of its steps on its fastest GPU type, which serves as its reference
        GPU.
        """
        return cls(
            id=gang.id,
            submit_s=gang.release_s,
            work_worker_s=gang.steps / gang.best_rate * gang.gang,
            min_workers=gang.gang,
            max_workers=gang.gang,
            checkpoints=True,
            steps=gang.steps,
            weight=gang.weight,
            measured=gang,
        )

    @classmethod
    def rigid(
        cls,
        *,
        id: str,  # noqa: A002
        submit_s: float,
        gpus: int,
        work_gpu_s: float,
        model: str | None = None,
    ) -> Job:
        """Return an inelastic job that keeps its progress when it is preempted.

        Parameters
        ----------
        gpus
            Number of GPUs of the gang, at least 1.
        work_gpu_s
            Work in GPU-seconds, above 0: the running time on a single GPU.
        id, submit_s, model
            See the class.
        """
        return cls(
            id=id,
            submit_s=submit_s,
            work_worker_s=work_gpu_s,
            min_workers=gpus,
            max_workers=gpus,
            checkpoints=True,
            model=model,
        )

    def _keep_float(self, field: str, *, above: bool = False, most: float = MOST_ELAPSED_S) -> None:
        value = require_number(field, getattr(self, field), minimum=0, above=above, maximum=most)
        object.__setattr__(self, field, value)

    @property
    def is_elastic(self) -> bool:
        """Whether the job can use more workers than its base demand."""
        return self.max_workers > self.min_workers

    @property
    def is_slice(self) -> bool:
        """Whether the job asks for part of one GPU instead of whole GPUs."""
        return self.gpu_thousandths is not None or self.gpu_memory_mib is not None

    @property
    def share(self) -> float:
        """The share of a GPU of the base demand, 1 if it is not known without the GPU type."""
        return 1.0 if self.gpu_thousandths is None else self.gpu_thousandths / WHOLE_GPU

    def slice_on(self, memory_mib: int | None) -> int:
        """Return the thousandths that a slice needs of a GPU, rounded up; 0 if it does not fit.

        Parameters
        ----------
        memory_mib
            Memory of the GPU in MiB; None if unknown, and then a slice given in MiB does not fit.
        """
        if self.gpu_thousandths is not None:
            return self.gpu_thousandths
        asked, there = self.gpu_memory_mib or 0, memory_mib or 0
        return -(-WHOLE_GPU * asked // there) if asked <= there else 0

    @property
    def min_gpus(self) -> int:
        """The number of training GPUs of the base demand, on which a slice needs part of one."""
        return self.min_workers * self.gpus_per_worker

    @property
    def duration_s(self) -> float:
        """The running time with the base demand and without interruptions, in seconds."""
        return self.work_worker_s / self.min_workers

    @property
    def believed_work_worker_s(self) -> float:
        """The work as the scheduler estimates it, in worker-seconds."""
        estimate = self.estimated_work_worker_s
        return self.work_worker_s if estimate is None else estimate

    def takes(self, gpu_type: str) -> bool:
        """Return whether the job may run on GPUs of a type; upper and lower case do not matter."""
        return not self.gpu_types or _is_among(gpu_type, self.gpu_types)

    def rate(self, workers: int) -> float:
        """Return the speed of `workers` (at least the base demand) in worker-seconds per second."""
        return self.min_workers + (workers - self.min_workers) * (1.0 - self.scaling_loss)


@lru_cache(maxsize=2**12)
def _is_among(gpu_type: str, names: tuple[str, ...]) -> bool:
    """Return whether a GPU type is in a list of names, ignoring upper and lower case."""
    return gpu_type.casefold() in {name.casefold() for name in names}


def require_submission_order(field: str, jobs: Iterable[tuple[str, float]]) -> None:
    """Check that job ids are unique and that submission times never decrease.

    Parameters
    ----------
    field
        Name of the submission time in error messages.
    jobs
        Id and submission time of each job, in order.
    """
    seen: set[str] = set()
    latest_s = 0.0
    for position, (job, submitted_s) in enumerate(jobs):
        if job in seen:
            raise FieldError(f"jobs[{position}].id", job, "must not occur twice")
        if submitted_s < latest_s:
            rule = f"must be at least that of the job before, {latest_s:g}"
            raise FieldError(f"jobs[{position}].{field}", submitted_s, rule)
        seen.add(job)
        latest_s = submitted_s


@methods_without_inner_frames
@dataclass(frozen=True, kw_only=True)
class Workload:
    """Training jobs in order of submission.

    Parameters
    ----------
    name
        The name in results.
    jobs
        At least one job, in order of submission; jobs with equal times keep the order of the file.
    assumptions
        Assumptions about the workload and changes to it (rescaled arrivals, merged traces,
        elasticity drawn by seed), one sentence each; every result repeats them.
    packed
        Throughputs of pairs of measured jobs, by `GangJob.kind`, that share GPUs.
    measured_on
        GPU type on which a trace measured the running times, empty if the trace does not say; None
        if the work of jobs is already in time on reference GPUs.
    """

    name: str
    jobs: tuple[Job, ...]
    assumptions: tuple[str, ...] = ()
    packed: tuple[PackedRate, ...] = ()
    measured_on: str | None = None

    __repr__ = short_repr
    _repr_html_ = html_of_object

    def __post_init__(self) -> None:
        require_text("name", self.name)
        if not self.jobs:
            raise FieldError("jobs", [], "must not be empty")
        require_submission_order("submit_s", [(job.id, job.submit_s) for job in self.jobs])

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, *, name: str = "jobs") -> Workload:
        """Return the workload of a data frame with one row per job, sorted by submission time.

        Parameters
        ----------
        frame
            One column per field of `Job`, as in `to_frame`; at least ``id``, ``submit_s`` and
            ``work_worker_s``. A missing value means the default of the field.
        name
            See the class.

        Raises
        ------
        FieldError
            If a column is unknown or a value breaks its rule; the message names the row, counted
            from 0.
        """
        import pandas as pd

        known = {each.name: each.default is MISSING for each in fields(Job)}
        columns = [str(column) for column in frame.columns]
        for column in columns:
            if column not in known:
                raise FieldError("columns", column, unknown_key(column, list(known), noun="column"))
        for column, is_required in known.items():
            if is_required and column not in columns:
                raise FieldError("columns", columns, f"must include {column}")
        # pandas stores integers as floats in columns with missing values, unless converted.
        values = [each.tolist() for _, each in frame.convert_dtypes().items()]
        jobs = []
        for row, cells in enumerate(zip(*values, strict=True)):
            given = {
                column: each
                for column, each in zip(columns, cells, strict=True)
                if each is not None and each is not pd.NA and each == each
            }
            with located(f"jobs[{row}]"):
                jobs.append(Job(**given))
        return cls(name=name, jobs=tuple(sorted(jobs, key=lambda job: job.submit_s)))

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per job and one column per field of `Job`."""
        import pandas as pd

        names = [each.name for each in fields(Job)]
        return pd.DataFrame({name: [getattr(job, name) for job in self.jobs] for name in names})

    @cached_property
    def gpu_work_s(self) -> float:
        """The GPU-seconds of all jobs on training GPUs, without scaling losses.

        A slice counts by its thousandths, but one that asks for memory counts as a whole GPU.
        """
        return math.fsum(job.work_worker_s * job.gpus_per_worker * job.share for job in self.jobs)

    @property
    def submission_span_s(self) -> float:
        """The seconds from the first submission to the last."""
        return self.jobs[-1].submit_s - self.jobs[0].submit_s

    def load(self, gpus: float) -> float:
        """Return the offered load: the GPU-seconds of all jobs over those of `gpus` reference GPUs.

        The GPUs count from the first submission to the last. The load is infinite if all jobs are
        submitted at one time.
        """
        span = self.submission_span_s
        return self.gpu_work_s / (gpus * span) if span > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class InferenceDemand:
    """The inference cluster's demand for its own servers over time, in steps of equal length.

    Parameters
    ----------
    name
        The name in results.
    step_s
        Length of a step in seconds, above 0.
    busy_share
        Share of the cluster's GPUs that serve requests in each step, from 0 to 1; at least one.
        After the last step, the series repeats from the first.
    assumptions
        See `Workload`.
    """

    name: str
    step_s: float
    busy_share: tuple[float, ...]
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_number("step_s", self.step_s, minimum=0, above=True)
        if not self.busy_share:
            raise FieldError("busy_share", [], "must not be empty")
        for position, share in enumerate(self.busy_share):
            require_number(f"busy_share[{position}]", share, minimum=0, maximum=1)

    def step_of(self, time_s: float) -> int:
        """Return the index of the step at `time_s`; it keeps growing after the series ends."""
        return int(time_s // self.step_s)

    def share(self, step: int) -> float:
        """Return the share of GPUs that serve in a step; the series repeats after its last step."""
        return self.busy_share[step % len(self.busy_share)]

    def at(self, time_s: float) -> float:
        """Return the share of GPUs that serve at time `time_s`, at least 0."""
        return self.share(self.step_of(time_s))
