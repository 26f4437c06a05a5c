"""Recompute the objective of an allocation or schedule from the instance and the solution alone.

The checker is written for clarity. It reads the records of the instance, in rational numbers, and
not the arrays that the algorithms use, so that an error in the arrays cannot hide here. The times
of a schedule are converted to whole ticks, with enough ticks per second to represent all of them:
integers take a fifth of the time of fractions.

One-shot objectives are sums of terms. Each term is exact before it is rounded to a float, and
`math.fsum` adds them: the relative error is at most 2**-52. A schedule consists of computed floats,
so a rule counts as kept if it is violated by at most 1e-9:

* times (a gap between two pieces of a job, a start before the release or, of a running job, after
  0): 1e-9 of the sum of all JCTs, or of the time from the first release to the end of the schedule
  if that is less;
* workers below w_min or above w_max: 1e-9 of these limits;
* GPUs above `gpus`: in total 1e-9 of the GPU-time of all GPUs in that time;
* work done above or below the work due: 1e-9 of that work, plus the work done in four units in the
  last place of the end of each piece.

Times may also be off by four units in the last place of the end of the schedule, and pieces may
hold their GPUs longer by that amount.

Workers that overlap within that tolerance with an earlier piece of the same job do no work in the
overlap.

No schedule gains from the tolerance. The mean JCT includes the delay that would repair the schedule
(`_delay`), if that delay exceeds half the difference at which two values count as equal. So no
schedule that is valid only by rounding has a better objective than the optimum.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from lyra_opt.allocation.instance import (
    ElasticJob,
    Instance,
    NamedWorkers,
    Objective,
    Schedule,
    SchedulePiece,
    Solution,
    WorkerAllocation,
)
from lyra_opt.core.fields import declared, key
from lyra_opt.core.problem import CheckReport
from lyra_opt.core.result import RELATIVE_TOLERANCE
from lyra_opt.core.rules import ANY_NUMBER, Integer, ListOf, Number, Text

TOLERANCE = Fraction(1, 10**9)
ROUNDINGS = 4
"""A time may be off by this many units in the last place of the end of its piece."""


@declared()
class Report(CheckReport):
    """The checker's report on an allocation or schedule: violations, objective and measures."""

    objective: float | None = key(
        ANY_NUMBER,
        "in seconds: the reduction, the sum of T(w), the sum of completion times or the mean JCT",
        default=None,
    )
    started: tuple[str, ...] | None = key(
        ListOf(Text(), least=0),
        "ids of the started jobs, in file order (two_phase and joint)",
        default=None,
    )
    used_gpus: int | None = key(
        Integer(), "GPUs allocated, at most the instance's gpus (all but mean_jct)", default=None
    )
    makespan_s: float | None = key(
        Number(), "completion time of the last job (mean_jct)", default=None
    )
    mean_queuing_s: float | None = key(
        Number(), "mean time from release to start (mean_jct)", default=None
    )


def check(instance: Instance, solution: Solution) -> Report:
    """Return the report on `solution`: the rules that it breaks, or its objective.

    Time O(jobs log jobs) for workers and O(pieces log pieces) for a schedule, in rational numbers.
    """
    is_schedule = isinstance(solution, Schedule)
    if is_schedule != (instance.objective is Objective.MEAN_JCT):
        needed = "workers for each job" if is_schedule else "a schedule"
        return Report.invalid([f"the objective {instance.objective} needs {needed}"])
    if isinstance(solution, Schedule):
        return _check_schedule(instance, solution)
    if isinstance(solution, NamedWorkers):
        violations = _name_violations(instance, solution)
        if violations:
            return Report.invalid(violations)
        solution = solution.in_file_order(instance)
    return _check_workers(instance, solution)


