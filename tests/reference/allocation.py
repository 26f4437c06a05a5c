"""Allocation in the plainest way: every number of workers; mean JCT is in `mean_jct`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from tests.reference import mean_jct
from tests.reference.drawing import Document, InvalidChoiceError, require
from tests.reference.mean_jct import seconds, width

Way = tuple[int, Fraction]

VARIANTS = ("jct_reduction", "two_phase", "joint", "mean_jct")
MAXIMISED: tuple[str, ...] = ("jct_reduction",)


def optimum(document: Document) -> Any:
    """Return the best value."""
    if document["objective"] == "mean_jct":
        return mean_jct.optimum(document)
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
    waits = {"jct_reduction": False, "two_phase": not starts, "joint": not job.get("running")}
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


def best_of_one_shot(document: Document) -> Fraction:
    """Return the best sum."""
    sign = 1 if document["objective"] in MAXIMISED else -1
    started = started_first(document)
    ways = [
        [(gpus, sign * value) for gpus, value in ways_of(document, job, starts=job in started)]
        for job in document["jobs"]
    ]
    return sign * greatest_sum(ways, document["gpus"])


def greatest_sum(ways: Sequence[Sequence[Way]], capacity: int) -> Fraction:
    """Return the greatest sum of one value per class whose weights fit into the capacity.

    By trying every choice that fits; time O(product of the sizes of the classes).
    """
    sums: list[Fraction] = []

    def extend(position: int, free: int, total: Fraction) -> None:
        if position == len(ways):
            sums.append(total)
            return
        for weight, value in ways[position]:
            if weight <= free:
                extend(position + 1, free - weight, total + value)

    extend(0, capacity, Fraction(0))
    return max(sums)


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an allocation or a schedule is worth."""
    if document["objective"] == "mean_jct":
        return {"objective": mean_jct.measured(document, chosen["schedule"])}
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
