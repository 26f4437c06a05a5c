"""List placement: gangs in several orders, each at its most valuable tier with room."""

from collections.abc import Iterator, Sequence

import numpy as np

from lyra_opt.core.result import Number, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.network.checker import check, value_of
from lyra_opt.network.heuristics.free_machines import BestFit
from lyra_opt.network.heuristics.policy import Grant
from lyra_opt.network.heuristics.policy_solver import solution_of, state_of
from lyra_opt.network.instance import Instance, Objective, Solution
from lyra_opt.network.links import Tier

Wish = tuple[int, Sequence[Tier]]
"""Position of a job, and the tiers to try for it."""


JOBS_BETWEEN_CLOCK_CHECKS = 16


class ListPlacement(HeuristicSolver):
    """Place gangs in each of four orders, and return the best placement.

    The orders are: value per GPU, value, largest gang first, and file order. Each gang starts at
    the tier with room where it is worth most, on the fullest machine or in the fullest rack; a gang
    on several machines uses as few as possible. The empty placement is returned if it is better.
    Ties go to the first job in the file and to the first order. Exact models use the result as
    their warm start.

    Source: the textbook greedy rule for knapsacks; ours. Complexity O(jobs machines log machines).
    Guarantee: none.
    """

    name = "list-placement"
    problem = "network"
    variants = tuple(Objective)

    def apply(self, instance: Instance, rng: np.random.Generator) -> SolveResult[Solution]:  # noqa: ARG002
        """Return the best placement over all orders."""
        tried, stopped_by = [Solution(())], None
        try:
            tried.extend(_filled_in_orders(instance))
        except OutOfTimeError:
            stopped_by = StoppedBy.TIME
        solution, objective = best_placement(instance, tried)
        return SolveResult(
            status=Status.FEASIBLE, stopped_by=stopped_by, solution=solution, objective=objective
        )


def _filled_in_orders(instance: Instance) -> Iterator[Solution]:
    """Yield one placement per order in which gangs choose their GPUs."""
    tiers: list[Sequence[Tier]] = []
    worth = []
    for job in within_time(instance.jobs, JOBS_BETWEEN_CLOCK_CHECKS):
        values = {tier: value_of(instance, job, tier) for tier in instance.tiers_of(job)}
        tiers.append(sorted(values, key=values.__getitem__, reverse=True))
        worth.append(max(values.values(), default=0))
    positions = range(len(instance.jobs))
    orders = (
        sorted(positions, key=lambda j: -worth[j] / instance.jobs[j].gang),
        sorted(positions, key=lambda j: -worth[j]),
        sorted(positions, key=lambda j: -instance.jobs[j].gang),
        positions,
    )
    for order in orders:
        yield filled(instance, [(j, tiers[j]) for j in order])


def best_placement(instance: Instance, tried: Sequence[Solution]) -> tuple[Solution, Number]:
    """Return the best valid solution and its value; the first one on ties."""
    best: tuple[Solution, Number] | None = None
    for solution in tried:
        value = check(instance, solution).objective
        if value is not None and (best is None or value > best[1]):
            best = solution, value
    assert best is not None, "at least one solution is valid"
    return best


def filled(instance: Instance, wishes: Sequence[Wish]) -> Solution:
    """Place gangs in the given order, each at the first of its tiers that has room.

    A gang takes the GPUs that `BestFit` finds.
    """
    epoch = state_of(instance)
    free = BestFit(epoch.state.machines)
    grants = []
    for j, tiers in within_time(wishes, JOBS_BETWEEN_CLOCK_CHECKS):
        for tier in tiers:
            gpus = free.place(instance.jobs[j].gang, tier)
            if gpus is not None:
                grants.append(Grant(j, tier, gpus))
                break
    return solution_of(instance, epoch, grants)
