"""Recompute what a schedule in rounds or shares of time are worth, from the instance alone.

Written for plainness, on the instance's own records and in rational numbers (of shares in integers
over powers of two, `lyra_opt.heterogeneous.share_checker`), and not on the arrays that the
algorithms use, so that an error in those cannot hide here. A float stands for the rational number
that it is. Two tolerances, both relative:

* a job is complete once it has done its steps less 1e-9 of them (`due_steps`);
* shares of time are floats that somebody computed: those of a job may sum to 1 + 1e-6, and those
  of a type hold its GPUs and 1e-6 of them; a throughput that a deadline asks for may be missed by
  1e-6 of it. No other rule has any tolerance.

An objective is exact until it is rounded to a float, but for utilities, which are the floats that
`utility.at` returns.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from lyra_opt.core.fields import declared, key
from lyra_opt.core.problem import CheckReport
from lyra_opt.core.rules import ANY_NUMBER, ListOf, Number, Text
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    Objective,
    RoundSchedule,
    TimeShares,
)
from lyra_opt.heterogeneous.share_checker import CheckedShares

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.instance import (
        GangJob,
        Instance,
        RoundEntry,
        Solution,
    )

STEPS_TOLERANCE = Fraction(1, 10**9)


@declared()
class Report(CheckReport):
    """What `check` found."""

    objective: float | None = key(ANY_NUMBER, "the value of the instance's objective", default=None)
    completed: tuple[str, ...] | None = key(
        ListOf(Text(), least=0),
        "ids of the jobs that complete, in file order (schedules)",
        default=None,
    )
    makespan_s: float | None = key(
        Number(),
        "when the last of them does (schedules of several rounds, unless none completes)",
        default=None,
    )
    mean_jct_s: float | None = key(
        Number(), "mean time of these from release to completion (likewise)", default=None
    )
    gpu_s: float | None = key(Number(), "GPU-seconds that gangs hold (schedules)", default=None)


def check(instance: Instance, solution: Solution) -> Report:
    """Return whether `solution` is valid and what it is worth.

    Time O(entries log entries) for a schedule, O(jobs types) for shares, in rational numbers.
    """
    asks_for_shares = instance.objective in SHARE_OBJECTIVES
    if isinstance(solution, TimeShares) != asks_for_shares:
        needed = "shares of time" if asks_for_shares else "a schedule in rounds"
        return Report.invalid([f"the objective {instance.objective} asks for {needed}"])
    if isinstance(solution, TimeShares):
        checked = CheckedShares(instance, solution)
        violations = checked.violations()
        return Report.invalid(violations) if violations else Report(objective=checked.objective())
    return _check_schedule(instance, solution)


# What solutions are measured by; bounds and models are about the same quantities.


def due_steps(job: GangJob) -> Fraction:
    """Return the steps after which a job counts as complete."""
    return Fraction(job.steps) * (1 - STEPS_TOLERANCE)


def jct_s(instance: Instance, job: GangJob, last_round: int) -> Fraction:
    """Return the time from release to the end of a round."""
    return (last_round + 1) * Fraction(instance.round_s) - Fraction(job.release_s)


def worth(instance: Instance, job: GangJob, last_round: int) -> Fraction:
    """Return the weighted utility of a job that completes at the end of a round.

    The JCT is rounded to the nearest float before its utility is looked up.
    """
    utility = job.utility.at(float(jct_s(instance, job, last_round)))
    return Fraction(job.weight) * Fraction(utility)


# Schedules in rounds


def _check_schedule(instance: Instance, schedule: RoundSchedule) -> Report:
    violations = [
        violation for entry in schedule.entries for violation in _entry_violations(instance, entry)
    ]
    if violations:  # what follows looks jobs, servers and types up
        return Report.invalid(violations)
    violations = _capacity_violations(instance, schedule.entries)
    by_job: dict[str, list[RoundEntry]] = {job.id: [] for job in instance.jobs}
    for entry in schedule.entries:
        by_job[entry.job].append(entry)
    for job in instance.jobs:
        violations += _copy_violations(instance, job, by_job[job.id])
    if instance.objective is Objective.ROUND_PROGRESS:
        return Report.invalid(violations) if violations else _round_report(instance, by_job)
    completions: dict[str, int] = {}
    for job in instance.jobs:
        completion = completion_of(instance, job, by_job[job.id])
        if completion is not None:
            completions[job.id] = completion
            violations += [
                f"job {job.id!r} holds GPUs in round {entry.round}, but is complete after round "
                f"{completion}"
                for entry in by_job[job.id]
                if entry.round > completion
            ]
        elif instance.objective is not Objective.UTILITY:
            violations.append(f"job {job.id!r} does not complete")
    return Report.invalid(violations) if violations else _report(instance, by_job, completions)


def _entry_violations(instance: Instance, entry: RoundEntry) -> list[str]:
    """Return what is wrong with an entry by itself."""
    where = f"job {entry.job!r} in round {entry.round}"
    if entry.job not in instance.job_position:
        return [f"{where}: the job is not in the instance"]
    job = instance.jobs[instance.job_position[entry.job]]
    violations = []
    if entry.round >= instance.horizon_rounds:
        violations.append(f"{where}: the last round is {instance.horizon_rounds - 1}")
    if entry.round < instance.first_round(job):
        violations.append(
            f"{where}: the first round that begins at or after its release at {job.release_s:g} s "
            f"is {instance.first_round(job)}"
        )
    held = 0
    for server, types in entry.gpus.items():
        if server not in instance.server_of:
            violations.append(f"{where}: server {server!r} is not in the instance")
        for name, count in types.items():
            held += count
            if name not in instance.gpus_of_type:
                violations.append(f"{where}: GPU type {name!r} is not in the instance")
    if held != job.gang:
        violations.append(f"{where}: it is given {held} GPUs, but its gang is {job.gang}")
    if not violations and job.rate_of(entry.gpus) == 0:
        violations.append(f"{where}: it cannot run where it is placed, its rate is 0")
    if instance.forking and len(entry.gpus) > 1:
        violations.append(f"{where}: a copy is on {len(entry.gpus)} servers, but must be on one")
    return violations


def _capacity_violations(instance: Instance, entries: Sequence[RoundEntry]) -> list[str]:
    """Return which servers give more GPUs of a type in a round than they have."""
    given: dict[tuple[int, str, str], int] = defaultdict(int)
    for entry in entries:
        for server, types in entry.gpus.items():
            for name, count in types.items():
                given[entry.round, server, name] += count
    violations = []
    for (number, server, name), count in sorted(given.items()):
        there = instance.server_of[server].gpus.get(name, 0)
        if count > there:
            violations.append(
                f"round {number}: {count} GPUs of type {name!r} of server {server!r} are given, "
                f"but there are {there}"
            )
    return violations


def _copy_violations(instance: Instance, job: GangJob, entries: Sequence[RoundEntry]) -> list[str]:
    """Return where a job runs twice in a round and may not."""
    seen: set[tuple[int, str]] = set()
    violations = []
    for entry in entries:
        places = list(entry.gpus) if instance.forking else [""]
        for server in places:
            if (entry.round, server) in seen:
                where = f" on server {server!r}" if server else ""
                violations.append(f"job {job.id!r} runs twice{where} in round {entry.round}")
            seen.add((entry.round, server))
    return violations


def completion_of(instance: Instance, job: GangJob, entries: Sequence[RoundEntry]) -> int | None:
    """Return the round by whose end the job has done its steps, None if there is none."""
    done: dict[int, Fraction] = defaultdict(Fraction)
    for entry in entries:
        done[entry.round] += Fraction(job.rate_of(entry.gpus)) * Fraction(instance.round_s)
    total = Fraction(0)
    for number in sorted(done):
        total += done[number]
        if total >= due_steps(job):
            return number
    return None


def _report(
    instance: Instance,
    by_job: Mapping[str, Sequence[RoundEntry]],
    completions: Mapping[str, int],
) -> Report:
    completed = [job for job in instance.jobs if job.id in completions]
    jcts_s = [jct_s(instance, job, completions[job.id]) for job in completed]
    makespan_s = mean_jct_s = None
    if completed:
        makespan_s = float((max(completions.values()) + 1) * Fraction(instance.round_s))
        mean_jct_s = float(sum(jcts_s, Fraction(0)) / len(jcts_s))
    objective: float | None
    if instance.objective is Objective.UTILITY:
        values = (worth(instance, job, completions[job.id]) for job in completed)
        objective = float(sum(values, Fraction(0)))
    else:
        objective = makespan_s if instance.objective is Objective.MAKESPAN else mean_jct_s
    return Report(
        objective=objective,
        completed=tuple(job.id for job in completed),
        makespan_s=makespan_s,
        mean_jct_s=mean_jct_s,
        gpu_s=_gpu_s(instance, by_job),
    )


def _round_report(instance: Instance, by_job: Mapping[str, Sequence[RoundEntry]]) -> Report:
    progress = {
        job.id: min(
            Fraction(1),
            sum(
                (steps_in_round(instance, job, entry.gpus) for entry in by_job[job.id]),
                Fraction(0),
            )
            / Fraction(job.steps),
        )
        for job in instance.jobs
    }
    total = sum((Fraction(job.weight) * progress[job.id] for job in instance.jobs), Fraction(0))
    return Report(
        objective=float(total),
        completed=tuple(
            job.id
            for job in instance.jobs
            if progress[job.id] * Fraction(job.steps) >= due_steps(job)
        ),
        gpu_s=_gpu_s(instance, by_job),
    )


def steps_in_round(
    instance: Instance, job: GangJob, placement: Mapping[str, Mapping[str, int]]
) -> Fraction:
    """Return the steps of a gang in the one round of ``round_progress``, its restart paid for."""
    stays = {server: dict(types) for server, types in placement.items()} == {
        server: dict(types) for server, types in job.current.items()
    }
    run_s = Fraction(instance.round_s) - (0 if stays else Fraction(instance.restart_s))
    return Fraction(job.rate_of(placement)) * run_s


def _gpu_s(instance: Instance, by_job: Mapping[str, Sequence[RoundEntry]]) -> float:
    gangs = sum(job.gang * len(by_job[job.id]) for job in instance.jobs)
    return float(gangs * Fraction(instance.round_s))
