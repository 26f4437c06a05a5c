"""Elastic allocation: how many workers each elastic job gets, at once or over time."""

from lyra_opt.allocation.checker import AllocationReport, check
from lyra_opt.allocation.instance import (
    AllocationInstance,
    ElasticJob,
    NamedWorkers,
    Objective,
    Schedule,
    SchedulePiece,
    WorkerAllocation,
)
from lyra_opt.allocation.problem import PROBLEM

__all__ = [
    "PROBLEM",
    "AllocationInstance",
    "AllocationReport",
    "ElasticJob",
    "NamedWorkers",
    "Objective",
    "Schedule",
    "SchedulePiece",
    "WorkerAllocation",
    "check",
]
