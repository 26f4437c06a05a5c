"""Allocate heterogeneous GPUs to training jobs, by rounds or time shares (Hadar, HadarE, Gavel)."""

from lyra_opt.heterogeneous.checker import Report, check
from lyra_opt.heterogeneous.instance import (
    GangJob,
    GpuServer,
    GpuType,
    Instance,
    Objective,
    RoundEntry,
    RoundSchedule,
    Solution,
    TimeShares,
)
from lyra_opt.heterogeneous.problem import PROBLEM
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, UtilityTable

__all__ = [
    "PROBLEM",
    "Deadline",
    "GangJob",
    "GpuServer",
    "GpuType",
    "Instance",
    "InverseJct",
    "Objective",
    "Report",
    "RoundEntry",
    "RoundSchedule",
    "Solution",
    "TimeShares",
    "UtilityTable",
    "check",
]
