"""Proved upper bounds on every objective of the network problem."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from lyra_opt.core.rounding import float_up
from lyra_opt.core.stopwatch import within_time
from lyra_opt.network.bounds.prices import Offer, price_bound
from lyra_opt.network.checker import value_of
from lyra_opt.network.instance import COUNTING_OBJECTIVES, Objective
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.network.instance import Instance


def dual_bound(instance: Instance) -> int | float:
    """Return a bound on the optimum, an integer for objectives that count.

    The better of `knapsack_bound` and `lyra_opt.network.bounds.prices`; it does not depend on the
    order of the file.
    """
    offers = offers_of(instance)
    least = knapsack_bound(instance, offers)
    if not offers and instance.objective is Objective.LEAST_FRAGMENTATION:
        # Nobody can start, and machines stay as they are.
        least -= sum(0 < machine.free_gpus < machine.gpus for machine in instance.machines)
    priced = price_bound(instance, offers)
    if priced is not None:
        least = min(least, priced.value)
    if instance.objective in COUNTING_OBJECTIVES:
        return math.floor(least)
    return float_up(least)


def offers_of(instance: Instance) -> list[Offer]:
    """Return the values of the gangs that may and could start if they were alone, sorted."""
    rooms = _rooms(instance)
    offers = []
    for job in within_time(instance.jobs):
        values = [Fraction(0)] * len(Tier)
        for tier in instance.tiers_of(job):
            if job.gang <= rooms[tier] and (tier is Tier.MACHINE or job.gang > 1):
                values[tier] = value_of(instance, job, tier)
        if any(value > 0 for value in values):
            offers.append(Offer(job.gang, (values[0], values[1], values[2])))
    return sorted(offers, key=lambda offer: (offer.gang, offer.values))


def _rooms(instance: Instance) -> dict[Tier, int]:
    """Return the largest gang for which there is room at each tier, all units of it spanned."""
    racks = [
        [instance.machines[position].free_gpus for position in positions]
        for positions in instance.racks.values()
    ]
    several = [sum(rack) for rack in racks if sum(free > 0 for free in rack) > 1]
    return {
        Tier.MACHINE: max(machine.free_gpus for machine in instance.machines),
        Tier.RACK: max(several, default=0),
        Tier.NETWORK: instance.free_gpus if sum(any(rack) for rack in racks) > 1 else 0,
    }


def knapsack_bound(instance: Instance, offers: Sequence[Offer]) -> Fraction:
    """Return the best values of gangs as a fractional knapsack of all free GPUs.

    By value for each GPU, until the free GPUs are used up, the last gang in part.
    """
    free, total = instance.free_gpus, Fraction(0)
    best = [(max(offer.values), offer.gang) for offer in offers]
    for value, gang in sorted(best, key=lambda offer: offer[0] / offer[1], reverse=True):
        used = min(free, gang)
        total += value * Fraction(used, gang)
        free -= used
    return total
