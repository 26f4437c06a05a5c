"""Recompute what an allocation or a schedule is worth, from the instance and the solution alone.

Written for plainness, on the instance's own records and in rational numbers, and not on the
arrays that the algorithms use, so that an error in those cannot hide here.

One-shot objectives are sums of terms, each exact before it is rounded to a float, which are added
by `math.fsum`: the relative error is at most 2**-52. A schedule consists of floats that somebody
computed, so each of its rules is kept if it is broken by no more than 1e-9:

* times (a gap between two pieces of a job, a start before the release or, of a running job,
  after 0): 1e-9 of the time from the first release to the end of the schedule;
* workers below w_min or above w_max: 1e-9 of these;
* GPUs above `gpus`: together 1e-9 of all GPU-seconds of that time;
* work done above or below the work due: 1e-9 of it, and what four units in the last place of the
  time of each piece's end are worth.

As many units in the last place of the end of the schedule may times be off that do not count from
0, and pieces hold their GPUs for longer.

Workers that overlap with an earlier piece of the same job within that tolerance do no work twice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from lyra_opt.allocation.instance import (
    NamedWorkers,
    Objective,
    Schedule,
    WorkerAllocation,
)
from lyra_opt.core.fields import declared, key
from lyra_opt.core.report import CheckReport
from lyra_opt.core.rules import ANY_NUMBER, Integer, ListOf, Number, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.allocation.instance import (
        ElasticJob,
        Instance,
        SchedulePiece,
        Solution,
    )

TOLERANCE = Fraction(1, 10**9)
ROUNDINGS = 4
"""Units in the last place of the end of a piece that its time may be off by."""


@declared()
class Report(CheckReport):
    """What `check` found."""

    objective: float | None = key(
        ANY_NUMBER,
        "in seconds: the reduction, the sum of T(w), the sum of completions or the mean JCT",
        default=None,
    )
    started: tuple[str, ...] | None = key(
        ListOf(Text(), least=0),
        "ids of the started jobs, in file order (two_phase and joint)",
        default=None,
    )
    used_gpus: int | None = key(
        Integer(), "GPUs given, of the instance's gpus (all but mean_jct)", default=None
    )
    makespan_s: float | None = key(Number(), "when the last job completes (mean_jct)", default=None)
    mean_queuing_s: float | None = key(
        Number(), "mean time from release to start (mean_jct)", default=None
    )


def check(instance: Instance, solution: Solution) -> Report:
    """Return whether `solution` is valid and what it is worth.

    Time O(jobs log jobs) for workers, O(pieces log pieces) for a schedule, in rational numbers.
    """
    is_schedule = isinstance(solution, Schedule)
    if is_schedule != (instance.objective is Objective.MEAN_JCT):
        needed = "workers for each job" if is_schedule else "a schedule"
        return Report.invalid([f"the objective {instance.objective} asks for {needed}"])
    if isinstance(solution, Schedule):
        return _check_schedule(instance, solution)
    if isinstance(solution, NamedWorkers):
        violations = _name_violations(instance, solution)
        if violations:
            return Report.invalid(violations)
        solution = solution.in_file_order(instance)
    return _check_workers(instance, solution)


def started_by_two_phase(instance: Instance) -> list[bool]:
    """Return which jobs phase 1 of `Objective.TWO_PHASE` starts, in file order.

    Running jobs keep their base demands first. Then each waiting job, by work / w_max and ties
    in file order, gets its base demand if it fits into what is left, and is skipped if not.
    """
    started = [job.running for job in instance.jobs]
    free = instance.gpus - sum(job.min_gpus for job in instance.jobs if job.running)
    waiting = [position for position, job in enumerate(instance.jobs) if not job.running]
    waiting.sort(key=lambda position: _shortest_s(instance.jobs[position]))
    for position in waiting:
        if instance.jobs[position].min_gpus <= free:
            free -= instance.jobs[position].min_gpus
            started[position] = True
    return started


def waiting_horizon_s(instance: Instance) -> Fraction:
    """Return H of `Objective.JOINT`: the time in which all GPUs could do all the work."""
    works = (Fraction(job.work_worker_s) * job.gpus_per_worker for job in instance.jobs)
    return sum(works, Fraction(0)) / instance.gpus


def _shortest_s(job: ElasticJob) -> Fraction:
    return Fraction(job.work_worker_s) / job.max_workers


def _name_violations(instance: Instance, named: NamedWorkers) -> list[str]:
    ids = {job.id for job in instance.jobs}
    given = named.workers.keys()
    unknown = [f"job {job!r} is not in the instance" for job in named.workers if job not in ids]
    missing = [
        f"job {job.id!r} has no number of workers (0 if it waits)"
        for job in instance.jobs
        if job.id not in given
    ]
    return unknown + missing


def _check_workers(instance: Instance, solution: WorkerAllocation) -> Report:
    if len(solution.workers) != len(instance.jobs):
        return Report.invalid(
            [f"{len(solution.workers)} numbers of workers are given for {len(instance.jobs)} jobs"]
        )
    granted = list(zip(instance.jobs, solution.workers, strict=True))
    violations = [
        f"job {job.id!r} has {workers} workers, but its range is {job.min_workers} to "
        f"{job.max_workers}"
        for job, workers in granted
        if workers and not job.min_workers <= workers <= job.max_workers
    ]
    reduces = instance.objective is Objective.JCT_REDUCTION
    if instance.objective is Objective.TWO_PHASE:
        must_start = started_by_two_phase(instance)
        violations += [
            f"job {job.id!r} must {'be started' if starts else 'wait'}: base demands go by "
            "work / w_max, after the running jobs'"
            for (job, workers), starts in zip(granted, must_start, strict=True)
            if (workers > 0) != starts
        ]
    else:
        reason = "its base demand is granted" if reduces else "it is running"
        violations += [
            f"job {job.id!r} has no workers, but {reason}"
            for job, workers in granted
            if workers == 0 and (reduces or job.running)
        ]
    used_gpus = sum(
        (workers - (job.min_workers if reduces else 0)) * job.gpus_per_worker
        for job, workers in granted
    )
    if used_gpus > instance.gpus:
        extra = "extra " if reduces else ""
        violations.append(f"the {extra}workers hold {used_gpus} GPUs, but gpus is {instance.gpus}")
    if violations:
        return Report.invalid(violations)
    return Report(
        objective=math.fsum(map(float, _terms_s(instance, granted))),
        started=None if reduces else tuple(job.id for job, workers in granted if workers),
        used_gpus=used_gpus,
    )


def _terms_s(instance: Instance, granted: Sequence[tuple[ElasticJob, int]]) -> list[Fraction]:
    """Return what each job adds to a one-shot objective."""
    if instance.objective is Objective.JCT_REDUCTION:
        return [
            job.duration_s(job.min_workers) - job.duration_s(workers) for job, workers in granted
        ]
    terms = [job.duration_s(workers) for job, workers in granted if workers]
    if instance.objective is Objective.JOINT:
        horizon_s = waiting_horizon_s(instance)
        terms += [
            job.duration_s(job.min_workers) + horizon_s for job, workers in granted if not workers
        ]
    return terms


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A piece of a schedule in rational numbers, of a job that is in the instance."""

    start_s: Fraction
    end_s: Fraction
    workers: Fraction


