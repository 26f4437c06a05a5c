"""What a simulation replays: training jobs, and the inference cluster's demand for servers."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError
from lyra_opt.core.representations import html_of_object, short_repr
from lyra_opt.core.rules import require_flag, require_integer, require_number, require_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from lyra_opt.heterogeneous.instance import GangJob, PackedRate


MOST_ELAPSED_S = 1e12
"""Of submissions and work; beyond, a second more is lost in rounding soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training job as it is submitted.

    Parameters
    ----------
    id
        Its name, unique in the workload.
    submit_s
        When it is submitted, at least 0.
    work_worker_s
        Its work in worker-seconds on training GPUs, above 0.
    min_workers, max_workers
        The base demand, at least 1, which starts as a gang, and the most workers that it can use;
        equal for an inelastic job.
    gpus_per_worker
        Training GPUs that each worker holds, at least 1.
    scaling_loss
        From 0 (linear speed-up) to 1 (workers beyond the base demand do nothing).
    fungible
        Whether it can run on inference GPUs instead, all its workers on one kind of GPU.
    heterogeneous
        Whether its workers can be on both kinds at once.
    checkpoints
        Whether it keeps its progress when it is preempted.
    estimated_work_worker_s
        What the scheduler believes its work to be; None where it knows.
    model
        What it trains, with the batch size where a source gives it (``ResNet-18-128``); None where
        it is not known. It says how well the job computes across a network of tiers.
    steps
        Training steps that it has to do, above 0; None where they are not known.
    weight
        What it counts for, above 0: in weighted means, and for rules that weigh jobs.
    deadline_s
        Seconds after its submission by which it should complete, above 0; None without a deadline.
    gpu_types
        Names of the GPU types that it asks for: it runs on no others. Empty for any.
    measured
        Its steps, its throughput by GPU type, its weight and utility, the first and third of which
        are those of the job; None where they are not known. On GPUs of these types it has these
        steps to do at this throughput, and elsewhere `work_worker_s` at their relative speed.
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
        self._keep_float("scaling_loss")
        if self.scaling_loss > 1:
            raise FieldError("scaling_loss", self.scaling_loss, "must be at most 1")
        for field in ("fungible", "heterogeneous", "checkpoints"):
            require_flag(field, getattr(self, field))
        if self.estimated_work_worker_s is not None:
            self._keep_float("estimated_work_worker_s", above=True)
        if self.model is not None:
            require_text("model", self.model)
        weight = require_number("weight", self.weight, minimum=0, above=True)
        object.__setattr__(self, "weight", weight)
        if self.steps is not None:
            steps = require_number("steps", self.steps, minimum=0, above=True)
            object.__setattr__(self, "steps", steps)
        if self.deadline_s is not None:
            self._keep_float("deadline_s", above=True)
        if self.gpu_types != ():
            self._keep_gpu_types()
        if self.measured is not None:
            self._require_same_as_measured(self.measured)

    def _keep_gpu_types(self) -> None:
        for position, name in enumerate(self.gpu_types):
            require_text(f"gpu_types[{position}]", name)
            if _is_among(name, tuple(self.gpu_types[:position])):
                raise FieldError(f"gpu_types[{position}]", name, "must not occur twice")
        object.__setattr__(self, "gpu_types", tuple(self.gpu_types))

    def _require_same_as_measured(self, measured: GangJob) -> None:
        if measured.gang != self.min_gpus:
            rule = f"must be that of the job's base demand, {self.min_gpus} GPUs"
            raise FieldError("measured.gang", measured.gang, rule)
        if measured.current:
            raise FieldError("measured.current", dict(measured.current), "must be empty")
        if measured.weight != self.weight:
            rule = f"must be the job's weight, {self.weight:g}"
            raise FieldError("measured.weight", measured.weight, rule)
        if self.steps is not None and measured.steps != self.steps:
            rule = f"must be the job's steps, {self.steps:g}"
            raise FieldError("measured.steps", measured.steps, rule)

    @classmethod
    def of_gang(cls, gang: GangJob) -> Job:
        """Return a job whose throughput was measured, submitted at its release.

        Its work is what its steps take on the GPUs that suit it best, which count as reference
        GPUs then.
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
        """Return a gang of fixed size that keeps its progress.

        Parameters
        ----------
        gpus
            Its GPUs, all or none, at least 1.
        work_gpu_s
            GPU-seconds of computing, above 0: how long it takes on a single GPU.
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

    def _keep_float(self, field: str, *, above: bool = False) -> None:
        value = require_number(field, getattr(self, field), minimum=0, above=above)
        if value > MOST_ELAPSED_S:
            raise FieldError(field, getattr(self, field), f"must be at most {MOST_ELAPSED_S:g}")
        object.__setattr__(self, field, value)

    @property
    def is_elastic(self) -> bool:
        """Whether it can use more workers than its base demand."""
        return self.max_workers > self.min_workers

    @property
    def min_gpus(self) -> int:
        """Training GPUs of the base demand."""
        return self.min_workers * self.gpus_per_worker

    @property
    def duration_s(self) -> float:
        """How long it runs with its base demand, undisturbed."""
        return self.work_worker_s / self.min_workers

    @property
    def believed_work_worker_s(self) -> float:
        """Its work as far as the scheduler knows."""
        estimate = self.estimated_work_worker_s
        return self.work_worker_s if estimate is None else estimate

    def takes(self, gpu_type: str) -> bool:
        """Whether it may run on GPUs of a type, as far as it asks for any, in whatever case."""
        return not self.gpu_types or _is_among(gpu_type, self.gpu_types)

    def rate(self, workers: int) -> float:
        """Return the work done a second by `workers` workers, at least the base demand."""
        return self.min_workers + (workers - self.min_workers) * (1.0 - self.scaling_loss)