def started_by_two_phase(instance: Instance) -> list[bool]:
    """Return, in file order, whether phase 1 of `Objective.TWO_PHASE` starts each job.

    Running jobs keep their base demands first. Then the waiting jobs are visited by work / w_max,
    ties in file order. Each job gets its base demand if it fits into the free GPUs, and is skipped
    if not.
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
    """Return the seconds in which all GPUs together do all the work, the H of `Objective.JOINT`."""
    works = (Fraction(job.work_worker_s) * job.gpus_per_worker for job in instance.jobs)
    return sum(works, Fraction(0)) / instance.gpus


def _shortest_s(job: ElasticJob) -> tuple[float, Fraction]:
    """Return a sort key in the exact order of work / w_max.

    It has the quotient as a float first, because comparing floats is faster.
    """
    return job.work_worker_s / job.max_workers, Fraction(job.work_worker_s) / job.max_workers


def _name_violations(instance: Instance, named: NamedWorkers) -> list[str]:
    ids = {job.id for job in instance.jobs}
    given = named.workers.keys()
    unknown = [f"job {job!r} is not in the instance" for job in named.workers if job not in ids]
    missing = [
        f"job {job.id!r} has no number of workers (a waiting job has 0)"
        for job in instance.jobs
        if job.id not in given
    ]
    return unknown + missing


def _check_workers(instance: Instance, solution: WorkerAllocation) -> Report:
    if len(solution.workers) != len(instance.jobs):
        return Report.invalid(
            [
                f"workers must have one number per job ({len(instance.jobs)}), "
                f"not {len(solution.workers)}"
            ]
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
            f"job {job.id!r} must {'be started' if starts else 'wait'}: after the running jobs, "
            "jobs start in the order of work / w_max"
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
    """Return the contribution of each job to a one-shot objective, in seconds."""
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
    """A piece of one job's schedule, with its start and end in whole ticks (see `_Ticks`)."""

    start: int
    end: int
    workers: int | Fraction


