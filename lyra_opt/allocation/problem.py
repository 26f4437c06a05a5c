"""The `Problem` object of allocation: file format, checker, dual bound and proof data."""

from collections.abc import Mapping
from typing import Any

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
from lyra_opt.core.pictures import Drawing
from lyra_opt.core.problem import Problem


class AllocationProblem(Problem):
    """The allocation problem: choose the number of workers of each elastic job."""

    size_name = "jobs"
    variants = Objective
    variants_in_s = tuple(Objective)
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
        """Return the workers in file order, or the schedule's pieces by start and file order."""
        if isinstance(solution, Schedule):
            position = instance.job_position
            pieces = sorted(solution.pieces, key=lambda piece: (piece.start_s, position[piece.job]))
            return {"schedule": [written(piece) for piece in pieces]}
        if isinstance(solution, NamedWorkers):
            solution = solution.in_file_order(instance)
        ids = (job.id for job in instance.jobs)
        return {"workers": dict(zip(ids, solution.workers, strict=True))}

    def check(self, instance: Instance, solution: Solution) -> Report:
        """Recompute the objective of `solution` and check its feasibility."""
        return check(instance, solution)

    def dual_bound(self, instance: Instance) -> float:
        """Return a proved bound: an upper bound for ``jct_reduction``, else a lower bound."""
        from lyra_opt.allocation.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def proof_slack(self, instance: Instance) -> float:
        """Return the relative gap that a proof may leave, which covers the rounding of prices."""
        return instance.variant.proof_gap

    def proof_point(self, instance: Instance, solution: Solution) -> Mapping[str, int]:
        """Return the binary variables of the proof programme that are 1 in `solution`, by name."""
        workers = self.answer(instance, solution)["workers"]
        started = check(instance, solution).started
        # Under the objective two_phase, the knapsack does not contain the jobs that wait.
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
        """Draw the solutions, keyed by solver name, or the instance if there are no solutions."""
        from lyra_opt.allocation.plot import drawing_of

        return drawing_of(instance, solutions)


PROBLEM = AllocationProblem()
