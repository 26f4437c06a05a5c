"""What all schedule policies share; each adds its rule in a file of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lyra_opt.allocation.instance import Objective
from lyra_opt.allocation.schedules.evaluator import FluidState, evaluate, mean_jct_s
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

    from lyra_opt.allocation.instance import AllocationInstance, Schedule
    from lyra_opt.core.result import Limits


class SchedulePolicy(ABC):
    """A rule that decides anew at every release and completion; implements `Solver`.

    It gives whole workers. A job that has started keeps at least its base demand until it
    completes. A policy runs to its end and keeps no limits; it gives no bound: ask for one with
    ``certify``.

    In complexities, J is the number of jobs, A of those released and not complete, G of GPUs;
    there are at most 2 J decisions. Every policy adds O(A) a decision for what the evaluator
    does. If all jobs start when they are released, any policy is within max w_max / w_min of the
    optimum, since C_j <= r_j + W_j / w_min and no schedule ends job j before r_j + W_j / w_max;
    where jobs queue, no constant ratio is known to this project.
    """

    name: str
    problem = "allocation"
    variants: Sequence[str] = (str(Objective.MEAN_JCT),)
    proves_optimality = False
    gives_bound = False

    @abstractmethod
    def schedule(self, instance: AllocationInstance, rng: np.random.Generator) -> Schedule:
        """Return the schedule that the rule makes."""

    def availability(self) -> Unsupported | None:
        """Policies need nothing beyond this package."""
        return None

    def supports(self, instance: AllocationInstance) -> Unsupported | None:
        """Return why the rule does not apply to the instance's objective, None if it does."""
        if instance.objective is Objective.MEAN_JCT:
            return None
        return Unsupported(
            f"{self.name} takes {' and '.join(self.variants)} instances, "
            f"not {instance.objective} ones"
        )

    def solve(
        self,
        instance: AllocationInstance,
        *,
        limits: Limits,  # noqa: ARG002
        rng: np.random.Generator,
        warm_start: Schedule | None = None,
        observer: Callable[[str, int | float], None] | None = None,
    ) -> SolveResult[Schedule]:
        """Apply the rule; return the warm start instead where that is better."""
        solution = self.schedule(instance, rng)
        objective = mean_jct_s(instance, solution)
        if warm_start is not None:
            start = mean_jct_s(instance, warm_start)
            if start < objective:
                solution, objective = warm_start, start
        if observer is not None:
            observer("objective", objective)
        return SolveResult(status=Status.FEASIBLE, solution=solution, objective=objective)


class StepPolicy(SchedulePolicy):
    """A policy that is told by its decisions, each from the state alone."""

    @abstractmethod
    def decide(self, state: FluidState) -> None:
        """Set the target of every active job."""

    def prepare(self, state: FluidState) -> None:
        """Set the keys that `decide` orders by, if it does."""

    def schedule(
        self,
        instance: AllocationInstance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Schedule:
        """Return the schedule that the decisions make."""
        state = FluidState(instance)
        self.prepare(state)
        return evaluate(state, self.decide)
