"""The numbers that all models of the network problem are made of, and what the models share.

Every model is made of one `GangData`. The symbols are those of the README beside this file. What a
gang is worth are integers for CP-SAT and floats for the others, rounded up, so that a bound on the
model is one on the problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from lyra_opt.core.arithmetic import float_up
from lyra_opt.network.bounds.dual_bound import knapsack_bound, offers_of
from lyra_opt.network.checker import value_of
from lyra_opt.network.instance import COUNTING_OBJECTIVES, Objective
from lyra_opt.network.links import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lyra_opt.network.instance import Instance

MOST_COLUMNS = 200_000
"""Variables up to which models are built."""
WORTH_BITS = 40
"""Bits of the bound on the objective in integers: rounding adds less than 2**-40 of it a gang."""
WORTH_IN_FLOATS = 1e6
"""The bound on the objective in floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangData:
    """What can be where, and what it is worth; made by `gang_data`.

    Parameters
    ----------
    instance
        The instance.
    racks
        Machines with free GPUs of each rack that has any, as positions in the file.
    worth
        Of each job at each tier in units of `unit`; 0 where it may not start or nothing is gained.
    unit
        What 1 is worth.
    must_span_machines
        Jobs and racks (j, r) such that j would be worth less, or be forbidden, if all its GPUs in
        rack r were on one machine, and they could be.
    must_span_racks
        Jobs that would be worth less, or be forbidden, if all their GPUs across racks were in one
        rack, and they could be.
    """

    instance: Instance
    racks: tuple[tuple[int, ...], ...]
    worth: tuple[tuple[float, ...], ...]
    unit: Fraction
    must_span_machines: frozenset[tuple[int, int]]
    must_span_racks: frozenset[int]

    @property
    def counts_machines(self) -> bool:
        """Whether machines that are partly free cost anything."""
        return self.instance.objective is Objective.LEAST_FRAGMENTATION

    @property
    def jobs(self) -> range:
        """Positions of the jobs."""
        return range(len(self.instance.jobs))

    def gang(self, j: int) -> int:
        """Return n_j."""
        return self.instance.jobs[j].gang

    def free(self, m: int) -> int:
        """Return F_m."""
        return self.instance.machines[m].free_gpus

    def rack_free(self, r: int) -> int:
        """Return F_r."""
        return sum(self.free(m) for m in self.racks[r])

    def machine_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield each job and machine (j, m) where it can start on that machine alone."""
        for j in self.jobs:
            if self.worth[j][Tier.MACHINE]:
                for rack in self.racks:
                    for m in rack:
                        if self.gang(j) <= self.free(m):
                            yield j, m

    def machine_jobs(self) -> Iterator[int]:
        """Yield each job that can start on a machine alone."""
        largest = max((self.free(m) for rack in self.racks for m in rack), default=0)
        for j in self.jobs:
            if self.worth[j][Tier.MACHINE] and self.gang(j) <= largest:
                yield j

    def rack_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield each job and rack (j, r) where it can start on several machines of that rack."""
        for j in self.jobs:
            if self.worth[j][Tier.RACK]:
                for r, rack in enumerate(self.racks):
                    if len(rack) > 1 and self.gang(j) <= self.rack_free(r):
                        yield j, r

    def network_jobs(self) -> Iterator[int]:
        """Yield each job that can start across racks."""
        for j in self.jobs:
            fits = len(self.racks) > 1 and self.gang(j) <= self.instance.free_gpus
            if fits and self.worth[j][Tier.NETWORK]:
                yield j

    def shared_racks(self) -> list[int]:
        """Return the racks in which gangs beyond a machine may hold GPUs."""
        if any(True for _ in self.network_jobs()):
            return list(range(len(self.racks)))
        return sorted({r for _, r in self.rack_pairs()})

    def shares(self) -> list[int]:
        """Return the racks of which gangs across racks may hold some GPUs."""
        has_network = any(True for _ in self.network_jobs())
        return list(range(len(self.racks))) if has_network else []

    def racks_apart(self) -> set[int]:
        """Return the racks with a gang that must be apart there."""
        return {r for j, r in self.rack_pairs() if (j, r) in self.must_span_machines}

    def can_start(self) -> bool:
        """Return whether any job can start anywhere."""
        kinds = (self.machine_jobs(), self.rack_pairs(), self.network_jobs())
        return any(True for kind in kinds for _ in kind)


def simple_bound(instance: Instance) -> int | float:
    """Return a bound on the optimum that no model is needed for, nor anything else that is slow."""
    most = knapsack_bound(instance, offers_of(instance))
    return math.floor(most) if instance.objective in COUNTING_OBJECTIVES else float_up(most)


def gang_data(instance: Instance, *, in_floats: bool = False) -> GangData:
    """Return the numbers of an instance, for a backend in floats or not.

    Complexity O(jobs racks + machines).
    """
    values: list[list[Fraction | None]] = []
    for job in instance.jobs:
        accepted = instance.tiers_of(job)
        values.append(
            [value_of(instance, job, tier) if tier in accepted else None for tier in Tier]
        )
    racks = tuple(
        machines
        for positions in instance.racks.values()
        if (machines := tuple(m for m in positions if instance.machines[m].free_gpus))
    )
    unit = Fraction(1)
    most = knapsack_bound(instance, offers_of(instance))
    if instance.objective not in COUNTING_OBJECTIVES and most > 0:
        unit = most / (Fraction(WORTH_IN_FLOATS) if in_floats else 2**WORTH_BITS)
    rounded_up: Callable[[Fraction], float] = float_up if in_floats else math.ceil
    sizes = [[instance.machines[m].free_gpus for m in rack] for rack in racks]
    positions = range(len(instance.jobs))
    return GangData(
        instance=instance,
        racks=racks,
        worth=tuple(
            # What is worth more than all can be together has no room, and may be beyond floats.
            tuple(rounded_up(min(value or Fraction(0), most) / unit) for value in of_job)
            for of_job in values
        ),
        unit=unit,
        must_span_machines=frozenset(
            (j, r)
            for j in positions
            if _is_worse(values[j], Tier.MACHINE, Tier.RACK)
            for r, free in enumerate(sizes)
            if instance.jobs[j].gang <= max(free)
        ),
        must_span_racks=frozenset(
            j
            for j in positions
            if any(_loses_inside(instance.jobs[j].gang, values[j], free) for free in sizes)
        ),
    )


def _is_worse(values: Sequence[Fraction | None], near: Tier, far: Tier) -> bool:
    """Whether a job at the near tier is forbidden or worth less than at the far one."""
    there, here = values[far], values[near]
    return there is not None and (here is None or here < there)


def _loses_inside(gang: int, values: Sequence[Fraction | None], free: Sequence[int]) -> bool:
    """Whether a gang across racks could be in this rack alone, and would lose by that."""
    on_one = gang <= max(free)
    on_several = len(free) > 1 and gang <= sum(free)
    return (on_one and _is_worse(values, Tier.MACHINE, Tier.NETWORK)) or (
        on_several and _is_worse(values, Tier.RACK, Tier.NETWORK)
    )
