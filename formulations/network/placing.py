"""The data that all network models share, and the conversion between variables and placements.

Every model is built from one `GangData`. Values of gangs are integers for CP-SAT and floats for
other backends. They are rounded up, so a bound on the model is a bound on the problem. The README
in this folder defines the symbols.

The models decide only which gangs are on which machine, in which rack and across racks, and how
many GPUs the last two kinds take from each machine. Section 3 of the README proves that every such
decision can be turned into a placement; `placed` implements that proof.
"""

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

from lyra_opt.core.arithmetic import float_up
from lyra_opt.core.result import Number
from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.backends.backend import CostUnit, Values
from lyra_opt.network.bounds.dual_bound import knapsack_bound, offers_of
from lyra_opt.network.checker import value_of
from lyra_opt.network.instance import (
    COUNTING_OBJECTIVES,
    GangPlacement,
    Instance,
    Objective,
    Solution,
)
from lyra_opt.network.links import Tier

MOST_GPUS_IN_FLOATS = 10**5
MOST_COLUMNS = 200_000
"""The largest number of variables of a model."""
WORTH_BITS = 40
"""Bits of the bound on the objective for integers; rounding adds below 2**-40 of it per gang."""
WORTH_IN_FLOATS = 1e6
"""The scaled bound on the objective, for floats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangData:
    """The possible placements of an instance's gangs, and the value of each gang at each tier.

    Function `gang_data` builds it.

    Parameters
    ----------
    instance
        The instance.
    racks
        For each rack with free GPUs, its machines with free GPUs, as positions in the file.
    worth
        For each job, its value at each tier, in units of `unit`; 0 if the job may not start there
        or gains nothing.
    unit
        The value of one unit.
    must_span_machines
        Pairs (j, r) of job and rack: one machine of r could hold j, but j may not run on one
        machine or is worth less there.
    must_span_racks
        Jobs that one rack could hold, but that may not run in one rack or are worth less there than
        across racks.
    """

    instance: Instance
    racks: tuple[tuple[int, ...], ...]
    worth: tuple[tuple[float, ...], ...]
    unit: Fraction
    must_span_machines: frozenset[tuple[int, int]]
    must_span_racks: frozenset[int]

    @property
    def counts_machines(self) -> bool:
        """Whether the objective charges for machines that end partly free."""
        return self.instance.objective is Objective.LEAST_FRAGMENTATION

    @property
    def jobs(self) -> range:
        """The positions of the jobs in the instance."""
        return range(len(self.instance.jobs))

    def gang(self, j: int) -> int:
        """Return n_j, the number of GPUs of job j."""
        return self.instance.jobs[j].gang

    def free(self, m: int) -> int:
        """Return F_m, the number of free GPUs of machine m."""
        return self.instance.machines[m].free_gpus

    def rack_free(self, r: int) -> int:
        """Return F_r, the number of free GPUs of rack r."""
        return sum(self.free(m) for m in self.racks[r])

    def machine_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield each pair (j, m) such that job j can start on machine m alone."""
        for j in self.jobs:
            if self.worth[j][Tier.MACHINE]:
                for rack in self.racks:
                    for m in rack:
                        if self.gang(j) <= self.free(m):
                            yield j, m

    def machine_jobs(self) -> Iterator[int]:
        """Yield each job that can start on a single machine."""
        largest = max((self.free(m) for rack in self.racks for m in rack), default=0)
        for j in self.jobs:
            if self.worth[j][Tier.MACHINE] and self.gang(j) <= largest:
                yield j

    def rack_pairs(self) -> Iterator[tuple[int, int]]:
        """Yield each pair (j, r) such that job j can start on several machines of rack r."""
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
        """Return the racks in which gangs on more than one machine may hold GPUs."""
        if any(True for _ in self.network_jobs()):
            return list(range(len(self.racks)))
        return sorted({r for _, r in self.rack_pairs()})

    def shares(self) -> list[int]:
        """Return the racks in which gangs across racks may hold GPUs."""
        has_network = any(True for _ in self.network_jobs())
        return list(range(len(self.racks))) if has_network else []

    def racks_apart(self) -> set[int]:
        """Return the racks with a gang that must span several of their machines."""
        return {r for j, r in self.rack_pairs() if (j, r) in self.must_span_machines}

    def can_start(self) -> bool:
        """Return whether any job can start on any GPUs."""
        kinds = (self.machine_jobs(), self.rack_pairs(), self.network_jobs())
        return any(True for kind in kinds for _ in kind)


