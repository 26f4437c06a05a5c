"""Server reclaiming: which servers on loan to give back so that few jobs are preempted.

Lyra (EuroSys 2023), section 4. The instance is `ReclaimInstance`, a solution `ReclaimSolution`,
and `check` recomputes what a solution costs. The mathematics stands in
``formulations/reclaim/README.md``.
"""

from lyra_opt.reclaim.checker import ReclaimReport, check
from lyra_opt.reclaim.instance import (
    Job,
    ReclaimInstance,
    ReclaimSolution,
    Semantics,
    Server,
    WorkerGroup,
)
from lyra_opt.reclaim.problem import PROBLEM

__all__ = [
    "PROBLEM",
    "Job",
    "ReclaimInstance",
    "ReclaimReport",
    "ReclaimSolution",
    "Semantics",
    "Server",
    "WorkerGroup",
    "check",
]
