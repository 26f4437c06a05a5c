"""The base class of the knapsack solvers of allocation; each subclass adds its algorithm."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.instance import Instance, NamedWorkers, Objective, WorkerAllocation
from lyra_opt.allocation.knapsack.data import ReducedKnapsack
from lyra_opt.allocation.knapsack.of_instance import (
    KNAPSACK_OBJECTIVES,
    AllocationKnapsack,
    refusal,
)
from lyra_opt.core.arrays import IntArray
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy, same_value
from lyra_opt.core.solver import Solver, Unsupported


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnapsackChoice:
    """The result of a knapsack algorithm, with the chosen items and any proved bound.

    Parameters
    ----------
    chosen
        Shape (classes,): the item chosen from each class, -1 for no item.
    bound
        A proved upper bound on the value of any choice; None if nothing is proved.
    stopped_by
        The limit that ended the algorithm; None if it finished.
    counters
        Effort spent, by name.
    """

    chosen: IntArray
    bound: float | None = None
    stopped_by: StoppedBy | None = None
    counters: Mapping[str, int] = field(default_factory=dict)


class KnapsackSolver(Solver):
    """A base class that turns a knapsack algorithm into an allocation solver.

    The status is optimal if objective and bound agree within 1e-9, relatively.
    """

    problem = "allocation"
    variants = tuple(KNAPSACK_OBJECTIVES)

    @abstractmethod
    def choose(self, knapsack: ReducedKnapsack) -> KnapsackChoice:
        """Return a choice of items of a reduced knapsack, within the current limits."""

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return the reason to refuse an instance, or None if it is a small enough knapsack."""
        return refusal(instance)

    def solve(
        self,
        instance: Instance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
        warm_start: WorkerAllocation | NamedWorkers | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[WorkerAllocation]:
        """Solve an instance as a knapsack; return the warm start instead if it is better.

        Raises
        ------
        ValueError
            If the warm start is not a valid solution.
        """
        task = AllocationKnapsack.of(instance)
        reduced = task.knapsack.reduced()
        found = self.choose(reduced)
        solution = task.allocation(reduced.original(found.chosen))
        objective = task.objective_s(task.workers(solution))
        if warm_start is not None:
            report = check(instance, warm_start)
            if report.objective is None:
                raise ValueError(f"the warm start is not valid: {'; '.join(report.violations)}")
            start = task.allocation_of(warm_start)
            start_objective = task.objective_s(task.workers(start))
            maximises = instance.objective is Objective.JCT_REDUCTION
            if (start_objective > objective) == maximises and start_objective != objective:
                solution, objective = start, start_objective
        bound = None if found.bound is None else task.bound_s(found.bound)
        if observer is not None:
            observer("objective", objective)
            if bound is not None:
                observer("dual_bound", bound)
        is_proved = bound is not None and same_value(objective, bound)
        message = None
        if self.exact_variants and found.stopped_by is None and not is_proved:
            message = (
                f"the knapsack is solved, but its bound {bound} does not prove the objective "
                f"{objective} within 1e-9, because it is a small difference of large sums"
            )
        return SolveResult(
            status=Status.OPTIMAL if is_proved else Status.FEASIBLE,
            stopped_by=None if is_proved else found.stopped_by,
            solution=solution,
            objective=objective,
            dual_bound=bound,
            counters=found.counters,
            message=message,
        )
