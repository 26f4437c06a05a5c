"""Elastic allocation: choose the number of workers of each elastic job, at once or over time."""

from lyra_opt.allocation.checker import Report, check
from lyra_opt.allocation.instance import (
    ElasticJob,
    Instance,
    NamedWorkers,
    Objective,
    Schedule,
    SchedulePiece,
    Solution,
    WorkerAllocation,
)
from lyra_opt.allocation.problem import PROBLEM

__all__ = [
    "PROBLEM",
    "ElasticJob",
    "Instance",
    "NamedWorkers",
    "Objective",
    "Report",
    "Schedule",
    "SchedulePiece",
    "Solution",
    "WorkerAllocation",
    "check",
]
