"""The network problem as the rest of the toolkit sees it: files, checker and bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.problem import Problem
from lyra_opt.network.checker import Report, check
from lyra_opt.network.instance import Instance, Objective, Solution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.core.pictures import Drawing
    from lyra_opt.core.result import Number as AnyNumber


class NetworkProblem(Problem):
    """Which gangs start, and how close together; see `lyra_opt.core.problem.Problem`."""

    size_name = "jobs"
    variants = Objective
    default_solvers = dict.fromkeys(Objective, "priced-placement")
    witnesses = ("cpsat-patterns", "pulp-highs-patterns")
    instance_format = "lyra-opt/network-placement"
    instance_class = Instance
    solution_classes = (Solution,)
    report_class = Report

    def answer(self, instance: Instance, solution: Solution) -> Mapping[str, Any]:
        """Return the placements, jobs and machines in file order."""
        position = instance.machine_position
        return {
            "placements": [
                {
                    "job": placement.job,
                    "tier": placement.tier,
                    "gpus": {
                        machine: placement.gpus[machine]
                        for machine in sorted(placement.gpus, key=position.__getitem__)
                    },
                }
                for placement in sorted(
                    solution.placements, key=lambda entry: instance.job_position[entry.job]
                )
            ]
        }

    def check(self, instance: Instance, solution: Solution) -> Report:
        """Recompute feasibility and objective."""
        return check(instance, solution)

    def dual_bound(self, instance: Instance) -> AnyNumber:
        """Return a proved upper bound on the optimum."""
        from lyra_opt.network.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def drawing_of(self, instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
        """Return a drawing of valid solutions by who made them, or of the instance alone."""
        from lyra_opt.network.plot import drawing_of

        return drawing_of(instance, solutions)


PROBLEM = NetworkProblem()