class _Ticks:
    """A unit of time such that all times of a schedule are whole multiples of it."""

    def __init__(self, instance: Instance, schedule: Schedule) -> None:
        times_s = [job.release_s for job in instance.jobs]
        for piece in schedule.pieces:
            times_s += piece.start_s, piece.end_s
        self.in_a_second = math.lcm(*{time_s.as_integer_ratio()[1] for time_s in times_s})

    def of(self, time_s: float) -> int:
        """Convert a time of the instance or the schedule from seconds to ticks."""
        numerator, denominator = time_s.as_integer_ratio()
        return numerator * (self.in_a_second // denominator)

    def seconds(self, ticks: int | Fraction) -> float:
        """Convert ticks to seconds, rounded to the nearest float."""
        return float(Fraction(ticks) / self.in_a_second)


def _check_schedule(instance: Instance, schedule: Schedule) -> Report:
    pieces: dict[str, list[SchedulePiece]] = defaultdict(list)
    for piece in schedule.pieces:
        pieces[piece.job].append(piece)
    violations = [
        f"job {job!r} is not in the instance" for job in pieces if job not in instance.job_position
    ]
    ticks = _Ticks(instance, schedule)
    makespan_s = float(max((piece.end_s for piece in schedule.pieces), default=0.0))
    jcts = sum(
        max((ticks.of(piece.end_s) for piece in of_job), default=0) - ticks.of(job.release_s)
        for job in instance.jobs
        for of_job in (pieces.get(job.id, ()),)
    )
    span = max(0, min(jcts, ticks.of(makespan_s) - ticks.of(instance.first_release_s)))
    rounding = ROUNDINGS * Fraction(math.ulp(makespan_s)) * ticks.in_a_second
    slack = math.floor(TOLERANCE * span + rounding)  # ticks are integers
    stretches: list[tuple[ElasticJob, list[_Stretch]]] = []
    for job in instance.jobs:
        if job.id not in pieces:
            violations.append(f"job {job.id!r} is not in the schedule")
            continue
        ordered = sorted(pieces[job.id], key=lambda piece: (piece.start_s, piece.end_s))
        of_job = _without_overlaps(ordered, ticks)
        violations += _time_violations(job, ordered, slack, ticks)
        violations += _work_violations(job, of_job, ticks)
        stretches.append((job, of_job))
    allowed = TOLERANCE * instance.gpus * span + rounding * sum(
        piece.workers * job.gpus_per_worker for job, of_job in stretches for piece in of_job
    )
    violations += _capacity_violations(instance.gpus, stretches, allowed, ticks)
    if violations:
        return Report.invalid(violations)
    jobs = len(instance.jobs)
    waits = sum(of_job[0].start - ticks.of(job.release_s) for job, of_job in stretches)
    completions = Fraction(
        sum(of_job[-1].end - ticks.of(job.release_s) for job, of_job in stretches)
    )
    delay = _delay(instance.gpus, stretches, ticks)
    if 2 * delay > Fraction(RELATIVE_TOLERANCE) * completions:
        completions += delay
    return Report(
        objective=ticks.seconds(completions / jobs),
        makespan_s=makespan_s,
        mean_queuing_s=max(0.0, ticks.seconds(Fraction(waits, jobs))),
    )


def _delay(
    gpus: int, stretches: Sequence[tuple[ElasticJob, Sequence[_Stretch]]], ticks: _Ticks
) -> Fraction:
    """Return the total delay, in ticks, of repairing the small violations of a schedule.

    First each job is repaired: it runs no earlier than its release, without gaps, and has from
    w_min to w_max workers. Then two kinds of time are inserted. A job needs time for the work that
    it misses. Intervals in which more than all GPUs are held need as much time again (less, if less
    than one GPU too many is held: fewer extra workers suffice). The jobs that run during an
    inserted time keep their workers. It delays every job that has not completed.
    """
    exact = [(job, _without_rounding(job, of_job, ticks)) for job, of_job in stretches]
    ends = sorted(of_job[-1].end for _, of_job in exact)
    delay = Fraction(0)
    for job, of_job in exact:
        done = sum((piece.end - piece.start) * _rate(job, piece.workers) for piece in of_job)
        missed = Fraction(job.work_worker_s) * ticks.in_a_second - done
        if missed > 0:
            late = len(ends) - bisect_left(ends, of_job[-1].end)
            delay += missed / _rate(job, of_job[-1].workers) * late
    for start, end, excess in _overfull(gpus, exact):
        delay += (end - start) * min(1, excess) * (len(ends) - bisect_right(ends, start))
    return delay


def _without_rounding(job: ElasticJob, of_job: Sequence[_Stretch], ticks: _Ticks) -> list[_Stretch]:
    """Return the pieces of a job without the small violations that rounding causes."""
    release = ticks.of(job.release_s)
    starts = [0 if job.running else max(of_job[0].start, release)]
    starts += [max(piece.start, release) for piece in of_job[1:]]
    ends = [*starts[1:], max(of_job[-1].end, starts[-1])]
    return [
        _Stretch(start, end, min(max(piece.workers, job.min_workers), job.max_workers))
        for start, end, piece in zip(starts, ends, of_job, strict=True)
    ]


def _without_overlaps(ordered: Sequence[SchedulePiece], ticks: _Ticks) -> list[_Stretch]:
    """Return the pieces of a job by start, each cut to start after the earlier pieces end."""
    stretches: list[_Stretch] = []
    end = 0
    for piece in ordered:
        start = max(ticks.of(piece.start_s), end)
        end = max(ticks.of(piece.end_s), start)
        workers = Fraction(piece.workers)
        whole = workers.numerator if workers.denominator == 1 else workers
        stretches.append(_Stretch(start, end, whole))
    return stretches


def _time_violations(
    job: ElasticJob, ordered: Sequence[SchedulePiece], slack: int, ticks: _Ticks
) -> list[str]:
    """Return error messages if a job starts early or late, pauses, or has overlapping pieces."""
    violations = []
    first_s = ordered[0].start_s
    if ticks.of(job.release_s) - ticks.of(first_s) > slack:
        violations.append(
            f"job {job.id!r} starts at {first_s} s, before its release at {job.release_s} s"
        )
    if job.running and ticks.of(first_s) > slack:
        violations.append(f"job {job.id!r} is running, but its first piece starts at {first_s} s")
    for earlier, later in pairwise(ordered):
        gap = ticks.of(later.start_s) - ticks.of(earlier.end_s)
        if gap > slack:
            violations.append(
                f"job {job.id!r} has no workers from {earlier.end_s} s to {later.start_s} s, "
                "but a started job is not preempted"
            )
        elif gap < -slack:
            violations.append(f"job {job.id!r} has two pieces at once from {later.start_s} s on")
    return violations


def _work_violations(job: ElasticJob, stretches: Sequence[_Stretch], ticks: _Ticks) -> list[str]:
    """Return error messages if a job's workers are out of range or its work is not done exactly."""
    least, most = job.min_workers, job.max_workers
    violations = [
        f"job {job.id!r} has {float(stretch.workers):g} workers from "
        f"{ticks.seconds(stretch.start):g} s on, but its range is {least} to {most}"
        for stretch in stretches
        if not least <= stretch.workers <= most
        and not least * (1 - TOLERANCE) <= stretch.workers <= most * (1 + TOLERANCE)
    ]
    done = sum((stretch.end - stretch.start) * _rate(job, stretch.workers) for stretch in stretches)
    due = Fraction(job.work_worker_s) * ticks.in_a_second
    missed = abs(done - due)
    if missed > TOLERANCE * due:
        roundings_s = sum(Fraction(math.ulp(ticks.seconds(piece.end))) for piece in stretches)
        roundings = ROUNDINGS * roundings_s * ticks.in_a_second
        if missed > TOLERANCE * due + roundings * job.rate(most):
            violations.append(
                f"job {job.id!r} does {ticks.seconds(done):.12g} worker-seconds of work, but must "
                f"do {job.work_worker_s:.12g}"
            )
    return violations


def _rate(job: ElasticJob, workers: int | Fraction) -> int | Fraction:
    """Return the exact work per second of `workers` workers, without fractions where possible."""
    if workers == job.min_workers or job.scaling_loss == 0:
        return workers
    return job.rate(workers)


def _capacity_violations(
    gpus: int,
    stretches: Sequence[tuple[ElasticJob, Sequence[_Stretch]]],
    allowed: Fraction,
    ticks: _Ticks,
) -> list[str]:
    """Return an error message if jobs hold more GPUs than exist, beyond the rounding tolerance."""
    # Each pair holds the excess in GPU-ticks and the start of an interval with too many GPUs.
    found = [((end - start) * excess, start) for start, end, excess in _overfull(gpus, stretches)]
    exceeded = sum(much for much, _ in found)
    if exceeded <= allowed:
        return []
    return [
        f"more than the {gpus} GPUs are held from {ticks.seconds(max(found)[1]):g} s on "
        f"({ticks.seconds(exceeded):g} GPU-seconds too many in total)"
    ]


def _overfull(
    gpus: int, stretches: Sequence[tuple[ElasticJob, Sequence[_Stretch]]]
) -> Iterator[tuple[int, int, int | Fraction]]:
    """Yield the start, end and excess of each interval in which more than all GPUs are held."""
    changes: dict[int, int | Fraction] = defaultdict(int)
    for job, of_job in stretches:
        for stretch in of_job:
            held = stretch.workers * job.gpus_per_worker
            changes[stretch.start] += held
            changes[stretch.end] -= held
    holding: int | Fraction = 0
    for start, end in pairwise(sorted(changes)):
        holding += changes[start]
        if holding > gpus:
            yield start, end, holding - gpus