def _check_schedule(instance: Instance, schedule: Schedule) -> Report:
    pieces: dict[str, list[SchedulePiece]] = defaultdict(list)
    for piece in schedule.pieces:
        pieces[piece.job].append(piece)
    violations = [
        f"job {job!r} is not in the instance" for job in pieces if job not in instance.job_position
    ]
    makespan_s = Fraction(max((piece.end_s for piece in schedule.pieces), default=0.0))
    origin_s = Fraction(instance.first_release_s)
    span_s = max(Fraction(0), makespan_s - origin_s)
    rounding_s = ROUNDINGS * Fraction(math.ulp(float(makespan_s))) if origin_s else Fraction(0)
    slack_s = TOLERANCE * span_s + rounding_s
    stretches: list[tuple[ElasticJob, list[_Stretch]]] = []
    for job in instance.jobs:
        if job.id not in pieces:
            violations.append(f"job {job.id!r} is not in the schedule")
            continue
        ordered = sorted(pieces[job.id], key=lambda piece: (piece.start_s, piece.end_s))
        of_job = _without_overlaps(ordered)
        violations += _time_violations(job, ordered, slack_s)
        violations += _work_violations(job, of_job)
        stretches.append((job, of_job))
    allowed_gpu_s = TOLERANCE * instance.gpus * span_s
    if rounding_s:
        allowed_gpu_s += rounding_s * sum(
            piece.workers * job.gpus_per_worker for job, of_job in stretches for piece in of_job
        )
    violations += _capacity_violations(instance.gpus, stretches, allowed_gpu_s)
    if violations:
        return Report.invalid(violations)
    jobs = len(instance.jobs)
    waits = [of_job[0].start_s - Fraction(job.release_s) for job, of_job in stretches]
    completions = [of_job[-1].end_s - Fraction(job.release_s) for job, of_job in stretches]
    return Report(
        objective=float(sum(completions, Fraction(0)) / jobs),
        makespan_s=float(makespan_s),
        mean_queuing_s=max(0.0, float(sum(waits, Fraction(0)) / jobs)),
    )


