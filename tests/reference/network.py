"""Gangs in a network in the plainest way: every GPU that each gang could have."""

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from tests.reference.drawing import Document, require

VARIANTS = ("epoch", "work_rate", "fewest_tiers", "least_fragmentation")
MAXIMISED = VARIANTS
MOST_GPUS = 1_000_000
TIERS = ("machine", "rack", "network")


def accepted(document: Document, job: Document) -> tuple[str, ...]:
    """Return the tiers at which a gang would run now."""
    by_rack: Counter[str] = Counter()
    for machine in document["machines"]:
        by_rack[machine["rack"]] += machine["gpus"]
    holders = {
        "rack_timer_s": max(machine["gpus"] for machine in document["machines"]),
        "network_timer_s": max(by_rack.values()),
    }

    def is_over(key: str) -> bool:
        timer = job.get(key, 0.0)
        is_too_large = job["gang"] > holders[key]
        return is_too_large or (timer is not None and job.get("waiting_s", 0.0) >= timer)

    timers = {
        "machine": True,
        "rack": is_over("rack_timer_s"),
        "network": is_over("network_timer_s"),
    }
    return tuple(tier for tier in TIERS if tier in job["efficiency"] and timers[tier])


def worth(document: Document, job: Document, tier: str) -> Fraction:
    """Return what a gang at a tier adds to the objective."""
    gang, variant = job["gang"], document["objective"]
    if variant == "fewest_tiers":
        return Fraction((2 * len(document["jobs"]) + 1) * gang - TIERS.index(tier))
    if variant == "least_fragmentation":
        return Fraction((len(document["machines"]) + 1) * gang)
    rate = Fraction(job.get("weight", 1.0)) * gang * Fraction(job["efficiency"][tier])
    if variant == "work_rate":
        return rate
    per_s = Fraction(document.get("waiting_weight_per_s", 1e-6))
    hurt = 1 - Fraction(job.get("score", 0.0)) + per_s * Fraction(job.get("waiting_s", 0.0))
    return rate * hurt


def fragments(document: Document, free: tuple[int, ...]) -> int:
    """Return how many machines are neither full nor free as a whole."""
    return sum(
        0 < left < machine["gpus"] for machine, left in zip(document["machines"], free, strict=True)
    )


def parts(gang: int, free: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield every way to take a gang's GPUs from machines."""
    if len(free) == 1:
        if gang <= free[0]:
            yield (gang,)
        return
    for taken in range(min(gang, free[0]) + 1):
        for rest in parts(gang - taken, free[1:]):
            yield (taken, *rest)


def tier_of(document: Document, taken: tuple[int, ...]) -> str:
    """Return what a gang spans."""
    racks = [
        machine["rack"] for machine, count in zip(document["machines"], taken, strict=True) if count
    ]
    if len(racks) == 1:
        return "machine"
    return "rack" if len(set(racks)) == 1 else "network"


def optimum(document: Document) -> Fraction:
    """Return the best value; time O(jobs * free GPUs of machines, multiplied, * placements)."""
    jobs = document["jobs"]
    counts_machines = document["objective"] == "least_fragmentation"
    free = tuple(machine["free_gpus"] for machine in document["machines"])
    ways = []
    for job in jobs:
        tiers = accepted(document, job)
        values = {tier: worth(document, job, tier) for tier in tiers}
        placed = ((taken, tier_of(document, taken)) for taken in parts(job["gang"], free))
        ways.append([(taken, values[tier]) for taken, tier in placed if tier in values])

    @cache
    def best(position: int, left: tuple[int, ...]) -> Fraction:
        if position == len(jobs):
            return Fraction(-fragments(document, left) if counts_machines else 0)
        found = best(position + 1, left)
        for taken, value in ways[position]:
            if all(count <= there for count, there in zip(taken, left, strict=True)):
                after = tuple(there - count for there, count in zip(left, taken, strict=True))
                found = max(found, value + best(position + 1, after))
        return found

    return best(0, free)


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what placements are worth."""
    jobs = {job["id"]: job for job in document["jobs"]}
    position = {machine["id"]: number for number, machine in enumerate(document["machines"])}
    free = [machine["free_gpus"] for machine in document["machines"]]
    started: set[str] = set()
    gangs: Counter[str] = Counter()
    total, computing_gpus, placed_gpus = Fraction(0), Fraction(0), 0
    for placement in chosen["placements"]:
        job = jobs[placement["job"]]
        require(job["id"] not in started, "a gang starts twice")
        started.add(job["id"])
        taken = [0] * len(free)
        for machine, count in placement["gpus"].items():
            require(count > 0, "no GPUs are given")
            taken[position[machine]] = count
            free[position[machine]] -= count
        require(sum(taken) == job["gang"], "a part of a gang starts")
        tier = tier_of(document, tuple(taken))
        require(placement["tier"] == tier, "the tier is another one")
        require(tier in accepted(document, job), "the gang does not accept the tier")
        total += worth(document, job, tier)
        computing_gpus += job["gang"] * Fraction(job["efficiency"][tier])
        placed_gpus += job["gang"]
        gangs[tier] += 1
    require(min(free) >= 0, "GPUs are given that are not free")
    partly_free = fragments(document, tuple(free))
    if document["objective"] == "least_fragmentation":
        total -= partly_free
    return {
        "objective": total,
        "placed_gpus": placed_gpus,
        **{f"{tier}_gangs": gangs[tier] for tier in TIERS},
        "computing_gpus": computing_gpus,
        "fragmented_machines": partly_free,
    }