@lru_cache(maxsize=2**12)
def _is_among(gpu_type: str, names: tuple[str, ...]) -> bool:
    """Whether a GPU type is one of several, whatever the case of its letters."""
    return gpu_type.casefold() in {name.casefold() for name in names}


def require_submission_order(field: str, jobs: Iterable[tuple[str, float]]) -> None:
    """Check that ids occur once, and that no job is submitted before the one that it follows.

    Parameters
    ----------
    field
        What the time of submission is called in errors.
    jobs
        Id and time of submission of each, in order.
    """
    seen: set[str] = set()
    latest_s = 0.0
    for position, (job, submitted_s) in enumerate(jobs):
        if job in seen:
            raise FieldError(f"jobs[{position}].id", job, "must not occur twice")
        if submitted_s < latest_s:
            rule = "must not be before the job that stands before it"
            raise FieldError(f"jobs[{position}].{field}", submitted_s, rule)
        seen.add(job)
        latest_s = submitted_s


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Training jobs in the order of submission.

    Parameters
    ----------
    name
        What it is called in results.
    jobs
        At least one, by submission; equal times in file order.
    assumptions
        What is assumed of it or was done to it (rescaled arrivals, merged traces, elasticity
        drawn by seed), a sentence each; every result repeats them.
    packed
        How fast kinds of measured jobs (`GangJob.kind`) are beside one another on the same GPUs.
    measured_on
        The GPU type on which the running times of a trace were measured, empty where the trace
        does not say; None for jobs whose work is in time on reference GPUs.
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
        """Return the jobs of a data frame, a row each, by submission.

        Parameters
        ----------
        frame
            A column a field of `Job`, as `to_frame` returns them; ``id``, ``submit_s`` and
            ``work_worker_s`` at least. A missing value stands for the field's default.
        name
            See the class.

        Raises
        ------
        FieldError
            If there is a column of another name, or a value breaks its rule; names the row, from
            0 on.
        """
        import pandas as pd

        known = {each.name: each.default is MISSING for each in fields(Job)}
        columns = [str(column) for column in frame.columns]
        for column in columns:
            if column not in known:
                raise FieldError("columns", column, unknown_key(column, list(known), noun="column"))
        for column, is_required in known.items():
            if is_required and column not in columns:
                raise FieldError("columns", columns, f"must have {column}")
        # Integers beside missing values are floats in pandas.
        values = [each.tolist() for _, each in frame.convert_dtypes().items()]
        jobs = []
        for row, cells in enumerate(zip(*values, strict=True)):
            given = {
                column: each
                for column, each in zip(columns, cells, strict=True)
                if each is not None and each is not pd.NA and each == each
            }
            try:
                jobs.append(Job(**given))
            except FieldError as error:
                raise error.inside(f"jobs[{row}]") from None
        return cls(name=name, jobs=tuple(sorted(jobs, key=lambda job: job.submit_s)))

    def to_frame(self) -> pd.DataFrame:
        """Return the jobs as a data frame, a row each, with a column for each field of `Job`."""
        import pandas as pd

        names = [each.name for each in fields(Job)]
        return pd.DataFrame({name: [getattr(job, name) for job in self.jobs] for name in names})

    @cached_property
    def gpu_work_s(self) -> float:
        """GPU-seconds of all jobs on training GPUs, without scaling losses."""
        return math.fsum(job.work_worker_s * job.gpus_per_worker for job in self.jobs)

    @property
    def submission_span_s(self) -> float:
        """From the first submission to the last."""
        return self.jobs[-1].submit_s - self.jobs[0].submit_s

    def load(self, gpus: int) -> float:
        """Return the GPU time asked for as a share of what `gpus` have over the submissions.

        Infinite where all jobs are submitted at one moment.
        """
        span = self.submission_span_s
        return self.gpu_work_s / (gpus * span) if span > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class InferenceDemand:
    """How many of its servers the inference cluster needs over time, in steps of equal length.

    Parameters
    ----------
    name
        What it is called in results.
    step_s
        Length of a step, above 0.
    busy_share
        Share of the cluster's GPUs that serve in each step, from 0 to 1; at least one. Time
        beyond the last step goes on from the first one.
    assumptions
        As in `Workload`.
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
            if require_number(f"busy_share[{position}]", share, minimum=0) > 1:
                raise FieldError(f"busy_share[{position}]", share, "must be at most 1")

    def step_of(self, time_s: float) -> int:
        """Return the step of a moment, at least 0, counted without going round."""
        return int(time_s // self.step_s)

    def share(self, step: int) -> float:
        """Return the share of GPUs that serve in a step; after the last one comes the first."""
        return self.busy_share[step % len(self.busy_share)]

    def at(self, time_s: float) -> float:
        """Return the share of GPUs that serve at a moment, at least 0."""
        return self.share(self.step_of(time_s))
