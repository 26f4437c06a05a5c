"""Allocation as the rest of the toolkit sees it: files, checker and bound under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.allocation.checker import Report, check
from lyra_opt.allocation.instance import (
    Instance,
    NamedWorkers,
    Objective,
    Schedule,
    Solution,
    WorkerAllocation,
)
from lyra_opt.core.fields import written
from lyra_opt.core.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.core.pictures import Drawing


class AllocationProblem(Problem):
    """How many workers each elastic job gets; see `lyra_opt.core.problem.Problem`."""

    size_name = "jobs"
    variants = Objective
    default_solvers = {  # noqa: RUF012
        **dict.fromkeys(Objective, "mckp-core"),
        Objective.MEAN_JCT: "srw",
    }
    witnesses = ("mckp-dp", "cpsat-strengthened", "order-tree", "exact")
    instance_format = "lyra-opt/allocation"
    instance_class = Instance
    solution_classes = (NamedWorkers, Schedule)
    other_solution_classes = (WorkerAllocation,)
    report_class = Report

    def answer(self, instance: Instance, solution: Solution) -> Mapping[str, Any]:
        """Return the workers in file order, or the schedule by start, then in file order."""
        if isinstance(solution, Schedule):
            position = instance.job_position
            pieces = sorted(solution.pieces, key=lambda piece: (piece.start_s, position[piece.job]))
            return {"schedule": [written(piece) for piece in pieces]}
        if isinstance(solution, NamedWorkers):
            solution = solution.in_file_order(instance)
        ids = (job.id for job in instance.jobs)
        return {"workers": dict(zip(ids, solution.workers, strict=True))}

    def check(self, instance: Instance, solution: Solution) -> Report:
        """Recompute feasibility and objective."""
        return check(instance, solution)

    def dual_bound(self, instance: Instance) -> float:
        """Return a proved bound on the optimum, above it for the reduction, else below."""
        from lyra_opt.allocation.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def proof_hints(self, instance: Instance) -> Mapping[str, Any] | None:
        """Return that knapsacks need none, and schedules have no proofs."""
        return None if instance.objective is Objective.MEAN_JCT else {}

    def proof_point(self, instance: Instance, solution: Solution) -> Mapping[str, int]:
        """Return which number of workers each job has."""
        workers = self.answer(instance, solution)["workers"]
        started = check(instance, solution).started
        # Under two_phase jobs that wait are no part of the knapsack.
        left_out = (
            set()
            if started is None or instance.objective is Objective.JOINT
            else {job.id for job in instance.jobs if job.id not in started}
        )
        return {
            f"job {job} workers {number}": 1
            for job, number in workers.items()
            if job not in left_out
        }

    def drawing_of(self, instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
        """Return a drawing of valid solutions by who made them, or of the instance alone."""
        from lyra_opt.allocation.plot import drawing_of

        return drawing_of(instance, solutions)


PROBLEM = AllocationProblem()
