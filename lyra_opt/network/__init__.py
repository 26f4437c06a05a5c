"""The network problem: gangs close together, or soon (Dally, arXiv 2401.16492)."""

from lyra_opt.network.checker import NetworkReport, check
from lyra_opt.network.instance import (
    GangPlacement,
    Machine,
    NetworkInstance,
    NetworkSolution,
    Objective,
    WaitingJob,
)
from lyra_opt.network.problem import PROBLEM

__all__ = [
    "PROBLEM",
    "GangPlacement",
    "Machine",
    "NetworkInstance",
    "NetworkReport",
    "NetworkSolution",
    "Objective",
    "WaitingJob",
    "check",
]
