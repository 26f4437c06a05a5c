"""A schedule policy as a solver; each policy adds its rule in a file of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from lyra_opt.allocation.clock_times import from_first_release
from lyra_opt.allocation.instance import Objective
from lyra_opt.allocation.schedules.evaluator import FluidState, evaluate, mean_jct_s
from lyra_opt.allocation.schedules.moldable import moldable_schedule
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver

if TYPE_CHECKING:
    import numpy as np

    from lyra_opt.allocation.instance import Instance, Schedule


class SchedulePolicySolver(HeuristicSolver):
    """A rule that decides anew at every release and completion.

    It gives whole workers. A job that has started keeps at least its base demand until it
    completes.

    In complexities, J is the number of jobs, A of those released and not complete, G of GPUs;
    there are at most 2 J decisions. Every policy adds O(A) a decision for what the evaluator
    does. If all jobs start when they are released, any policy is within max w_max / w_min of the
    optimum, since C_j <= r_j + W_j / w_min and no schedule ends job j before r_j + W_j / w_max;
    where jobs queue, no constant ratio is known to this project.
    """

    problem = "allocation"
    variants = (Objective.MEAN_JCT,)

    solve = from_first_release(HeuristicSolver.solve)

    def stopped(self, instance: Instance) -> SolveResult[Schedule]:
        """Return a schedule of moldable jobs."""
        return scheduled(instance, moldable_schedule(instance), StoppedBy.TIME)

    def objective_of(self, instance: Instance, solution: Schedule) -> float:
        """Return its mean JCT in seconds."""
        return mean_jct_s(instance, solution)


def scheduled(
    instance: Instance, schedule: Schedule, stopped_by: StoppedBy | None = None
) -> SolveResult[Schedule]:
    """Return a schedule with its mean JCT."""
    return SolveResult(
        status=Status.FEASIBLE,
        stopped_by=stopped_by,
        solution=schedule,
        objective=mean_jct_s(instance, schedule),
    )


class StepPolicy(SchedulePolicySolver):
    """A policy that is told by its decisions, each from the state alone."""

    @abstractmethod
    def decide(self, state: FluidState) -> None:
        """Set the target of every active job."""

    def prepare(self, state: FluidState) -> None:
        """Set the keys that `decide` orders by, if it does."""

    def schedule(
        self,
        instance: Instance,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Schedule:
        """Return the schedule that the decisions make."""
        state = FluidState(instance)
        self.prepare(state)
        return evaluate(state, self.decide)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Schedule]:
        """Return the schedule and its mean JCT."""
        return scheduled(instance, self.schedule(instance, rng))