def _without_overlaps(ordered: Sequence[SchedulePiece]) -> list[_Stretch]:
    """Return the pieces of a job, by start, each from no earlier than the end of those before."""
    stretches: list[_Stretch] = []
    end_s = Fraction(0)
    for piece in ordered:
        start_s = max(Fraction(piece.start_s), end_s)
        end_s = max(Fraction(piece.end_s), start_s)
        stretches.append(_Stretch(start_s, end_s, Fraction(piece.workers)))
    return stretches


def _time_violations(
    job: ElasticJob, ordered: Sequence[SchedulePiece], slack_s: Fraction
) -> list[str]:
    """Return what is wrong with when the job runs."""
    violations = []
    first_s = ordered[0].start_s
    if first_s < Fraction(job.release_s) - slack_s:
        violations.append(
            f"job {job.id!r} starts at {first_s} s, before its release at {job.release_s} s"
        )
    if job.running and first_s > slack_s:
        violations.append(f"job {job.id!r} is running, but its first piece starts at {first_s} s")
    for earlier, later in pairwise(ordered):
        gap_s = Fraction(later.start_s) - Fraction(earlier.end_s)
        if gap_s > slack_s:
            violations.append(
                f"job {job.id!r} has no workers from {earlier.end_s} s to {later.start_s} s, "
                "but a started job is not preempted"
            )
        elif gap_s < -slack_s:
            violations.append(f"job {job.id!r} has two pieces at once from {later.start_s} s on")
    return violations


def _work_violations(job: ElasticJob, stretches: Sequence[_Stretch]) -> list[str]:
    """Return what is wrong with how many workers the job has, and how much they do."""
    least, most = job.min_workers * (1 - TOLERANCE), job.max_workers * (1 + TOLERANCE)
    violations = [
        f"job {job.id!r} has {float(stretch.workers):g} workers from {float(stretch.start_s):g} s "
        f"on, but its range is {job.min_workers} to {job.max_workers}"
        for stretch in stretches
        if not least <= stretch.workers <= most
    ]
    done = sum(
        ((stretch.end_s - stretch.start_s) * job.rate(stretch.workers) for stretch in stretches),
        Fraction(0),
    )
    due = Fraction(job.work_worker_s)
    roundings_s = sum(Fraction(math.ulp(float(stretch.end_s))) for stretch in stretches)
    allowed = TOLERANCE * due + ROUNDINGS * roundings_s * job.rate(job.max_workers)
    if abs(done - due) > allowed:
        violations.append(
            f"job {job.id!r} gets {float(done):.12g} worker-seconds of work done, but "
            f"{job.work_worker_s:.12g} are due"
        )
    return violations


def _capacity_violations(
    gpus: int, stretches: Sequence[tuple[ElasticJob, Sequence[_Stretch]]], allowed_gpu_s: Fraction
) -> list[str]:
    """Return whether more GPUs than there are are held for longer than rounding explains."""
    changes: dict[Fraction, Fraction] = defaultdict(Fraction)
    for job, of_job in stretches:
        for stretch in of_job:
            held = stretch.workers * job.gpus_per_worker
            changes[stretch.start_s] += held
            changes[stretch.end_s] -= held
    held = excess_gpu_s = Fraction(0)
    worst: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))  # excess, from when
    for start_s, end_s in pairwise(sorted(changes)):
        held += changes[start_s]
        excess = max(Fraction(0), held - gpus)
        excess_gpu_s += excess * (end_s - start_s)
        worst = max(worst, (excess * (end_s - start_s), start_s))
    if excess_gpu_s <= allowed_gpu_s:
        return []
    return [
        f"more than the {gpus} GPUs are held from {float(worst[1]):g} s on "
        f"({float(excess_gpu_s):g} GPU-seconds too many in all)"
    ]
