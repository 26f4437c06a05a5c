"""Allocation in the plainest way: every number of workers, every order of jobs."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from itertools import permutations
from math import fsum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.fuzz.brute_force.drawing import (
    LARGEST_INTEGER,
    UNKNOWN,
    InvalidChoiceError,
    require,
)
from tests.lyra_opt.allocation.mean_jct_reference import optimum as optimum_by_events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.fuzz.brute_force.drawing import Document, Draw

    Way = tuple[int, Fraction]

VARIANTS = ("jct_reduction", "two_phase", "joint", "mean_jct")
MAXIMISED: tuple[str, ...] = ("jct_reduction",)
EASY_JOBS = 2
EASY_WORK = 1, 1000
"""Work on which a simplex code of tolerance 1e-7 is exact enough, if nothing is far from it."""
TOLERANCE = 1e-8
"""Of the times, the work and the GPUs of a schedule, which consists of floats."""


def drawn(draw: Draw, variant: str, name: str) -> Document:
    """Return an instance: no GPUs left, one job, equal jobs, no elasticity, tiny and huge work."""
    is_over_time = variant == "mean_jct"
    works = draw.pick((60, 100, 120), (1,), (1, 2, 3), (0.1, 0.3, 7.7), (1e-3, 1e3), (1e6, 1e6 + 1))
    if not is_over_time and draw.sometimes(0.1):
        extremes = (float(LARGEST_INTEGER), 1), (5e-324, 1), (1e-200, 2e-200), (1e-9, 1e9), (1 / 3,)
        works = draw.choice(extremes)
    losses = draw.pick((0.0,), (0.0,), (1.0,), (0.0, 0.5, 1.0), (0.1, 0.9), (1 - 2**-53, 5e-324))
    widths = draw.pick((1,), (1,), (1, 2), (3,), (2, 4, 8))
    if not is_over_time and draw.sometimes(0.03):
        widths = (2**40, 1)
    extras = (0,) if is_over_time and draw.sometimes(0.6) else (0, 1, 2, 3)
    count = draw.randint(1, 4) if is_over_time else draw.pick(1, 2, 3, 4, 5)
    jobs = []
    for job in draw.names("j", count):
        least = draw.pick(1, 1, 2, 3)
        jobs.append(
            {
                "id": job,
                "min_workers": least,
                "max_workers": least + draw.pick(*extras),
                "work_worker_s": draw.pick(*works),
                "gpus_per_worker": draw.pick(*widths),
                "scaling_loss": draw.pick(*losses),
            }
        )
    draw.with_twins(jobs, "id")
    bases = [job["min_workers"] * job["gpus_per_worker"] for job in jobs]
    most = sum(job["max_workers"] * job["gpus_per_worker"] for job in jobs)
    least_gpus = max(bases) if is_over_time else 0
    gpus = draw.pick(least_gpus, least_gpus + 1, sum(bases), most, draw.randint(0, most))
    gpus = max(gpus, least_gpus, int(variant == "joint"))
    held = 0
    for job, base in zip(jobs, bases, strict=True):
        if draw.sometimes(0.25) and (variant == "jct_reduction" or held + base <= gpus):
            held += base
            job["running"] = True
        elif draw.sometimes(0.5):
            job["release_s"] = draw.pick(0.0, 1.0, 1.0, 50.0, draw.randint(0, 100) / 8)
    return {
        "format": "lyra-opt/allocation",
        "version": 1,
        "name": name,
        "objective": variant,
        "gpus": gpus,
        "jobs": jobs,
    }


def width(job: Document) -> int:
    """Return the GPUs of a worker."""
    return int(job.get("gpus_per_worker", 1))


def seconds(job: Document, workers: Fraction | int) -> Fraction:
    """Return T(w)."""
    extra = (workers - job["min_workers"]) * (1 - Fraction(job.get("scaling_loss", 0.0)))
    return Fraction(job["work_worker_s"]) / (job["min_workers"] + extra)


def optimum(document: Document) -> Any:
    """Return the best value."""
    if document["objective"] == "mean_jct":
        return least_mean_jct(document)
    return best_of_one_shot(document)


def started_first(document: Document) -> list[Document]:
    """Return the jobs to which phase 1 of Lyra grants their base demand."""
    jobs = document["jobs"]
    waiting = [job for job in jobs if not job.get("running")]
    waiting.sort(key=lambda job: Fraction(job["work_worker_s"]) / job["max_workers"])  # stable
    free, started = document["gpus"], []
    for job in [job for job in jobs if job.get("running")] + waiting:
        if job["min_workers"] * width(job) <= free:
            free -= job["min_workers"] * width(job)
            started.append(job["id"])
    return [job for job in jobs if job["id"] in started]


def waiting_s(document: Document) -> Fraction:
    """Return H: how long all the work takes on all the GPUs."""
    works = (Fraction(job["work_worker_s"]) * width(job) for job in document["jobs"])
    return sum(works, Fraction(0)) / document["gpus"]


def way(document: Document, job: Document, workers: int, *, starts: bool) -> Way:
    """Return the GPUs that count of a number of workers, and what it adds to the objective.

    `starts` says whether phase 1 grants the base demand; only ``two_phase`` asks.
    """
    variant, base = document["objective"], job["min_workers"]
    is_running = base <= workers <= job["max_workers"]
    waits = {
        "jct_reduction": False,
        "two_phase": not starts,
        "joint": not job.get("running"),
    }
    rule = f"{job['id']} cannot have {workers} workers"
    if workers == 0:
        require(waits[variant], rule)
        waiting = variant == "joint"
        return 0, seconds(job, base) + waiting_s(document) if waiting else Fraction(0)
    require(is_running and (starts or variant != "two_phase"), rule)
    if variant == "jct_reduction":
        saved = seconds(job, base) - seconds(job, workers)
        return (workers - base) * width(job), saved
    return workers * width(job), seconds(job, workers)


def ways_of(document: Document, job: Document, *, starts: bool) -> list[Way]:
    """Return everything that a job can have."""
    found = []
    for workers in (0, *range(job["min_workers"], job["max_workers"] + 1)):
        with suppress(InvalidChoiceError):
            found.append(way(document, job, workers, starts=starts))
    return found


def best_of_one_shot(document: Document) -> float:
    """Return the best sum, by trying every choice that fits; time O(choices ^ jobs)."""
    sign = 1 if document["objective"] in MAXIMISED else -1
    started = started_first(document)
    ways = [
        [(gpus, float(value)) for gpus, value in ways_of(document, job, starts=job in started)]
        for job in document["jobs"]
    ]
    best: list[float] = []

    def extend(position: int, free: int, taken: list[float]) -> None:
        if position == len(ways):
            value = sign * fsum(taken)
            if not best or value > best[0]:
                best[:] = [value]
            return
        for gpus, value in ways[position]:
            if gpus <= free:
                extend(position + 1, free - gpus, [*taken, value])

    extend(0, document["gpus"], [])
    return sign * best[0]


def least_mean_jct(document: Document) -> Any:
    """Return the least mean JCT where workers make no choice, or of one job or two.

    Where workers make no choice, there is an optimum among the schedules that start each job, in
    some order, as early as it then fits. Time O(jobs! * jobs^3).
    """
    jobs, gpus = document["jobs"], document["gpus"]
    if len(jobs) == 1:
        (job,) = jobs
        most = min(Fraction(job["max_workers"]), Fraction(gpus, width(job)))
        return seconds(job, most)
    if not all(
        job["max_workers"] == job["min_workers"] or job.get("scaling_loss") == 1 for job in jobs
    ):
        is_easy = len(jobs) == EASY_JOBS and all(
            EASY_WORK[0] <= job["work_worker_s"] <= EASY_WORK[1] for job in jobs
        )
        return by_orders_of_events(document) if is_easy else UNKNOWN
    pieces = [
        (
            Fraction(job.get("release_s", 0.0)),
            seconds(job, job["min_workers"]),
            job["min_workers"] * width(job),
        )
        for job in jobs
    ]
    running = [piece for job, piece in zip(jobs, pieces, strict=True) if job.get("running")]
    waiting = [piece for job, piece in zip(jobs, pieces, strict=True) if not job.get("running")]
    totals = (completions([*running, *order], gpus) for order in permutations(waiting))
    return (min(totals) - sum(release for release, _, _ in pieces)) / len(jobs)


def by_orders_of_events(document: Document) -> float:
    """Return the least mean JCT by a linear programme for each order of events."""
    defaults = {"gpus_per_worker": 1, "release_s": 0.0, "running": False, "scaling_loss": 0.0}
    jobs = [SimpleNamespace(**{**defaults, **job}) for job in document["jobs"]]
    return optimum_by_events(SimpleNamespace(jobs=jobs, gpus=document["gpus"]))


def completions(order: Sequence[tuple[Fraction, Fraction, int]], gpus: int) -> Fraction:
    """Return the sum of completions if jobs are started in turn, each as early as it fits."""
    placed: list[tuple[Fraction, Fraction, int]] = []
    total = Fraction(0)
    for release, duration, held in order:
        times = sorted({release, *(end for _, end, _ in placed if end > release)})
        for start in times:
            end = start + duration
            moments = {start, *(other for other, _, _ in placed if start < other < end)}
            if all(
                sum(used for begin, until, used in placed if begin <= moment < until) + held <= gpus
                for moment in moments
            ):
                placed.append((start, end, held))
                total += end
                break
    return total


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an allocation or a schedule is worth."""
    if document["objective"] == "mean_jct":
        return {"objective": mean_jct_of(document, chosen["schedule"])}
    workers = chosen["workers"]
    require(workers.keys() == {job["id"] for job in document["jobs"]}, "jobs are missing")
    free, values, started = document["gpus"], [], started_first(document)
    for job in document["jobs"]:
        gpus, value = way(document, job, workers[job["id"]], starts=job in started)
        free -= gpus
        values.append(value)
    require(free >= 0, "more GPUs are given than there are")
    found: dict[str, Any] = {
        "objective": sum(values, Fraction(0)),
        "used_gpus": document["gpus"] - free,
    }
    if document["objective"] != "jct_reduction":
        found["started"] = tuple(job["id"] for job in document["jobs"] if workers[job["id"]])
    return found


