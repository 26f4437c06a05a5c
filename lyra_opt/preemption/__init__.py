"""Preemption: choose which running pods give way so that a pending gang fits, or nodes are emptied.

The problem is the common core of the preemption of kube-scheduler, Volcano, Kueue, KAI and Slurm.
`Instance` and `Solution` hold the data, and `check` recomputes the objective of a solution. The
mathematics is in ``formulations/preemption/README.md``.
"""

from lyra_opt.preemption.checker import Report, check
from lyra_opt.preemption.instance import (
    Budget,
    Demand,
    Gang,
    Instance,
    LostPods,
    MovedPods,
    Moves,
    Node,
    PlacedPods,
    PodGroup,
    Shape,
    Solution,
)
from lyra_opt.preemption.problem import PROBLEM

__all__ = [
    "PROBLEM",
    "Budget",
    "Demand",
    "Gang",
    "Instance",
    "LostPods",
    "MovedPods",
    "Moves",
    "Node",
    "PlacedPods",
    "PodGroup",
    "Report",
    "Shape",
    "Solution",
    "check",
]
