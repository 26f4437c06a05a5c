"""The network problem by trying everything: slow, plain, and right."""

from __future__ import annotations

import math
from fractions import Fraction
from operator import sub
from typing import TYPE_CHECKING

from lyra_opt.formulations.brute_force import (
    BruteForceSolver,
    best_ways,
    choices_to,
    count_takings,
    takings,
    too_many,
)
from lyra_opt.formulations.network.placing import simple_bound
from lyra_opt.network.checker import value_of
from lyra_opt.network.instance import GangPlacement, Objective, Solution
from lyra_opt.network.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lyra_opt.core.solver import Unsupported
    from lyra_opt.network.instance import Instance, WaitingJob

    Free = tuple[int, ...]
    Choice = tuple[int, ...]

MOST_CHOICES = 2_000_000


class BruteForce(BruteForceSolver):
    """Try every placement of every job.

    Jobs in file order; a state is what is free on each machine after the jobs so far. From each
    state every way to give a job its GPUs is tried, and none; of several ways to a state that of
    most value is kept, the first found of equal ones. Values are rational numbers. Complexity
    O(states jobs ways).
    """

    of = PROBLEM
    variants = tuple(Objective)

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return why there are too many choices, None if there are not."""
        states = math.prod(machine.free_gpus + 1 for machine in instance.machines)
        choices = states
        for job in instance.jobs:
            if choices > MOST_CHOICES:
                break
            choices += states * _count(instance, job)
        return too_many(
            choices,
            MOST_CHOICES,
            "there are {} or more states and ways to go on from them",
        )

    def improvements(self, instance: Instance) -> Iterator[Solution]:
        """Yield the best placement."""
        yield _search(instance)

    def simple_bound(self, instance: Instance) -> float:
        """Return the knapsack's bound."""
        return simple_bound(instance)

    def without_search(self, instance: Instance) -> Solution:  # noqa: ARG002
        """Return that nobody starts."""
        return Solution(())


def _search(instance: Instance) -> Solution:
    """Return the best placement."""
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
    """Return what machines that are partly free cost."""
    if instance.objective is not Objective.LEAST_FRAGMENTATION:
        return 0
    return sum(
        0 < left < machine.gpus for left, machine in zip(free, instance.machines, strict=True)
    )


def _ways(instance: Instance, job: WaitingJob) -> Iterator[tuple[Choice, Fraction]]:
    """Yield no GPUs, then every way to give the job its GPUs where it may run, and its worth."""
    yield (0,) * len(instance.machines), Fraction(0)
    for held in takings([machine.free_gpus for machine in instance.machines], job.gang):
        tier = instance.tier_of(_by_machine(instance, held))
        if tier in instance.tiers_of(job):
            yield held, value_of(instance, job, tier)


def _count(instance: Instance, job: WaitingJob) -> int:
    """Return the ways to take the job's GPUs, those where it may not run too."""
    if job.gang > instance.free_gpus:
        return 0
    return count_takings((machine.free_gpus for machine in instance.machines), job.gang)
