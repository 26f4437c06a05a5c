"""Gangs on heterogeneous GPUs: schedules are in `rounds`, shares of time in `shares`."""

from collections.abc import Mapping
from typing import Any

from tests.reference import rounds, shares
from tests.reference.drawing import Document

ROUNDS = ("utility", "makespan", "mean_jct", "round_progress")
SHARES = ("max_min_share", "finish_time_fairness", "makespan_share", "throughput", "cost")
VARIANTS = (*ROUNDS, *SHARES)
MAXIMISED = ("utility", "round_progress", "max_min_share", "throughput", "cost")


def optimum(document: Document) -> Any:
    """Return the best value."""
    return (rounds if document["objective"] in ROUNDS else shares).optimum(document)


def measured(document: Document, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer is worth."""
    found: dict[str, Any] = (rounds if document["objective"] in ROUNDS else shares).measured(
        document, chosen["allocation"]
    )
    return found
