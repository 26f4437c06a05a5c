"""Reclaiming: choose the servers on loan to take back so that few jobs are preempted.

Source: Lyra (EuroSys 2023), section 4. `Instance` and `Solution` hold the data, and `check`
recomputes the cost of a solution. The mathematics is in ``formulations/reclaim/README.md``.
"""

from lyra_opt.reclaim.checker import Report, check
from lyra_opt.reclaim.instance import Instance, Job, Semantics, Server, Solution, WorkerGroup
from lyra_opt.reclaim.problem import PROBLEM

__all__ = [
    "PROBLEM",
    "Instance",
    "Job",
    "Report",
    "Semantics",
    "Server",
    "Solution",
    "WorkerGroup",
    "check",
]
