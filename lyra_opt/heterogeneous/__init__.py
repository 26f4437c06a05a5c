"""Jobs on unlike GPUs: which kinds, how many and when (Hadar, HadarE, Gavel)."""

from lyra_opt.heterogeneous.checker import HeterogeneousReport, check
from lyra_opt.heterogeneous.instance import (
    GangJob,
    GpuServer,
    GpuType,
    HeterogeneousInstance,
    Objective,
    RoundEntry,
    RoundSchedule,
    TimeShares,
)
from lyra_opt.heterogeneous.problem import PROBLEM
from lyra_opt.heterogeneous.utility import Deadline, InverseJct, Table

__all__ = [
    "PROBLEM",
    "Deadline",
    "GangJob",
    "GpuServer",
    "GpuType",
    "HeterogeneousInstance",
    "HeterogeneousReport",
    "InverseJct",
    "Objective",
    "RoundEntry",
    "RoundSchedule",
    "Table",
    "TimeShares",
    "check",
]
