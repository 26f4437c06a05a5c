"""Brute force for the network problem: try every placement of every job."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from operator import sub

from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.brute_force import (
    BruteForceSolver,
    best_ways,
    choices_to,
    count_ways_to_take,
    too_many,
    ways_to_take,
)
from lyra_opt.formulations.network.placing import simple_bound
from lyra_opt.network.checker import value_of
from lyra_opt.network.instance import GangPlacement, Instance, Objective, Solution, WaitingJob
from lyra_opt.network.problem import PROBLEM

Free = tuple[int, ...]
Choice = tuple[int, ...]

MOST_CHOICES = 2_000_000


class BruteForce(BruteForceSolver):
    """Brute-force solver that tries every placement of every job by dynamic programming.

    Jobs are placed in file order. A state holds the free GPUs of each machine after the jobs placed
    so far. Each state is extended by every placement of the next job, and by leaving it out. Of
    several ways to a state the best is kept, and of equally good ways the first. Values are
    rational numbers. Complexity O(states * jobs * placements).
    """

    of = PROBLEM
    variants = tuple(Objective)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why brute force refuses the instance; None if it can solve the instance."""
        states = math.prod(machine.free_gpus + 1 for machine in instance.machines)
        choices = states
        for job in instance.jobs:
            if choices > MOST_CHOICES:
                break
            choices += states * _count(instance, job)
        return too_many(choices, MOST_CHOICES, "the search has at least {} states and choices")

    def improvements(self, instance: Instance) -> Iterator[Solution]:
        """Yield the optimal placement."""
        yield _best_placement(instance)

    def simple_bound(self, instance: Instance) -> float:
        """Return the bound on the objective from the knapsack relaxation."""
        return simple_bound(instance)

    def without_search(self, instance: Instance) -> Solution:  # noqa: ARG002
        """Return the solution in which no job starts."""
        return Solution(())


def _best_placement(instance: Instance) -> Solution:
    start = tuple(machine.free_gpus for machine in instance.machines)

    def stage(job: WaitingJob) -> Callable[[Free], Iterator[tuple[Free, Fraction, Choice]]]:
        ways = list(_ways(instance, job))

        def follow(free: Free) -> Iterator[tuple[Free, Fraction, Choice]]:
            for held, worth in ways:
                left = tuple(map(sub, free, held))
                if min(left) >= 0:
                    yield left, worth, held

        return follow

    layers = best_ways(start, map(stage, instance.jobs))
    last = max(layers[-1], key=lambda free: layers[-1][free].value - _fragmented(instance, free))
    placements = []
    for job, held in zip(instance.jobs, choices_to(layers, last), strict=True):
        gpus = _by_machine(instance, held)
        if gpus:
            tier = instance.tier_of(gpus)
            placements.append(GangPlacement(job=job.id, tier=tier.label, gpus=gpus))
    return Solution(tuple(placements))


def _by_machine(instance: Instance, held: Choice) -> dict[str, int]:
    return {
        machine.id: count for machine, count in zip(instance.machines, held, strict=True) if count
    }


def _fragmented(instance: Instance, free: Free) -> int:
    """Return the number of partly free machines; 0 if the objective does not charge for them."""
    if instance.objective is not Objective.LEAST_FRAGMENTATION:
        return 0
    return sum(
        0 < left < machine.gpus for left, machine in zip(free, instance.machines, strict=True)
    )


def _ways(instance: Instance, job: WaitingJob) -> Iterator[tuple[Choice, Fraction]]:
    """Yield (placement, value) for not starting the job and for each placement it accepts."""
    yield (0,) * len(instance.machines), Fraction(0)
    for held in ways_to_take([machine.free_gpus for machine in instance.machines], job.gang):
        tier = instance.tier_of(_by_machine(instance, held))
        if tier in instance.tiers_of(job):
            yield held, value_of(instance, job, tier)


def _count(instance: Instance, job: WaitingJob) -> int:
    """Return the number of ways to take the job's GPUs, including tiers that it does not accept."""
    if job.gang > instance.free_gpus:
        return 0
    return count_ways_to_take((machine.free_gpus for machine in instance.machines), job.gang)
