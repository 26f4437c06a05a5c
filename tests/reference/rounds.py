"""Schedules in rounds in the plainest way: everything that can be done in each round."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

from tests.reference.drawing import INFEASIBLE, UNKNOWN, Document, require

Usage = tuple[int, ...]
Way = tuple[Usage, Fraction]

MOST_WAYS = 20_000
"""To place all gangs in one round, if no two were in each other's way."""
ROUND_S = 360.0
"""The default."""
STEPS_DUE = 1 - Fraction(1, 10**9)
"""Of the steps, after which a job is complete."""


def cells_of(document: Document) -> list[tuple[str, str, int]]:
    """Return server, type and number of all GPUs."""
    return [
        (server["id"], kind, count)
        for server in document["servers"]
        for kind, count in server["gpus"].items()
    ]


def rate_of(job: Document, cells: Sequence[tuple[str, str]]) -> float:
    """Return the steps a second of a gang on these servers and types: those of the slowest."""
    rates = job["throughput"]
    if len({server for server, _ in cells}) > 1 and job.get("spread_throughput") is not None:
        rates = job["spread_throughput"]
    return float(min(rates.get(kind, 0.0) for _, kind in cells))


def run_s(
    document: Document, job: Document, placement: Mapping[str, Mapping[str, int]]
) -> Fraction:
    """Return for how long a gang runs in a round; it stays where it is or restarts."""
    stays = placement == job.get("current", {})
    lost_s = 0 if stays else Fraction(document.get("restart_s", 0.0))
    return Fraction(document.get("round_s", ROUND_S)) - lost_s


def takings(gang: int, counts: Sequence[int]) -> Iterator[Usage]:
    """Yield every way to take so many GPUs."""
    if not counts:
        if gang == 0:
            yield ()
        return
    for taken in range(min(gang, counts[0]) + 1):
        for rest in takings(gang - taken, counts[1:]):
            yield (taken, *rest)


def nested(cells: Sequence[tuple[str, str, int]], usage: Usage) -> dict[str, dict[str, int]]:
    """Return GPUs by server and type."""
    found: dict[str, dict[str, int]] = {}
    for (server, kind, _), taken in zip(cells, usage, strict=True):
        if taken:
            found.setdefault(server, {})[kind] = taken
    return found


def ways_of(document: Document, job: Document) -> list[Way]:
    """Return what a job can hold in a round and the steps that it does there, not at all first."""
    cells = cells_of(document)
    nothing = (0,) * len(cells)
    placed: dict[str, list[Way]] = {server["id"]: [] for server in document["servers"]}
    spread: list[Way] = []
    for usage in takings(job["gang"], [count for _, _, count in cells]):
        placement = nested(cells, usage)
        on = [(server, kind) for server, kinds in placement.items() for kind in kinds]
        rate = rate_of(job, on)
        if rate > 0:
            way = usage, Fraction(rate) * run_s(document, job, placement)
            (placed[next(iter(placement))] if len(placement) == 1 else spread).append(way)
    if not document.get("forking", False):
        return [(nothing, Fraction(0)), *spread, *(way for ways in placed.values() for way in ways)]
    return [
        (
            tuple(sum(used) for used in zip(nothing, *(usage for usage, _ in copies), strict=True)),
            sum((steps for _, steps in copies), Fraction(0)),
        )
        for copies in product(*([(nothing, Fraction(0)), *ways] for ways in placed.values()))
    ]


def together(document: Document, ways: Sequence[Sequence[Way]]) -> list[tuple[Fraction, ...]]:
    """Return the steps that jobs can do in one round together, but for what is never better."""
    free = [count for _, _, count in cells_of(document)]
    found: set[tuple[Fraction, ...]] = set()

    def extend(position: int, left: Sequence[int], steps: tuple[Fraction, ...]) -> None:
        if position == len(ways):
            found.add(steps)
            return
        for usage, done in ways[position]:
            if all(used <= there for used, there in zip(usage, left, strict=True)):
                after = [there - used for there, used in zip(left, usage, strict=True)]
                extend(position + 1, after, (*steps, done))

    extend(0, free, ())
    return [
        steps
        for steps in found
        if not any(
            other != steps and all(more >= less for more, less in zip(other, steps, strict=True))
            for other in found
        )
    ]


def optimum(document: Document) -> Any:
    """Return the best value; time exponential in all sizes."""
    jobs = document["jobs"]
    ways = [ways_of(document, job) for job in jobs]
    many = 1
    for each in ways:
        many *= len(each)
    if many > MOST_WAYS:
        return UNKNOWN
    round_s = Fraction(document.get("round_s", ROUND_S))
    first = [ceil(Fraction(job.get("release_s", 0.0)) / round_s) for job in jobs]
    if document["objective"] == "round_progress":
        ways = [each if start == 0 else each[:1] for each, start in zip(ways, first, strict=True)]
        names = [(job["id"], 0) for job in jobs]
        return max(
            progress_of(document, dict(zip(names, steps, strict=True)))
            for steps in together(document, ways)
        )
    return best_schedule(document, ways, first)


