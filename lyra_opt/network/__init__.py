"""Place gangs on racks of machines, close together or without delay (Dally, arXiv 2401.16492)."""

from lyra_opt.network.checker import Report, check
from lyra_opt.network.instance import (
    GangPlacement,
    Instance,
    Machine,
    Objective,
    Solution,
    WaitingJob,
)
from lyra_opt.network.problem import PROBLEM

__all__ = [
    "PROBLEM",
    "GangPlacement",
    "Instance",
    "Machine",
    "Objective",
    "Report",
    "Solution",
    "WaitingJob",
    "check",
]