def mean_jct_of(document: Document, schedule: Sequence[Document]) -> float:
    """Return the mean JCT of a schedule, whose rounding errors are let pass."""
    end = max(piece["end_s"] for piece in schedule)
    slack_s = TOLERANCE * end
    sum_s = 0.0
    for job in document["jobs"]:
        pieces = sorted(
            (piece for piece in schedule if piece["job"] == job["id"]),
            key=lambda piece: piece["start_s"],
        )
        require(bool(pieces), f"{job['id']} does not run")
        release = job.get("release_s", 0.0)
        require(pieces[0]["start_s"] >= release - slack_s, f"{job['id']} starts too early")
        if job.get("running"):
            require(pieces[0]["start_s"] <= slack_s, f"{job['id']} is stopped")
        work = 0.0
        for piece, after in zip(pieces, [*pieces[1:], None], strict=True):
            workers = piece["workers"]
            is_allowed = (
                job["min_workers"] * (1 - TOLERANCE)
                <= workers
                <= job["max_workers"] * (1 + TOLERANCE)
            )
            require(is_allowed, f"{job['id']} has {workers} workers")
            gain = (workers - job["min_workers"]) * (1 - job.get("scaling_loss", 0.0))
            work += (piece["end_s"] - piece["start_s"]) * (job["min_workers"] + gain)
            if after is not None:
                is_joined = abs(after["start_s"] - piece["end_s"]) <= slack_s
                require(is_joined, f"{job['id']} is interrupted")
        due = job["work_worker_s"]
        most = job["max_workers"]
        require(abs(work - due) <= TOLERANCE * due + most * slack_s, f"{job['id']}: work is {work}")
        sum_s += pieces[-1]["end_s"] - release
    widths = {job["id"]: width(job) for job in document["jobs"]}
    for begin in {piece["start_s"] for piece in schedule}:
        held = sum(
            piece["workers"] * widths[piece["job"]]
            for piece in schedule
            if piece["start_s"] <= begin + slack_s < piece["end_s"] - slack_s
        )
        is_held = held <= document["gpus"] * (1 + TOLERANCE)
        require(is_held, f"{held} GPUs are held from {begin} s on")
    return sum_s / len(document["jobs"])
