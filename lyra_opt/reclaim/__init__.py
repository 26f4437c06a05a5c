"""Server reclaiming: which servers on loan to give back so that few jobs are preempted.

Lyra (EuroSys 2023), section 4. The instance is `Instance`, a solution `Solution`,
and `check` recomputes what a solution costs. The mathematics stands in
``formulations/reclaim/README.md``.
"""

from lyra_opt.reclaim.checker import Report, check
from lyra_opt.reclaim.instance import (
    Instance,
    Job,
    Semantics,
    Server,
    Solution,
    WorkerGroup,
)
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
