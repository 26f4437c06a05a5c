"""Recompute what a schedule in rounds or shares of time are worth, from the instance alone.

Written for plainness, on the instance's own records and in rational numbers, and not on the
arrays that the algorithms use, so that an error in those cannot hide here. A float stands for the
rational number that it is. Two tolerances, both relative:

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
from lyra_opt.core.report import CheckReport
from lyra_opt.core.rules import ANY_NUMBER, ListOf, Number, Text
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    Objective,
    RoundSchedule,
    TimeShares,
)
from lyra_opt.heterogeneous.utility import Deadline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.heterogeneous.instance import (
        GangJob,
        Instance,
        RoundEntry,
        Solution,
    )

STEPS_TOLERANCE = Fraction(1, 10**9)
SHARE_TOLERANCE = Fraction(1, 10**6)


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
        return _check_shares(instance, solution)
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


def usable_types(instance: Instance, job: GangJob) -> list[str]:
    """Return the types on which a job can have a share: it runs there, and its gang fits."""
    return [
        name
        for name, gpus in instance.gpus_of_type.items()
        if job.throughput.get(name, 0.0) > 0 and job.gang <= gpus
    ]


def share_throughput(job: GangJob, shares: Mapping[str, float | Fraction]) -> Fraction:
    """Return the steps a second of a job on shares of its time, each on a single server."""
    return sum(
        (Fraction(job.throughput.get(name, 0.0)) * Fraction(part) for name, part in shares.items()),
        Fraction(0),
    )


def equal_throughput(instance: Instance, job: GangJob) -> Fraction:
    """Return a job's steps a second on each type by its part of all GPUs (Gavel's X_eq)."""
    gpus = sum(instance.gpus_of_type.values())
    shares = {
        name: Fraction(instance.gpus_of_type[name], gpus) for name in usable_types(instance, job)
    }
    return share_throughput(job, shares)


def isolated_throughput(instance: Instance, job: GangJob) -> Fraction:
    """Return a job's steps a second on an equal part of the cluster (Gavel's X_iso).

    Of each type the GPUs over jobs times gang, scaled down to a sum of 1 where it exceeds that.
    """
    parts = len(instance.jobs) * job.gang
    total = Fraction(sum(instance.gpus_of_type.values()), parts)
    shares = {
        name: Fraction(instance.gpus_of_type[name], parts) / max(Fraction(1), total)
        for name in usable_types(instance, job)
    }
    return share_throughput(job, shares)


def least_throughput(job: GangJob) -> Fraction | None:
    """Return the steps a second that the deadline of a job asks for (objective ``cost``).

    0 without a deadline, None if it is over.
    """
    if not isinstance(job.utility, Deadline):
        return Fraction(0)
    left_s = Fraction(job.utility.deadline_s) - Fraction(job.elapsed_s)
    return Fraction(job.steps) / left_s if left_s > 0 else None


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


# Shares of time


def _check_shares(instance: Instance, solution: TimeShares) -> Report:
    violations = _share_violations(instance, solution)
    if violations:
        return Report.invalid(violations)
    rates = {
        job.id: share_throughput(job, solution.shares.get(job.id, {})) for job in instance.jobs
    }
    if instance.objective is Objective.COST:
        violations = _deadline_violations(instance, rates)
    elif instance.objective is Objective.FINISH_TIME_FAIRNESS:
        violations = [
            f"job {job.id!r} has no share, so that it never finishes"
            for job in instance.jobs
            if not rates[job.id]
        ]
    if violations:
        return Report.invalid(violations)
    return Report(violations=(), objective=float(_share_objective(instance, solution, rates)))


def _share_violations(instance: Instance, solution: TimeShares) -> list[str]:
    violations = [
        f"job {job!r} is not in the instance"
        for job in solution.shares
        if job not in instance.job_position
    ]
    held: dict[str, Fraction] = defaultdict(Fraction)
    for job in instance.jobs:
        shares = solution.shares.get(job.id, {})
        usable = usable_types(instance, job)
        for name, share in shares.items():
            if name not in instance.gpus_of_type:
                violations.append(f"job {job.id!r}: GPU type {name!r} is not in the instance")
            elif share and name not in usable:
                violations.append(f"job {job.id!r} has a share of {name!r}, where it cannot run")
            held[name] += job.gang * Fraction(share)
        total = sum(map(Fraction, shares.values()), Fraction(0))
        if total > 1 + SHARE_TOLERANCE:
            violations.append(f"job {job.id!r}: its shares sum to {float(total):.12g}, above 1")
    for name, gpus in instance.gpus_of_type.items():
        if held[name] > gpus * (1 + SHARE_TOLERANCE):
            violations.append(
                f"GPU type {name!r}: gangs hold {float(held[name]):.12g} GPUs on average, but "
                f"there are {gpus}"
            )
    return violations


def _deadline_violations(instance: Instance, rates: Mapping[str, Fraction]) -> list[str]:
    violations = []
    for job in instance.jobs:
        needed = least_throughput(job)
        if needed is None:
            violations.append(f"job {job.id!r}: its deadline is over")
        elif rates[job.id] < needed * (1 - SHARE_TOLERANCE):
            violations.append(
                f"job {job.id!r} does {float(rates[job.id]):.12g} steps/s, but its deadline asks "
                f"for {float(needed):.12g}"
            )
    return violations


def _share_objective(
    instance: Instance, solution: TimeShares, rates: Mapping[str, Fraction]
) -> Fraction:
    jobs = instance.jobs
    if instance.objective is Objective.MAX_MIN_SHARE:
        return min(
            job.gang / Fraction(job.weight) * rates[job.id] / equal_throughput(instance, job)
            for job in jobs
        )
    if instance.objective is Objective.FINISH_TIME_FAIRNESS:
        return max(finish_time_ratio(instance, job, rates[job.id]) for job in jobs)
    if instance.objective is Objective.THROUGHPUT:
        return sum((Fraction(job.weight) * rates[job.id] for job in jobs), Fraction(0))
    prices = {gpu_type.name: Fraction(gpu_type.price_per_hour) for gpu_type in instance.gpu_types}
    return sum(
        (
            Fraction(job.weight) * share_throughput(job, {name: share}) / prices[name]
            for job in jobs
            for name, share in solution.shares.get(job.id, {}).items()
        ),
        Fraction(0),
    )


def finish_time_ratio(instance: Instance, job: GangJob, throughput: Fraction) -> Fraction:
    """Return the finish time of a job at a throughput over that on an equal part of the cluster."""
    shared_s = Fraction(job.elapsed_s) + Fraction(job.steps) / throughput
    isolated_s = Fraction(job.steps) / isolated_throughput(instance, job)
    return shared_s / (Fraction(job.isolated_elapsed_s) + isolated_s)
