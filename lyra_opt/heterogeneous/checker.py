"""Recompute the feasibility and objective of a schedule or of time shares from the instance alone.

The code is plain on purpose. It works on the records of the instance, not on the arrays of the
algorithms, so an error in those arrays cannot hide here. Arithmetic is rational: every float stands
for its exact value. Time shares use integers over powers of two
(`lyra_opt.heterogeneous.share_checker`). Two tolerances apply, both relative:

* a job is complete once at most 1e-9 of its steps are left (`due_steps`);
* time shares are computed in floats. The shares of a job may sum to 1 + 1e-6, and gangs may hold
  (1 + 1e-6) times the GPUs of a type. A job may miss the throughput that its deadline requires by
  1e-6. No other rule has a tolerance.

An objective is exact until its final rounding to a float, except for utilities, which are the
floats that `utility.at` returns.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction

from lyra_opt.core.fields import declared, key
from lyra_opt.core.problem import CheckReport
from lyra_opt.core.rules import ANY_NUMBER, ListOf, Number, Text
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    GangJob,
    Instance,
    Objective,
    RoundEntry,
    RoundSchedule,
    Solution,
    TimeShares,
)
from lyra_opt.heterogeneous.share_checker import CheckedShares

STEPS_TOLERANCE = Fraction(1, 10**9)


@declared()
class Report(CheckReport):
    """The result of checking a solution: its violations, or its objective and further figures."""

    objective: float | None = key(ANY_NUMBER, "value of the instance's objective", default=None)
    completed: tuple[str, ...] | None = key(
        ListOf(Text(), least=0),
        "ids of the completed jobs, in file order (schedules)",
        default=None,
    )
    makespan_s: float | None = key(
        Number(),
        "completion time of the last completed job (schedules of several rounds, if any job "
        "completes)",
        default=None,
    )
    mean_jct_s: float | None = key(
        Number(),
        "mean JCT of the completed jobs (schedules of several rounds, if any job completes)",
        default=None,
    )
    gpu_s: float | None = key(Number(), "GPU-seconds held by all gangs (schedules)", default=None)


def check(instance: Instance, solution: Solution) -> Report:
    """Check a solution and return a report with its objective or its violations.

    Takes O(entries log entries) for a schedule and O(jobs types) for shares, in rational
    arithmetic.
    """
    asks_for_shares = instance.objective in SHARE_OBJECTIVES
    if isinstance(solution, TimeShares) != asks_for_shares:
        needed = "time shares" if asks_for_shares else "a schedule in rounds"
        return Report.invalid(
            [f"a solution for the objective {instance.objective} must be {needed}"]
        )
    if isinstance(solution, TimeShares):
        checked = CheckedShares(instance, solution)
        violations = checked.violations()
        return Report.invalid(violations) if violations else Report(objective=checked.objective())
    return _check_schedule(instance, solution)


def due_steps(job: GangJob) -> Fraction:
    """Return the number of steps after which a job counts as complete."""
    return Fraction(job.steps) * (1 - STEPS_TOLERANCE)


def jct_s(instance: Instance, job: GangJob, last_round: int) -> Fraction:
    """Return the time from a job's release to the end of round `last_round`, in seconds."""
    return (last_round + 1) * Fraction(instance.round_s) - Fraction(job.release_s)


def worth(instance: Instance, job: GangJob, last_round: int) -> Fraction:
    """Return the weighted utility of a job that completes at the end of round `last_round`.

    The JCT is rounded to the nearest float before its utility is looked up.
    """
    utility = job.utility.at(float(jct_s(instance, job, last_round)))
    return Fraction(job.weight) * Fraction(utility)


def _check_schedule(instance: Instance, schedule: RoundSchedule) -> Report:
    violations = [
        violation for entry in schedule.entries for violation in _entry_violations(instance, entry)
    ]
    if violations:  # the next checks need known jobs, servers and types
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
                f"job {job.id!r} holds GPUs in round {entry.round}, but completes in round "
                f"{completion}"
                for entry in by_job[job.id]
                if entry.round > completion
            ]
        elif instance.objective is not Objective.UTILITY:
            violations.append(f"job {job.id!r} does not complete")
    return Report.invalid(violations) if violations else _report(instance, by_job, completions)


def _entry_violations(instance: Instance, entry: RoundEntry) -> list[str]:
    where = f"job {entry.job!r} in round {entry.round}"
    if entry.job not in instance.job_position:
        return [f"{where}: the job is not in the instance"]
    job = instance.jobs[instance.job_position[entry.job]]
    violations = []
    if entry.round >= instance.horizon_rounds:
        violations.append(
            f"{where}: the last round of the horizon is {instance.horizon_rounds - 1}"
        )
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
        violations.append(f"{where}: it holds {held} GPUs, but its gang is {job.gang}")
    if not violations and job.rate_of(entry.gpus) == 0:
        violations.append(f"{where}: its rate is 0 on the GPUs where it is placed")
    if instance.forking and len(entry.gpus) > 1:
        violations.append(f"{where}: a copy must be on one server, not {len(entry.gpus)}")
    return violations


def _capacity_violations(instance: Instance, entries: Sequence[RoundEntry]) -> list[str]:
    """Return one message per round, server and type in which more GPUs are held than exist."""
    given: dict[tuple[int, str, str], int] = defaultdict(int)
    for entry in entries:
        for server, types in entry.gpus.items():
            for name, count in types.items():
                given[entry.round, server, name] += count
    violations = []
    for (number, server, name), count in sorted(given.items()):
        owned = instance.server_of[server].gpus.get(name, 0)
        if count > owned:
            violations.append(
                f"round {number}: gangs hold {count} GPUs of type {name!r} on server {server!r}, "
                f"but the server has {owned}"
            )
    return violations


def _copy_violations(instance: Instance, job: GangJob, entries: Sequence[RoundEntry]) -> list[str]:
    """Return one message per round in which a job has more copies than the instance allows.

    A job may have one copy per round; with forking, one copy per server and round.
    """
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
    """Return the round in which the job completes its steps; None if it never does."""
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
    instance: Instance, by_job: Mapping[str, Sequence[RoundEntry]], completions: Mapping[str, int]
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
                (steps_in_round(instance, job, entry.gpus) for entry in by_job[job.id]), Fraction(0)
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
    """Return a gang's training steps in one round, without those that a restart costs.

    Only the objective ``round_progress`` has restarts. A gang on its current GPUs needs none.
    """
    stays = {server: dict(types) for server, types in placement.items()} == {
        server: dict(types) for server, types in job.current.items()
    }
    run_s = Fraction(instance.round_s) - (0 if stays else Fraction(instance.restart_s))
    return Fraction(job.rate_of(placement)) * run_s


def _gpu_s(instance: Instance, by_job: Mapping[str, Sequence[RoundEntry]]) -> float:
    gangs = sum(job.gang * len(by_job[job.id]) for job in instance.jobs)
    return float(gangs * Fraction(instance.round_s))