def best_schedule(document: Document, ways: Sequence[Sequence[Way]], first: Sequence[int]) -> Any:
    """Return the best value over several rounds, before the first of which no job runs."""
    jobs, variant = document["jobs"], document["objective"]
    due = [Fraction(job["steps"]) * STEPS_DUE for job in jobs]
    better = max if variant == "utility" else min
    possible: dict[tuple[bool, ...], list[tuple[Fraction, ...]]] = {}
    states = {(Fraction(0),) * len(jobs): Fraction(0)}
    for number in range(document.get("horizon_rounds", 1)):
        reached: dict[tuple[Fraction, ...], Fraction] = {}
        for done, value in states.items():
            runs = tuple(number >= first[j] and done[j] < due[j] for j in range(len(jobs)))
            if runs not in possible:
                of_round = [each if run else each[:1] for each, run in zip(ways, runs, strict=True)]
                possible[runs] = together(document, of_round)
            for steps in possible[runs]:
                after = tuple(map(min, map(sum, zip(done, steps, strict=True)), due))
                new = value
                for j, job in enumerate(jobs):
                    if done[j] < due[j] <= after[j]:
                        new = with_completion(document, job, number, new)
                reached[after] = better(reached[after], new) if after in reached else new
        states = reached
    if variant == "utility":
        return max(states.values())
    complete = states.get(tuple(due))
    if complete is None:
        return INFEASIBLE
    return complete / len(jobs) if variant == "mean_jct" else complete


def with_completion(document: Document, job: Document, number: int, value: Fraction) -> Fraction:
    """Return the value of a schedule with one more job complete at the end of a round."""
    end_s = (number + 1) * Fraction(document.get("round_s", ROUND_S))
    jct_s = end_s - Fraction(job.get("release_s", 0.0))
    if document["objective"] == "makespan":
        return max(value, end_s)
    if document["objective"] == "mean_jct":
        return value + jct_s
    return value + Fraction(job.get("weight", 1.0)) * Fraction(utility_of(job, float(jct_s)))


def utility_of(job: Document, jct_s: float) -> float:
    """Return what a completion is worth."""
    utility = job.get("utility", {"kind": "inverse_jct"})
    if utility["kind"] == "inverse_jct":
        return float(utility.get("scale", 1.0) / jct_s)
    if utility["kind"] == "deadline":
        is_late = jct_s > utility["deadline_s"]
        return float(utility.get("late_value", 0.0) if is_late else utility.get("value", 1.0))
    return float(next((value for time_s, value in utility["entries"] if jct_s <= time_s), 0.0))


def measured(document: Document, entries: Sequence[Document]) -> dict[str, Any]:
    """Return what a schedule is worth."""
    jobs, round_s = document["jobs"], Fraction(document.get("round_s", ROUND_S))
    used: dict[tuple[int, str, str], int] = defaultdict(int)
    steps: dict[tuple[str, int], Fraction] = defaultdict(Fraction)
    of_job = {job["id"]: job for job in jobs}
    seen = set()
    for entry in entries:
        job, number, gpus = of_job[entry["job"]], entry["round"], entry["gpus"]
        require(number < document.get("horizon_rounds", 1), "a job runs after the horizon")
        is_released = number * round_s >= Fraction(job.get("release_s", 0.0))
        require(is_released, f"{job['id']} runs before its release")
        require(sum(sum(of.values()) for of in gpus.values()) == job["gang"], "no whole gang")
        place = tuple(gpus) if document.get("forking", False) else ()
        require(len(place) <= 1, "a copy is on several servers")
        require((job["id"], number, place) not in seen, f"{job['id']} runs twice")
        seen.add((job["id"], number, place))
        for server, kinds in gpus.items():
            for kind, count in kinds.items():
                used[number, server, kind] += count
        rate = rate_of(job, [(server, kind) for server in gpus for kind in gpus[server]])
        require(rate > 0, f"{job['id']} runs where it cannot")
        steps[job["id"], number] += Fraction(rate) * run_s(document, job, gpus)
    there = {(server, kind): count for server, kind, count in cells_of(document)}
    for (_, server, kind), count in used.items():
        require(count <= there.get((server, kind), 0), f"{count} GPUs of {kind} on {server}")
    if document["objective"] == "round_progress":
        return {"objective": progress_of(document, steps)}
    value, completed = Fraction(0), []
    for job in jobs:
        done = Fraction(0)
        for number in range(document.get("horizon_rounds", 1)):
            if (job["id"], number) not in steps:
                continue
            is_complete = bool(completed) and completed[-1] == job["id"]
            require(not is_complete, f"{job['id']} runs after its completion")
            done += steps[job["id"], number]
            if done >= Fraction(job["steps"]) * STEPS_DUE:
                completed.append(job["id"])
                value = with_completion(document, job, number, value)
    if document["objective"] != "utility":
        require(len(completed) == len(jobs), "not all jobs complete")
    if document["objective"] == "mean_jct":
        value /= len(jobs)
    return {"objective": value, "completed": tuple(completed)}


def progress_of(document: Document, steps: Mapping[tuple[str, int], Fraction]) -> Fraction:
    """Return the weighted progress of one round."""
    return sum(
        (
            Fraction(job.get("weight", 1.0))
            * min(1, steps.get((job["id"], 0), Fraction(0)) / Fraction(job["steps"]))
            for job in document["jobs"]
        ),
        Fraction(0),
    )