def simple_bound(instance: Instance) -> int | float:
    """Return a bound on the optimum that needs no model and little time."""
    most = knapsack_bound(instance, offers_of(instance))
    return math.floor(most) if instance.objective in COUNTING_OBJECTIVES else float_up(most)


def gang_data(instance: Instance, *, in_floats: bool = False) -> GangData:
    """Compute the possible placements and the values of all gangs, in floats or in integers.

    Complexity O(jobs * racks + machines).
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
            # Values are cut at the bound on the objective, because large values could overflow.
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
    """Whether a job is forbidden at the near tier, or has less value there than at the far tier."""
    there, here = values[far], values[near]
    return there is not None and (here is None or here < there)


def _loses_inside(gang: int, values: Sequence[Fraction | None], free: Sequence[int]) -> bool:
    """Whether a gang fits into one rack but is forbidden there, or worth less than across racks."""
    on_one = gang <= max(free)
    on_several = len(free) > 1 and gang <= sum(free)
    return (on_one and _is_worse(values, Tier.MACHINE, Tier.NETWORK)) or (
        on_several and _is_worse(values, Tier.RACK, Tier.NETWORK)
    )


@dataclass(frozen=True, slots=True)
class Assignment:
    """The decisions of a placement model: the machine, rack or racks of each job that starts.

    Parameters
    ----------
    machine_of
        The machine of each job that runs on one machine.
    rack_of
        The rack of each job that runs on several machines of one rack.
    across
        The jobs that run across racks.
    open_gpus
        For each machine, the GPUs that jobs on several machines may take.
    """

    machine_of: Mapping[int, int] = field(default_factory=dict)
    rack_of: Mapping[int, int] = field(default_factory=dict)
    across: Sequence[int] = ()
    open_gpus: Mapping[int, int] = field(default_factory=dict)


def placed(data: GangData, assignment: Assignment) -> Solution:
    """Return the placement that an assignment describes; tiers follow from the machines used.

    Raises
    ------
    ValueError
        If no placement matches, because the assignment does not satisfy the model.
    """
    open_gpus = dict(assignment.open_gpus)
    held: dict[int, dict[int, int]] = {
        j: {m: data.gang(j)} for j, m in assignment.machine_of.items()
    }
    inside: dict[int, list[int]] = defaultdict(list)
    for j, r in assignment.rack_of.items():
        inside[r].append(j)
    left = {
        r: sum(open_gpus.get(m, 0) for m in rack) - sum(data.gang(j) for j in inside[r])
        for r, rack in enumerate(data.racks)
    }
    must = data.must_span_racks
    shares = _shared(left, {j: data.gang(j) for j in assignment.across}, must)
    for r, rack in enumerate(data.racks):
        piles = {m: open_gpus.get(m, 0) for m in rack}
        apart = {j for j in inside[r] if (j, r) in data.must_span_machines}
        here = _shared(piles, {j: data.gang(j) for j in inside[r]}, apart)
        passing = {j: of_job[r] for j, of_job in shares.items() if r in of_job}
        for part in (here, _shared(piles, passing, ())):
            for j, of_job in part.items():
                held.setdefault(j, {}).update(of_job)
    return Solution(tuple(_placement(data, j, held[j]) for j in sorted(held)))


def _shared(
    piles: MutableMapping[int, int], wanted: Mapping[int, int], apart: Collection[int]
) -> dict[int, dict[int, int]]:
    """Take GPUs for each job from groups of GPUs; jobs in `apart` use at least two groups.

    First each job in `apart` takes one GPU from each of the two largest piles, which leaves as many
    such pairs as possible for the other jobs. Then all jobs take the rest from the largest piles.
    """
    taken: dict[int, dict[int, int]] = {j: defaultdict(int) for j in wanted}
    for j in wanted:
        if j in apart:
            for pile in sorted(piles, key=lambda p: -piles[p])[:2]:
                taken[j][pile] += 1
                piles[pile] -= 1
    for j, count in wanted.items():
        rest = count - sum(taken[j].values())
        for pile in sorted(piles, key=lambda p: -piles[p]):
            here = min(rest, piles[pile])
            if here > 0:
                taken[j][pile] += here
                piles[pile] -= here
                rest -= here
        if rest or (piles and min(piles.values()) < 0):
            raise ValueError(f"{rest} GPUs of a gang of {count} cannot be placed")
    return {j: dict(of_job) for j, of_job in taken.items()}


def _placement(data: GangData, j: int, held: Mapping[int, int]) -> GangPlacement:
    machines = data.instance.machines
    gpus = {machines[m].id: held[m] for m in sorted(held)}
    tier = data.instance.tier_of(gpus)
    return GangPlacement(job=data.instance.jobs[j].id, tier=tier.label, gpus=gpus)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A placement as decisions and GPU counts, from which the values of all variables follow.

    Parameters
    ----------
    assignment
        The decisions. `Assignment.open_gpus` holds the GPUs that jobs on several machines use.
    across_gpus
        The GPUs that jobs across racks use, by rack.
    packed
        The jobs that run on each machine alone.
    """

    assignment: Assignment
    across_gpus: Mapping[int, int]
    packed: Mapping[int, Sequence[int]]


