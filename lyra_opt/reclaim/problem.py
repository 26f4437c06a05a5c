"""The `Problem` object of reclaiming: file format, checker, dual bound and proof data."""

from collections.abc import Mapping
from typing import Any

from lyra_opt.core.pictures import Drawing
from lyra_opt.core.problem import Problem
from lyra_opt.reclaim.checker import Report, check
from lyra_opt.reclaim.instance import Instance, Semantics, Solution


class ReclaimProblem(Problem):
    """The reclaim problem: choose which servers on loan to take back."""

    size_name = "servers"
    variants = Semantics
    default_solvers = dict.fromkeys(Semantics, "lyra-greedy")
    witnesses = ("cpsat-strengthened", "pulp-highs-strengthened")
    instance_format = "lyra-opt/reclaim"
    instance_class = Instance
    solution_classes = (Solution,)
    report_class = Report

    def answer(self, instance: Instance, solution: Solution) -> Mapping[str, Any]:
        """Return the ids of the reclaimed servers in file order."""
        position = instance.server_position
        return {"servers": sorted(solution.servers, key=position.__getitem__)}

    def check(self, instance: Instance, solution: Solution) -> Report:
        """Recompute the objective of `solution` and check its feasibility."""
        return check(instance, solution)

    def objective_in_words(self, instance: Instance) -> str:  # noqa: ARG002 - one for all
        """Return the objective of both semantics in words."""
        return "weight of preempted jobs"

    def dual_bound(self, instance: Instance) -> int:
        """Return a proved lower bound on the weight of preempted jobs."""
        from lyra_opt.reclaim.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def proof_hints(self, instance: Instance) -> Mapping[str, Any]:
        """Return the pairs of servers of which the first dominates the second, as proof hints."""
        from lyra_opt.reclaim.reduction import dominance_pairs, reduce_instance

        reduced = reduce_instance(instance)
        names = [instance.servers[position].id for position in reduced.servers]
        pairs = [[names[better], names[worse]] for better, worse in dominance_pairs(reduced)]
        return {"dominance": pairs}

    def proof_point(self, instance: Instance, solution: Solution) -> Mapping[str, int]:
        """Return the binary variables of the proof programme that are 1 in `solution`, by name.

        They are the reclaimed servers, and the preempted jobs with a weight.
        """
        preempted = set(check(instance, solution).preempted_jobs or ())
        counted = (job.id for job in instance.jobs if job.weight and job.id in preempted)
        return {f"server {name}": 1 for name in solution.servers} | {
            f"job {name}": 1 for name in counted
        }

    def drawing_of(self, instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
        """Draw the solutions, keyed by solver name, or the instance if there are no solutions."""
        from lyra_opt.reclaim.plot import drawing_of

        return drawing_of(instance, solutions)


PROBLEM = ReclaimProblem()
