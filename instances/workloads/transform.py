"""Change workloads: scale the load, merge, cut, and assign job properties that traces lack.

Every change adds a sentence to the workload's ``assumptions``. Properties that no public trace has,
such as elasticity, are drawn at random. Shares of jobs are exact, and each property has its own
random stream. Changing one share does not change other properties, and a larger share includes all
jobs of a smaller share. Runs under different assumptions can therefore be paired job by job.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate

from lyra_opt.core.errors import FieldError, counted
from lyra_opt.core.numbers import DAY_S
from lyra_opt.core.rules import require_flag, require_integer, require_number
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.simulation.cluster import GpuType
from lyra_opt.simulation.workload import Job, Workload

LARGEST_RANGE = 2
"""The largest demand of an elastic job relative to its base demand (Lyra, section 7.1, Ideal)."""

ESTIMATE_ERROR_PERCENT = 25
"""The largest error of a wrong estimate of the running time, in % (Lyra, section 7.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAssumptions:
    """Shares of jobs with certain properties, in %; defaults are Lyra's Basic scenario.

    The scenarios are those of section 7.1 of the paper.

    Parameters
    ----------
    fungible_percent
        Jobs that can run on inference GPUs instead.
    elastic_percent
        Jobs that can use up to twice their base demand.
    heterogeneous_percent
        Jobs whose workers can run on training and inference GPUs at once.
    all_elastic
        Lyra's Ideal scenario: all jobs are elastic and heterogeneous, whatever the two shares are.
    checkpoint_percent
        Jobs that keep their progress when they are preempted.
    scaling_loss_percent
        How much less work a flexible worker does than a base worker.
    wrong_estimate_percent
        Jobs for which the scheduler has a wrong estimate of the running time.
    estimate_error_percent
        The largest error of a wrong estimate, from 0 to 99.
    priority_percent
        Jobs with priority 1, with priority 2, and so on; 100 % in total. An empty list keeps the
        priorities that the jobs have.
    most_gpus_per_worker
        If above 1, jobs have wide workers, each on one server: the GPUs of a worker are the largest
        number up to this one that divides the GPUs of the job. With 1, workers stay as they are.
    """

    fungible_percent: int = 21
    elastic_percent: int = 5
    heterogeneous_percent: int = 0
    all_elastic: bool = False
    checkpoint_percent: int = 0
    scaling_loss_percent: int = 0
    wrong_estimate_percent: int = 0
    estimate_error_percent: int = ESTIMATE_ERROR_PERCENT
    priority_percent: tuple[int, ...] = ()
    most_gpus_per_worker: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "all_elastic":
                require_flag(field.name, self.all_elastic)
            elif field.name == "most_gpus_per_worker":
                require_integer(field.name, self.most_gpus_per_worker, minimum=1)
            elif field.name == "priority_percent":
                for level, percent in enumerate(self.priority_percent):
                    require_integer(f"{field.name}[{level}]", percent, minimum=0)
                if self.priority_percent and sum(self.priority_percent) != 100:
                    rule = "must add up to 100"
                    raise FieldError(field.name, list(self.priority_percent), rule)
            else:
                # An error of 100 % could turn an estimate into 0, so the largest error is 99 %.
                most = 99 if field.name == "estimate_error_percent" else 100
                require_integer(field.name, getattr(self, field.name), minimum=0, maximum=most)

    @property
    def in_words(self) -> str:
        """A sentence for results that states all shares."""
        elastic, heterogeneous = (
            self.effective_elastic_percent,
            self.effective_heterogeneous_percent,
        )
        return (
            f"Assumed by seed: {self.fungible_percent} % of the jobs are fungible, "
            f"{heterogeneous} % heterogeneous, {elastic} % elastic (base demand as requested, "
            f"range up to {LARGEST_RANGE} times that, {self.scaling_loss_percent} % less work from "
            f"each worker beyond the base), {self.checkpoint_percent} % with checkpoints, "
            f"{self.wrong_estimate_percent} % with an estimate that is off by up to "
            f"{self.estimate_error_percent} %; each "
            "share is drawn independently of the others."
            f"{self._priorities_in_words}{self._workers_in_words}"
        )

    @property
    def _priorities_in_words(self) -> str:
        if not self.priority_percent:
            return ""
        shares = enumerate(self.priority_percent, start=1)
        listed = ", ".join(f"priority {level} for {percent} %" for level, percent in shares)
        return f" Also by seed: {listed} of the jobs."

    @property
    def _workers_in_words(self) -> str:
        if self.most_gpus_per_worker == 1:
            return ""
        return (
            " Instead of one GPU, each worker holds the largest number of GPUs, up to "
            f"{self.most_gpus_per_worker}, that divides the GPUs of its job."
        )

    @property
    def label(self) -> str:
        """The shares that differ from the defaults, for names: empty, or such as ``-fungible0``."""
        short = {"all_elastic": "ideal"}
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                name = short.get(field.name, field.name.removesuffix("_percent").replace("_", "-"))
                if isinstance(value, tuple):
                    value = "-".join(map(str, value))
                parts.append(f"-{name}" if value is True else f"-{name}{value}")
        return "".join(parts)

    @property
    def effective_elastic_percent(self) -> int:
        """The percentage of elastic jobs, which is 100 if `all_elastic` is set."""
        return 100 if self.all_elastic else self.elastic_percent

    @property
    def effective_heterogeneous_percent(self) -> int:
        """The percentage of heterogeneous jobs, which is 100 if `all_elastic` is set."""
        return 100 if self.all_elastic else self.heterogeneous_percent


def assigned(
    jobs: Sequence[Job],
    assumptions: JobAssumptions,
    *,
    seed: int,
    elastic_first: Sequence[int] = (),
) -> tuple[Job, ...]:
    """Return the jobs with random properties (elastic, fungible, ...) instead of their own.

    Parameters
    ----------
    jobs
        The jobs, in the order of submission.
    assumptions
        The shares of jobs; numbers of jobs are rounded half up. A job that asks for part of a GPU
        is never elastic, fungible or heterogeneous.
    seed
        The random seed.
    elastic_first
        The indices of the jobs that become elastic before any other job.

    Notes
    -----
    Takes O(jobs) time.
    """
    count = len(jobs)

    def drawn(purpose: str, percent: int, first: Sequence[int] = ()) -> set[int]:
        stream = IntegerStream(workload="scenario", purpose=purpose, seed=seed)
        chosen_first, known = list(first), set(first)
        others = [position for position in range(count) if position not in known]
        stream.shuffle(chosen_first)
        stream.shuffle(others)
        return set((chosen_first + others)[: (count * percent + 50) // 100])

    elastic = drawn("elastic", assumptions.effective_elastic_percent, elastic_first)
    fungible = drawn("fungible", assumptions.fungible_percent)
    heterogeneous = drawn("heterogeneous", assumptions.effective_heterogeneous_percent)
    checkpoints = drawn("checkpoints", assumptions.checkpoint_percent)
    wrong = drawn("wrong-estimate", assumptions.wrong_estimate_percent)
    errors = IntegerStream(workload="scenario", purpose="estimate-error", seed=seed)
    most = 10 * assumptions.estimate_error_percent  # per mille
    # The highest priority is drawn first, so that a larger share of it includes the same jobs.
    shares = accumulate(reversed(assumptions.priority_percent))
    levels = list(enumerate(drawn("priority", percent) for percent in shares))
    widest = assumptions.most_gpus_per_worker
    result = []
    for position, job in enumerate(jobs):
        # Every job draws an error, so that errors do not depend on the share of wrong estimates.
        error = errors.between(-most, most)
        is_whole = not job.is_slice
        is_elastic = is_whole and position in elastic
        width = job.gpus_per_worker
        if widest > 1:
            width = next(gpus for gpus in range(widest, 0, -1) if job.min_gpus % gpus == 0)
        workers = job.min_gpus // width
        work_worker_s = job.work_worker_s * (job.gpus_per_worker / width)
        result.append(
            replace(
                job,
                work_worker_s=work_worker_s,
                min_workers=workers,
                max_workers=workers * (LARGEST_RANGE if is_elastic else 1),
                gpus_per_worker=width,
                scaling_loss=assumptions.scaling_loss_percent / 100 if is_elastic else 0.0,
                fungible=is_whole and position in fungible,
                heterogeneous=is_whole and position in heterogeneous,
                checkpoints=position in checkpoints,
                estimated_work_worker_s=(
                    work_worker_s * (1000 + error) / 1000 if position in wrong else None
                ),
                priority=next(
                    (len(levels) - level for level, higher in levels if position in higher),
                    job.priority,
                ),
            )
        )
    return tuple(result)


def rescaled(workload: Workload, *, load: float, gpus: int) -> Workload:
    """Return the workload with all times between submissions scaled to reach a load.

    Parameters
    ----------
    workload
        A workload with at least two different submission times.
    load
        The GPU time of all jobs relative to that of `gpus` GPUs between the first and the last
        submission; above 0.
    gpus
        The GPUs of the cluster, at least 1.

    Raises
    ------
    FieldError
        If a value breaks its rule, or all jobs are submitted at one moment.
    """
    require_number("load", load, minimum=0, above=True)
    require_integer("gpus", gpus, minimum=1)
    span = workload.submission_span_s
    if span <= 0:
        raise FieldError("load", load, "cannot be reached: all jobs are submitted at one moment")
    before = workload.load(gpus)
    factor = before / load
    first = workload.jobs[0].submit_s
    return _changed(
        workload,
        [replace(job, submit_s=first + (job.submit_s - first) * factor) for job in workload.jobs],
        f"Times between submissions are multiplied by {factor:.4g}: the load on {gpus:,} GPUs is "
        f"{100 * load:.4g} % instead of {100 * before:.4g} %.",
    )


def merged(workloads: Sequence[Workload], *, name: str | None = None) -> Workload:
    """Return the jobs of several workloads as one workload; submission times stay as they are.

    Ids are kept if all are unique. Otherwise each id gets the number of its workload as a prefix,
    such as ``2-job``. Jobs with equal submission times are in the order of the workloads.

    Parameters
    ----------
    workloads
        The workloads, at least one.
    name
        The name of the result; None joins the names by ``+``.

    Raises
    ------
    FieldError
        If the list is empty, or the running times were measured on different GPU types.
    """
    if not workloads:
        raise FieldError("workloads", [], "must not be empty")
    measured_on = {workload.measured_on for workload in workloads}
    if len(measured_on) > 1:
        shown = sorted(map(str, measured_on))
        raise FieldError("measured_on", shown, "must be the same for all workloads that are merged")
    ids = [job.id for workload in workloads for job in workload.jobs]
    if len(set(ids)) < len(ids):
        jobs = [
            replace(job, id=f"{number}-{job.id}")
            for number, workload in enumerate(workloads, start=1)
            for job in workload.jobs
        ]
    else:
        jobs = [job for workload in workloads for job in workload.jobs]
    jobs.sort(key=lambda job: job.submit_s)
    said = dict.fromkeys(sentence for workload in workloads for sentence in workload.assumptions)
    names = [workload.name for workload in workloads]
    return Workload(
        name=name or "+".join(names),
        jobs=tuple(jobs),
        assumptions=(*said, f"Merged from {len(names)} workloads: {', '.join(names)}."),
        packed=tuple(
            {
                (each.kind, each.beside): each for workload in workloads for each in workload.packed
            }.values()
        ),
        measured_on=measured_on.pop(),
    )


def window(workload: Workload, first_day: int, days: int | None) -> Workload:
    """Return the jobs submitted on `days` days from `first_day` on; None keeps all later days.

    Days are counted from 1 and begin at the hour of the first submission. Submission times are then
    counted from the beginning of `first_day`.

    Raises
    ------
    FieldError
        If a value breaks its rule, or no job is submitted on these days.
    """
    require_integer("first_day", first_day, minimum=1)
    begin_s = workload.jobs[0].submit_s + (first_day - 1) * DAY_S
    end_s = math.inf
    if days is not None:
        end_s = begin_s + require_integer("days", days, minimum=1) * DAY_S
    shift_s = begin_s - workload.jobs[0].submit_s
    jobs = [
        replace(job, submit_s=job.submit_s - shift_s)
        for job in workload.jobs
        if begin_s <= job.submit_s < end_s
    ]
    if not jobs:
        last = int(workload.submission_span_s // DAY_S) + 1
        raise FieldError("first_day", first_day, f"has no jobs; the last day with jobs is {last}")
    how_long = "" if days is None else f", for {counted(days, 'day')}"
    return _cut(workload, jobs, f"Only the jobs submitted from day {first_day} on{how_long}.")


def limited(workload: Workload, jobs: int) -> Workload:
    """Return the first `jobs` jobs in the order of submission, or all jobs if there are fewer."""
    require_integer("jobs", jobs, minimum=1)
    kept = workload.jobs[:jobs]
    return _cut(workload, kept, _first_in_words(kept, workload))


def sampled(workload: Workload, jobs: int) -> Workload:
    """Return every n-th job, so that `jobs` jobs remain, or all jobs if there are fewer.

    A single period of a trace may not be typical. The first weeks of Philly have few and long jobs;
    later, hundreds of short one-GPU jobs are submitted at once.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    require_integer("jobs", jobs, minimum=1)
    taken = min(len(workload.jobs), jobs)
    every = len(workload.jobs) // taken
    kept = workload.jobs[::every][:taken]
    sentence = f"Only one in {every:,} jobs." if every > 1 else _first_in_words(kept, workload)
    return _cut(workload, kept, sentence)


def _first_in_words(kept: Sequence[Job], workload: Workload) -> str:
    return f"Only the first {counted(len(kept), 'job')} of {len(workload.jobs):,}."


def with_assumptions(workload: Workload, assumptions: JobAssumptions, *, seed: int) -> Workload:
    """Return the workload with random job properties that no public trace has.

    All jobs are equally likely to be elastic, unlike in
    `lyra_opt.instances.workloads.lyra_like.lyra_like`, where elastic jobs are long and wide.
    Earlier properties of the jobs are replaced.

    Parameters
    ----------
    workload
        Any workload.
    assumptions
        The shares of jobs.
    seed
        The random seed, at least 0.

    Raises
    ------
    FieldError
        If the seed breaks its rule.
    """
    require_integer("seed", seed, minimum=0)
    return _changed(workload, assigned(workload.jobs, assumptions, seed=seed), assumptions.in_words)


def in_reference_time(
    workload: Workload, measured_on: Callable[[Job], GpuType | None], *, is_certain: bool
) -> Workload:
    """Return the workload with the work of its jobs converted to time on reference GPUs.

    Parameters
    ----------
    workload
        The workload; jobs with measured throughputs are not changed.
    measured_on
        Returns the GPU type on which the running time of a job was measured. None if not known; the
        running time is then assumed to be that on reference GPUs.
    is_certain
        Whether this assumption is certain and needs no remark, because running times already are
        those on reference GPUs, or only reference GPUs run the jobs.
    """
    jobs, unknown = [], 0
    scaled: dict[tuple[str, float], int] = {}
    for job in workload.jobs:
        gpu_type = measured_on(job)
        unknown += gpu_type is None
        if job.measured is None and gpu_type is not None and gpu_type.relative_speed != 1:
            speed = gpu_type.relative_speed
            believed = job.estimated_work_worker_s
            key = gpu_type.name, speed
            scaled[key] = scaled.get(key, 0) + 1
            job = replace(
                job,
                work_worker_s=job.work_worker_s * speed,
                estimated_work_worker_s=None if believed is None else believed * speed,
            )
        jobs.append(job)
    said = [
        f"Running times of {counted(count, 'job')} were measured on {name} GPUs, which have "
        f"{speed:.3g} times the speed of a reference GPU."
        for (name, speed), count in scaled.items()
    ]
    if unknown and not is_certain:
        said.append(
            f"Assumed: running times of {counted(unknown, 'job')} are those on reference GPUs; "
            "set jobs.measured_on for another type."
        )
    assumptions = (*workload.assumptions, *said)
    return replace(workload, jobs=tuple(jobs), assumptions=assumptions, measured_on=None)


def without_oversized(workload: Workload, gpus: int) -> tuple[Workload, int]:
    """Return the jobs whose base demand fits on `gpus` GPUs, and the number of dropped jobs.

    Raises
    ------
    FieldError
        If no job is left.
    """
    require_integer("gpus", gpus, minimum=1)
    jobs = [job for job in workload.jobs if job.min_gpus <= gpus]
    dropped = len(workload.jobs) - len(jobs)
    if not jobs:
        raise FieldError("gpus", gpus, "must be enough for at least one job of the workload")
    sentence = f"{counted(dropped, 'job')} larger than {gpus:,} GPUs left out."
    return _cut(workload, jobs, sentence), dropped


def on_whole_gpus(workload: Workload) -> Workload:
    """Return a workload in which jobs that ask for part of a GPU get a whole GPU."""
    sliced = sum(job.is_slice for job in workload.jobs)
    if not sliced:
        return workload
    jobs = [replace(job, gpu_thousandths=None, gpu_memory_mib=None) for job in workload.jobs]
    sentence = f"Jobs that ask for part of a GPU get a whole GPU ({counted(sliced, 'job')})."
    return _changed(workload, jobs, sentence)


def demand_in_words(workload: Workload, gpus: int, reference_gpus: float | None = None) -> str:
    """Return a line that states the demand of a workload relative to `gpus` GPUs.

    `reference_gpus` is the number of reference GPUs that together are as fast; None if all are
    reference GPUs.
    """
    require_integer("gpus", gpus, minimum=1)
    fast = reference_gpus or gpus
    base = f"{gpus:,} GPUs" + f", as fast as {fast:,.1f} reference GPUs" * (fast != gpus)
    jobs = counted(len(workload.jobs), "job")
    asks = "asks" if len(workload.jobs) == 1 else "ask"
    span = workload.submission_span_s
    if span <= 0:
        hours = workload.gpu_work_s / 3600
        return f"{jobs} at one moment {asks} for {hours:,.1f} GPU hours of {base}"
    days = f"{span / DAY_S:.1f}" if span < 10 * DAY_S else f"{span / DAY_S:.0f}"
    return f"{jobs} over {days} days {asks} for {100 * workload.load(fast):.1f} % of {base}"


def _cut(workload: Workload, jobs: Sequence[Job], sentence: str) -> Workload:
    """Return a workload with some of its jobs; the sentence is added only if jobs are left out."""
    is_whole = len(jobs) == len(workload.jobs)
    return workload if is_whole else _changed(workload, jobs, sentence)


def _changed(workload: Workload, jobs: Sequence[Job], sentence: str) -> Workload:
    return replace(workload, jobs=tuple(jobs), assumptions=(*workload.assumptions, sentence))
