"""List placement: gangs in several orders, each at its most valuable tier with room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import HeuristicSolver
from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.network.checker import check, value_of
from lyra_opt.network.instance import GangPlacement, Objective, Solution
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from lyra_opt.core.result import Number
    from lyra_opt.network.instance import Instance

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

    A gang takes the fullest machine, or the fullest rack, that has room. A gang on several machines
    takes the emptiest machines of the emptiest racks, so that it spans few.
    """
    free = [machine.free_gpus for machine in instance.machines]
    racks = list(instance.racks.values())
    placements = []
    for j, tiers in within_time(wishes, JOBS_BETWEEN_CLOCK_CHECKS):
        job = instance.jobs[j]
        for tier in tiers:
            held = _room(free, racks, job.gang, tier)
            if held is None:
                continue
            for m, count in held.items():
                free[m] -= count
            gpus = {instance.machines[m].id: count for m, count in held.items()}
            placements.append(GangPlacement(job=job.id, tier=tier.label, gpus=gpus))
            break
    return Solution(tuple(placements))


def _room(
    free: Sequence[int], racks: Sequence[Sequence[int]], gang: int, tier: Tier
) -> dict[int, int] | None:
    """Return GPUs by machine for a gang that spans a given tier; None if the gang does not fit."""
    if tier is Tier.MACHINE:
        with_room = [m for m, count in enumerate(free) if count >= gang]
        return {min(with_room, key=lambda m: free[m]): gang} if with_room else None
    free_of = {r: sum(free[m] for m in rack) for r, rack in enumerate(racks)}
    if tier is Tier.RACK:
        for r in sorted(free_of, key=lambda r: free_of[r]):
            held = _spread({m: free[m] for m in racks[r]}, gang)
            if held is not None:
                return held
        return None
    shares = _spread(free_of, gang)
    if shares is None:
        return None
    placed: dict[int, int] = {}
    for r, share in shares.items():
        for m in sorted(racks[r], key=lambda m: -free[m]):
            taken = min(share, free[m])
            if taken:
                placed[m] = taken
                share -= taken
    return placed


def _spread(free_of: Mapping[int, int], gang: int) -> dict[int, int] | None:
    """Split a gang over at least two machines or racks, those with the most free GPUs first.

    None if that is impossible.
    """
    if sum(free_of.values()) < gang or gang < 2:
        return None
    taken: dict[int, int] = {}
    needed = gang
    for unit in sorted(free_of, key=lambda u: -free_of[u]):
        count = min(needed, free_of[unit], gang - 1)
        if count:
            taken[unit] = count
            needed -= count
    return taken if not needed and len(taken) > 1 else None
