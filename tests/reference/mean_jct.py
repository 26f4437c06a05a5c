"""Mean JCT in the plainest way: every order of jobs, or of events.

Variables of the programmes are absolute event times and worker-seconds; there are no bounds and no
relaxations.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
from scipy.optimize import linprog

from tests.reference.drawing import UNKNOWN, Document, require

Happening = tuple[str, int]

EASY_JOBS = 2
EASY_WORK = 1, 1000
"""Work on which a simplex code of tolerance 1e-7 is exact enough, if nothing is far from it."""
TOLERANCE = 1e-8
"""Of the times, the work and the GPUs of a schedule, which consists of floats."""
DEFAULTS = {"gpus_per_worker": 1, "release_s": 0.0, "running": False, "scaling_loss": 0.0}


def width(job: Document) -> int:
    """Return the GPUs of a worker."""
    return int(job.get("gpus_per_worker", 1))


def seconds(job: Document, workers: Fraction | int) -> Fraction:
    """Return T(w)."""
    extra = (workers - job["min_workers"]) * (1 - Fraction(job.get("scaling_loss", 0.0)))
    return Fraction(job["work_worker_s"]) / (job["min_workers"] + extra)


def optimum(document: Document) -> Any:
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
    """Return the least mean JCT by a dense linear programme for each order of events."""
    jobs = [{**DEFAULTS, **job} for job in document["jobs"]]
    releases = sorted({job["release_s"] for job in jobs if job["release_s"] > 0})
    best = min(
        value_of_order(jobs, document["gpus"], order, releases) for order in orders(jobs, releases)
    )
    return (best - sum(job["release_s"] for job in jobs)) / len(jobs)


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


def orders(jobs: Sequence[Document], releases: list[float]) -> Iterator[list[Happening]]:
    """Yield every order of starts, completions and releases that can be."""
    everything = [("completes", j) for j in range(len(jobs))]
    everything += [("starts", j) for j, job in enumerate(jobs) if not job["running"]]
    everything += [("release", k) for k in range(len(releases))]

    def before(event: Happening) -> list[Happening]:
        what, which = event
        if what == "completes":
            return [] if jobs[which]["running"] else [("starts", which)]
        if what == "starts":
            released = jobs[which]["release_s"]
            return [("release", releases.index(released))] if released > 0 else []
        return [("release", which - 1)] if which else []

    def extended(done: list[Happening]) -> Iterator[list[Happening]]:
        if len(done) == len(everything):
            yield done
        for event in everything:
            if event not in done and all(needed in done for needed in before(event)):
                yield from extended([*done, event])

    yield from extended([])


def value_of_order(
    jobs: Sequence[Document], gpus: int, order: list[Happening], releases: list[float]
) -> float:
    """Return the least sum of completions of an order, infinite if there is none."""
    intervals = len(order)
    size = intervals * (1 + len(jobs))
    at_most: list[tuple[np.ndarray, float]] = []
    equal: list[tuple[np.ndarray, float]] = []

    def row(*terms: tuple[int, float]) -> np.ndarray:
        found = np.zeros(size)
        for column, value in terms:
            found[column] += value
        return found

    def work(j: int, k: int) -> int:
        return intervals * (1 + j) + k

    def length(k: int, factor: float) -> list[tuple[int, float]]:
        return [(k, factor)] + ([(k - 1, -factor)] if k else [])

    cost = np.zeros(size)
    for k, (what, which) in enumerate(order):
        at_most.append((row(*length(k, -1.0)), 0.0))
        held = [(work(j, k), float(job["gpus_per_worker"])) for j, job in enumerate(jobs)]
        at_most.append((row(*held, *length(k, -float(gpus))), 0.0))
        if what == "release":
            equal.append((row((k, 1.0)), releases[which]))
    for j, job in enumerate(jobs):
        ends = order.index(("completes", j))
        begins = -1 if job["running"] else order.index(("starts", j))
        cost[ends] += 1
        gain = 1 - job["scaling_loss"]
        done: list[tuple[int, float]] = []
        for k in range(intervals):
            if not begins < k <= ends:
                equal.append((row((work(j, k), 1.0)), 0.0))
                continue
            at_most.append((row((work(j, k), -1.0), *length(k, job["min_workers"])), 0.0))
            at_most.append((row((work(j, k), 1.0), *length(k, -job["max_workers"])), 0.0))
            done += [(work(j, k), gain), *length(k, job["min_workers"] * (1 - gain))]
        equal.append((row(*done), job["work_worker_s"]))
    answer = linprog(
        cost,
        A_ub=np.array([left for left, _ in at_most]),
        b_ub=[right for _, right in at_most],
        A_eq=np.array([left for left, _ in equal]),
        b_eq=[right for _, right in equal],
        method="highs",
    )
    return float(answer.fun) if answer.status == 0 else float("inf")


def measured(document: Document, schedule: Sequence[Document]) -> float:
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
