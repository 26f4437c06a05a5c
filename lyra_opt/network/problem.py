"""The network problem as one object: its file formats, checker and dual bound."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from lyra_opt.core.pictures import Drawing
from lyra_opt.core.problem import Problem
from lyra_opt.core.result import Number as AnyNumber
from lyra_opt.network.checker import Report, check
from lyra_opt.network.heuristics.policy import PlacementPolicy
from lyra_opt.network.heuristics.policy_solver import PlacementPolicySolver
from lyra_opt.network.instance import Instance, Objective, Solution
from lyra_opt.network.links import TIER_OF_LABEL, Tier


class NetworkProblem(Problem):
    """The problem of starting waiting gangs close together."""

    size_name = "jobs"
    variants = Objective
    default_solvers = dict.fromkeys(Objective, "priced-placement")
    witnesses = ("cpsat-patterns", "pulp-highs-patterns")
    instance_format = "lyra-opt/network-placement"
    instance_class = Instance
    solution_classes = (Solution,)
    report_class = Report

    def solver_of(
        self, policy: PlacementPolicy | Callable[[], PlacementPolicy]
    ) -> PlacementPolicySolver:
        """Return a solver that runs a placement policy."""
        return PlacementPolicySolver(policy)

    def answer(self, instance: Instance, solution: Solution) -> Mapping[str, Any]:
        """Return the placements, with jobs and machines in file order."""
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
        """Recompute the feasibility and the objective of a solution."""
        return check(instance, solution)

    def dual_bound(self, instance: Instance) -> AnyNumber:
        """Return a proved upper bound on the optimum."""
        from lyra_opt.network.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def proof_point(self, instance: Instance, solution: Solution) -> Mapping[str, int]:
        """Return the non-zero values of the variables in proofs, by name, for a given solution.

        Variables state where gangs start, which GPUs gangs on several machines use, and which
        machines stay idle or partly free.
        """
        point: dict[str, int] = defaultdict(int)
        rack_of = {machine.id: machine.rack for machine in instance.machines}
        left = {machine.id: machine.free_gpus for machine in instance.machines}
        for placement in solution.placements:
            tier = TIER_OF_LABEL[placement.tier]
            for name, gpus in placement.gpus.items():
                left[name] -= gpus
                if tier is not Tier.MACHINE:
                    point[f"machine {name} wide"] += gpus
                if tier is Tier.NETWORK:
                    point[f"rack {rack_of[name]} shared"] += gpus
            some = next(iter(placement.gpus))
            place = {Tier.MACHINE: f" {some}", Tier.RACK: f" {rack_of[some]}", Tier.NETWORK: ""}
            point[f"job {placement.job} {tier.label}{place[tier]}"] = 1
        for machine in instance.machines:
            if left[machine.id] > 0:
                state = "idle" if left[machine.id] == machine.gpus else "part"
                point[f"machine {machine.id} {state}"] = 1
        return point

    def drawing_of(self, instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
        """Return a drawing of valid solutions, keyed by solver name, or of the instance alone."""
        from lyra_opt.network.plot import drawing_of

        return drawing_of(instance, solutions)


PROBLEM = NetworkProblem()
