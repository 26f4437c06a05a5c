"""Change workloads: rescale, merge, cut, and give the jobs of a trace what it does not say.

Every change is said in a sentence of the workload's ``assumptions``. What no public trace says (who
is elastic, fungible and so on) is drawn: shares are kept exactly, and each is drawn from a stream
of its own. To change one leaves all others as they are, and a larger share holds all jobs of a
smaller one. Runs under other assumptions are therefore paired job by job.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError, counted
from lyra_opt.core.rules import require_flag, require_integer, require_number
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.simulation.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lyra_opt.simulation.cluster import GpuType
    from lyra_opt.simulation.workload import Job

LARGEST_RANGE = 2
"""Most workers of an elastic job as a multiple of its base demand (Lyra, section 7.1, Ideal)."""

ESTIMATE_ERROR_PERCENT = 25
"""How far a wrong estimate of the running time can be off (Lyra, section 7.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAssumptions:
    """Shares of jobs, in percent; the defaults are Lyra's Basic scenario (section 7.1).

    Parameters
    ----------
    fungible_percent
        Jobs that can run on inference GPUs instead.
    elastic_percent
        Jobs whose workers can grow to twice the base demand.
    heterogeneous_percent
        Jobs whose workers can be on both kinds of GPU at once.
    all_elastic
        Lyra's Ideal: every job is elastic and heterogeneous, whatever the two shares say.
    checkpoint_percent
        Jobs that keep their progress when they are preempted.
    scaling_loss_percent
        What a worker beyond the base demand of an elastic job does less than one of the base.
    wrong_estimate_percent
        Jobs whose running time the scheduler believes to be shorter or longer.
    estimate_error_percent
        By how much at most, from 0 to 99.
    """

    fungible_percent: int = 21
    elastic_percent: int = 5
    heterogeneous_percent: int = 0
    all_elastic: bool = False
    checkpoint_percent: int = 0
    scaling_loss_percent: int = 0
    wrong_estimate_percent: int = 0
    estimate_error_percent: int = ESTIMATE_ERROR_PERCENT

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "all_elastic":
                require_flag(field.name, self.all_elastic)
            else:
                # An error of all of it would leave a job nothing to do.
                most = 99 if field.name == "estimate_error_percent" else 100
                require_integer(field.name, getattr(self, field.name), minimum=0, maximum=most)

    @property
    def in_words(self) -> str:
        """As a sentence."""
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
        )

    @property
    def label(self) -> str:
        """What differs from the defaults, for names: empty, or such as ``-fungible0``."""
        short = {"all_elastic": "ideal"}
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                name = short.get(field.name, field.name.removesuffix("_percent").replace("_", "-"))
                parts.append(f"-{name}" if value is True else f"-{name}{value}")
        return "".join(parts)

    @property
    def effective_elastic_percent(self) -> int:
        """The share of elastic jobs, whichever field says so."""
        return 100 if self.all_elastic else self.elastic_percent

    @property
    def effective_heterogeneous_percent(self) -> int:
        """The share of heterogeneous jobs, whichever field says so."""
        return 100 if self.all_elastic else self.heterogeneous_percent


def assigned(
    jobs: Sequence[Job],
    assumptions: JobAssumptions,
    *,
    seed: int,
    elastic_first: Sequence[int] = (),
) -> tuple[Job, ...]:
    """Return the jobs with what is assumed of them; what they said before is lost.

    Parameters
    ----------
    jobs
        In the order of submission.
    assumptions
        The shares, each rounded half up to whole jobs.
    seed
        Of all draws.
    elastic_first
        Positions of the jobs that are elastic before any other.

    Notes
    -----
    Time O(jobs).
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
    result = []
    for position, job in enumerate(jobs):
        # Drawn for every job, so that a job's error does not depend on how many have one.
        error = errors.between(-most, most)
        is_elastic = position in elastic
        result.append(
            replace(
                job,
                max_workers=job.min_workers * (LARGEST_RANGE if is_elastic else 1),
                scaling_loss=assumptions.scaling_loss_percent / 100 if is_elastic else 0.0,
                fungible=position in fungible,
                heterogeneous=position in heterogeneous,
                checkpoints=position in checkpoints,
                estimated_work_worker_s=(
                    job.work_worker_s * (1000 + error) / 1000 if position in wrong else None
                ),
            )
        )
    return tuple(result)


DAY_S = 86_400


def rescaled(workload: Workload, *, load: float, gpus: int) -> Workload:
    """Return the workload with submissions moved together or apart to reach a load.

    Parameters
    ----------
    workload
        Its jobs are submitted at two moments at least.
    load
        GPU time asked for, as a share of what `gpus` have from the first submission to the last;
        above 0.
    gpus
        Of the cluster, at least 1.

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
        f"Submissions are moved {'together' if factor < 1 else 'apart'}, their times multiplied by "
        f"{factor:.4g}: the load on {gpus:,} GPUs is {100 * load:.4g} % instead of "
        f"{100 * before:.4g} %.",
    )


