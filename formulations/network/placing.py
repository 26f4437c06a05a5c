"""What the models share: from gangs with a machine, a rack or the network to GPUs, and back.

The models say only which gangs are on which machine, in which rack and across racks, and how many
GPUs the last two kinds may take of each machine. That this can always be made a placement is proved
in the README beside this file, section 3; here it is done:
the constructive half of the proofs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyra_opt.core.arithmetic import float_up
from lyra_opt.formulations.backends.backend import CostUnit
from lyra_opt.formulations.network.gang_data import gang_data
from lyra_opt.network.instance import COUNTING_OBJECTIVES, GangPlacement, Solution

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, MutableMapping, Sequence
    from typing import Self

    from lyra_opt.core.result import Number
    from lyra_opt.formulations.backends.backend import Values
    from lyra_opt.formulations.network.gang_data import GangData
    from lyra_opt.network.instance import Instance

    Terms = list[tuple[int, Any]]
    """(Coefficient, variable) in a backend's own type."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a model decides.

    Parameters
    ----------
    machine_of
        The machine of each job that is on one.
    rack_of
        The rack of each job that is on several machines of one.
    across
        Jobs across racks.
    open_gpus
        GPUs that the last two kinds may take, by machine.
    """

    machine_of: Mapping[int, int] = field(default_factory=dict)
    rack_of: Mapping[int, int] = field(default_factory=dict)
    across: Sequence[int] = ()
    open_gpus: Mapping[int, int] = field(default_factory=dict)


def placed(data: GangData, assignment: Assignment) -> Solution:
    """Return the placement; tiers are those that the machines span.

    Raises
    ------
    ValueError
        If there is none: the assignment is no solution of the model.
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
    """Take what each job wants from piles, of two at least for jobs that must be apart.

    First one from each of the two largest piles for those jobs, which leaves pairs for the others
    as long as there can be any; then the rest from the largest piles.
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
            raise ValueError(f"{count} GPUs for a gang, but {rest} of them are not there")
    return {j: dict(of_job) for j, of_job in taken.items()}


def _placement(data: GangData, j: int, held: Mapping[int, int]) -> GangPlacement:
    machines = data.instance.machines
    gpus = {machines[m].id: held[m] for m in sorted(held)}
    tier = data.instance.tier_of(gpus)
    return GangPlacement(job=data.instance.jobs[j].id, tier=tier.label, gpus=gpus)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A placement as the models see it.

    Parameters
    ----------
    assignment
        What is where; `Assignment.open_gpus` holds the GPUs that gangs beyond a machine hold.
    across_gpus
        GPUs of gangs across racks, by rack.
    packed
        Jobs on each machine alone.
    """

    assignment: Assignment
    across_gpus: Mapping[int, int]
    packed: Mapping[int, Sequence[int]]


def encoded(data: GangData, solution: Solution) -> Encoded:
    """Return a valid placement as the models see it, without gangs that are worth nothing."""
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
    """A model of which gangs are where; as `formulations.exact_model.ModelData` says."""

    data: GangData

    @classmethod
    def of(cls, instance: Instance, *, in_floats: bool = False) -> Self:
        """Return the model of an instance, for a backend in floats or not."""
        return cls(gang_data(instance, in_floats=in_floats))

    @property
    @abstractmethod
    def largest(self) -> Any:
        """The largest value of each variable by its key, kind by kind."""

    @abstractmethod
    def encoded(self, found: Encoded) -> Any:
        """Return the values of all variables by their keys, kind by kind."""

    @abstractmethod
    def assignment(self, found: Any) -> Assignment:
        """Return what values by key decide; ValueError if they are no solution of the model."""

    def network_load(self, variables: Any) -> Terms:
        """Return the GPUs of gangs across racks."""
        return [(self.data.gang(j), x) for j, x in variables.network.items()]

    @property
    def unit(self) -> CostUnit:
        """Objectives are maximised."""
        counts = self.data.instance.objective in COUNTING_OBJECTIVES
        return CostUnit(Fraction(-1) if counts else -Fraction(self.data.unit))

    @property
    def is_settled(self) -> bool:
        """Whether no job can start anywhere."""
        return not self.data.can_start()

    def start(self, solution: Solution) -> list[int]:
        """Return the values of all variables for a valid placement."""
        found = self.encoded(encoded(self.data, solution))
        return [value for kind in found for value in kind.values()]

    def solution(self, values: Values) -> Solution | None:
        """Return the placement that values of all variables stand for once they are rounded.

        None if they are no solution of the model: a backend's rounding may break a row.
        """
        flat, largest = iter(values), self.largest
        kinds = ({key: round(next(flat)) for key in kind} for kind in largest)
        try:
            return placed(self.data, self.assignment(type(largest)(*kinds)))
        except ValueError:
            return None

    def dual_bound(self, cost: Fraction) -> Number:
        """Return the upper bound on the objective that a lower one on the model's cost is."""
        if self.data.instance.objective in COUNTING_OBJECTIVES:
            return math.floor(-cost)
        return float_up(cost * self.unit.scale)
