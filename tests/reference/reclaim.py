"""Reclaiming in the plainest way: every choice of servers."""

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations
from typing import Any

from tests.reference.drawing import Document, require

VARIANTS = ("rigid", "interchangeable")
MAXIMISED: tuple[str, ...] = ()


def is_preempted(document: Document, job: Document, chosen: Collection[str]) -> bool:
    """Return whether a job is preempted if these servers are given back."""
    groups = job["workers"]
    if document["semantics"] == "rigid":
        return any(group.get("base", 0) and group["server"] in chosen for group in groups)
    base = sum(group.get("base", 0) for group in groups)
    remaining = sum(
        group.get("base", 0) + group.get("flexible", 0)
        for group in groups
        if group["server"] not in chosen
    )
    return bool(remaining < job.get("min_workers", base))


def choices(document: Document) -> Iterator[tuple[str, ...]]:
    """Return every choice of servers, lexicographically."""
    on_loan = [each["id"] for each in document["servers"] if each.get("on_loan", True)]
    return combinations(on_loan, document["reclaim_servers"])


def cost(document: Document, chosen: Collection[str]) -> int:
    """Return the weight of the jobs that a choice preempts."""
    dead = (job for job in document["jobs"] if is_preempted(document, job, chosen))
    return sum(job.get("weight", 1) for job in dead)


def optimum(document: Document) -> int:
    """Return the least weight of preempted jobs; time O(choices * worker groups)."""
    return min(cost(document, chosen) for chosen in choices(document))


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a choice costs."""
    servers = chosen["servers"]
    on_loan = {each["id"] for each in document["servers"] if each.get("on_loan", True)}
    require(len(set(servers)) == len(servers), "a server is chosen twice")
    require(set(servers) <= on_loan, "a chosen server is not on loan")
    require(len(servers) == document["reclaim_servers"], "the number of servers is another one")
    dead, collateral_gpus, scaled_in_workers = [], 0, 0
    for job in document["jobs"]:
        is_dead = is_preempted(document, job, servers)
        if is_dead:
            dead.append(job)
        for group in job["workers"]:
            workers = group.get("base", 0) + group.get("flexible", 0)
            if is_dead and group["server"] not in servers:
                collateral_gpus += workers * job.get("gpus_per_worker", 1)
            if not is_dead and group["server"] in servers:
                scaled_in_workers += workers
    return {
        "objective": sum(job.get("weight", 1) for job in dead),
        "preempted_jobs": tuple(job["id"] for job in dead),
        "collateral_gpus": collateral_gpus,
        "scaled_in_workers": scaled_in_workers,
    }