def merged(workloads: Sequence[Workload], *, name: str | None = None) -> Workload:
    """Return the jobs of several workloads as one, each on its own clock.

    Ids are kept where they are unique in all; otherwise each gets the number of its workload in
    front, such as ``2-job``. Equal submission times go by the order given.

    Parameters
    ----------
    workloads
        At least one.
    name
        Of the result; None joins the names by ``+``.

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
        assumptions=(*said, f"Merged of {len(names)} workloads: {', '.join(names)}."),
        packed=tuple(
            {
                (each.kind, each.beside): each for workload in workloads for each in workload.packed
            }.values()
        ),
        measured_on=measured_on.pop(),
    )


def first_days(workload: Workload, days: int) -> Workload:
    """Return the jobs submitted in the first `days` days, counted from the first submission."""
    require_integer("days", days, minimum=1)
    end_s = workload.jobs[0].submit_s + days * DAY_S
    jobs = [job for job in workload.jobs if job.submit_s < end_s]
    return _changed(workload, jobs, f"Only the first {counted(days, 'day')}.")


def limited(workload: Workload, jobs: int) -> Workload:
    """Return the first `jobs` jobs by submission, or all where there are fewer."""
    require_integer("jobs", jobs, minimum=1)
    kept = workload.jobs[:jobs]
    return _changed(
        workload, kept, f"Only the first {counted(len(kept), 'job')} of {len(workload.jobs):,}."
    )


def sampled(workload: Workload, jobs: int) -> Workload:
    """Return so many jobs from all over a workload, at even distances, or all if there are fewer.

    A stretch of a trace need not be typical: Philly's first weeks have few jobs, and long ones,
    and later hundreds of short ones with a GPU each come at once.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    require_integer("jobs", jobs, minimum=1)
    taken = min(len(workload.jobs), jobs)
    every = len(workload.jobs) // taken
    return _changed(workload, workload.jobs[::every][:taken], f"Only one in {every:,} jobs.")


def with_assumptions(workload: Workload, assumptions: JobAssumptions, *, seed: int) -> Workload:
    """Return the workload with what no public trace says of its jobs, drawn by seed.

    All jobs are equally likely to be drawn, unlike in
    `lyra_opt.instances.workloads.lyra_like.lyra_like`, where elastic jobs are long and wide. What
    the jobs said before is lost.

    Parameters
    ----------
    workload
        Any.
    assumptions
        Shares of its jobs.
    seed
        At least 0.

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
    """Return the workload with the work of its jobs in time on reference GPUs.

    Parameters
    ----------
    workload
        Jobs with measured throughputs stay as they are.
    measured_on
        Returns the GPU type on which the running time of a job was measured; None where it is not
        known, and then it is taken for a time on reference GPUs.
    is_certain
        Whether nothing is assumed for jobs of an unknown type: their work is in reference time
        already, or only reference GPUs run them.
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
        f"Running times of {counted(count, 'job')} were measured on {name} GPUs, which are "
        f"{speed:.3g} times as fast as a reference GPU."
        for (name, speed), count in scaled.items()
    ]
    if unknown and not is_certain:
        said.append(
            f"Assumed: running times of {counted(unknown, 'job')} are those on reference GPUs; "
            "jobs.measured_on names another type."
        )
    assumptions = (*workload.assumptions, *said)
    return replace(workload, jobs=tuple(jobs), assumptions=assumptions, measured_on=None)


def without_oversized(workload: Workload, gpus: int) -> tuple[Workload, int]:
    """Return the jobs whose base demand `gpus` GPUs can hold, and how many were dropped.

    Raises
    ------
    FieldError
        If no job is left.
    """
    require_integer("gpus", gpus, minimum=1)
    jobs = [job for job in workload.jobs if job.min_gpus <= gpus]
    dropped = len(workload.jobs) - len(jobs)
    if not jobs:
        raise FieldError("gpus", gpus, "must hold at least one job of the workload")
    sentence = f"{counted(dropped, 'job')} larger than {gpus:,} GPUs left out."
    return _changed(workload, jobs, sentence), dropped


def demand_in_words(workload: Workload, gpus: int) -> str:
    """Return a line on how much a workload asks of `gpus` GPUs."""
    require_integer("gpus", gpus, minimum=1)
    jobs = counted(len(workload.jobs), "job")
    asks = "asks" if len(workload.jobs) == 1 else "ask"
    span = workload.submission_span_s
    if span <= 0:
        hours = workload.gpu_work_s / 3600
        return f"{jobs} at one moment {asks} for {hours:,.1f} GPU hours of {gpus:,} GPUs"
    days = f"{span / DAY_S:.1f}" if span < 10 * DAY_S else f"{span / DAY_S:.0f}"
    return f"{jobs} over {days} days {asks} for {100 * workload.load(gpus):.1f} % of {gpus:,} GPUs"


def _changed(workload: Workload, jobs: Sequence[Job], sentence: str) -> Workload:
    return replace(workload, jobs=tuple(jobs), assumptions=(*workload.assumptions, sentence))