def encoded(data: GangData, solution: Solution) -> Encoded:
    """Convert a valid placement into decisions of a model, leaving out gangs of value 0."""
    instance = data.instance
    rack_at = {m: r for r, rack in enumerate(data.racks) for m in rack}
    machine_of: dict[int, int] = {}
    rack_of: dict[int, int] = {}
    across: list[int] = []
    open_gpus: dict[int, int] = defaultdict(int)
    across_gpus: dict[int, int] = defaultdict(int)
    packed: dict[int, list[int]] = defaultdict(list)
    for placement in solution.placements:
        j = instance.job_position[placement.job]
        held = {instance.machine_position[name]: n for name, n in placement.gpus.items()}
        tier = instance.tier_of(placement.gpus)
        if not data.worth[j][tier]:
            continue
        if len(held) == 1:
            (machine_of[j],) = held
            packed[machine_of[j]].append(j)
            continue
        spanned = {rack_at[m] for m in held}
        for m, count in held.items():
            open_gpus[m] += count
            across_gpus[rack_at[m]] += count if len(spanned) > 1 else 0
        if len(spanned) == 1:
            (rack_of[j],) = spanned
        else:
            across.append(j)
    return Encoded(Assignment(machine_of, rack_of, across, open_gpus), across_gpus, packed)


@dataclass(frozen=True)
class PlacementModel(ABC):
    """Base class of the models that place gangs on machines; implements `exact_model.ModelData`."""

    data: GangData

    @classmethod
    def of(cls, instance: Instance, *, in_floats: bool = False) -> Self:
        """Return the model of an instance, for a backend that computes in floats or in integers."""
        return cls(gang_data(instance, in_floats=in_floats))

    @property
    @abstractmethod
    def largest(self) -> Any:
        """The upper bound of each variable of the model, by kind of variable and key."""

    @abstractmethod
    def encoded(self, found: Encoded) -> Any:
        """Return the values of all variables for a placement, by kind of variable and key."""

    @abstractmethod
    def assignment(self, found: Any) -> Assignment:
        """Return the decisions that variable values describe; ValueError if they are infeasible."""

    @property
    def unit(self) -> CostUnit:
        """The conversion from minimised cost to maximised objective: minus one unit of value."""
        counts = self.data.instance.objective in COUNTING_OBJECTIVES
        return CostUnit(Fraction(-1) if counts else -Fraction(self.data.unit))

    @property
    def is_settled(self) -> bool:
        """Whether no job can start, so that the empty start solution is optimal."""
        return not self.data.can_start()

    def start(self, solution: Solution) -> list[int]:
        """Return the values of all variables for a valid placement."""
        found = self.encoded(encoded(self.data, solution))
        return [value for kind in found for value in kind.values()]

    def solution(self, values: Values) -> Solution | None:
        """Return the placement that rounded values of the variables describe.

        None if rounding violates a row of the model.
        """
        flat, largest = iter(values), self.largest
        kinds = ({key: round(next(flat)) for key in kind} for kind in largest)
        try:
            return placed(self.data, self.assignment(type(largest)(*kinds)))
        except ValueError:
            return None

    def dual_bound(self, cost: Fraction) -> Number:
        """Return the upper bound on the objective that a lower bound on the cost proves."""
        if self.data.instance.objective in COUNTING_OBJECTIVES:
            return math.floor(-cost)
        return float_up(cost * self.unit.scale)


def limits_of_size(
    columns: Callable[[Instance], int],
) -> Callable[[Instance, bool], Unsupported | None]:
    """Return a function that refuses instances whose models are too large, or inexact in floats."""

    def supports(instance: Instance, in_floats: bool) -> Unsupported | None:
        if (count := columns(instance)) > MOST_COLUMNS:
            return Unsupported(
                f"the model supports at most {MOST_COLUMNS} variables; this instance needs at "
                f"least {count}"
            )
        if in_floats and instance.free_gpus > MOST_GPUS_IN_FLOATS:
            return Unsupported(
                f"the model is exact in floating point only up to {MOST_GPUS_IN_FLOATS} free GPUs; "
                f"this instance has {instance.free_gpus}"
            )
        return None

    return supports
