"""The tier model: which gangs run on which machine, in which rack, or across racks."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lyra_opt.formulations.backends.rows import Term
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.network.placing import (
    Assignment,
    Encoded,
    PlacementModel,
    limits_of_size,
    simple_bound,
)
from lyra_opt.network.heuristics.list_placement import ListPlacement
from lyra_opt.network.instance import Instance, Objective
from lyra_opt.network.links import Tier
from lyra_opt.network.problem import PROBLEM


class Variables(NamedTuple):
    """The variables of the tier model, in the backend's own type.

    The README one folder up defines the symbols.

    Parameters
    ----------
    machine, rack, network
        ``y_jm``, ``y_jr`` and ``y_j2``: job j runs on machine m, in rack r, or across racks.
    wide
        ``x_m``: GPUs of machine m that gangs on several machines use.
    share
        ``q_r``: GPUs of rack r that gangs across racks use.
    full, idle, part
        ``f_m``, ``e_m`` and ``h_m``: machine m ends full, idle or partly free; only if machines
        count.
    """

    machine: Mapping[tuple[int, int], Any]
    rack: Mapping[tuple[int, int], Any]
    network: Mapping[int, Any]
    wide: Mapping[int, Any]
    share: Mapping[int, Any]
    full: Mapping[int, Any]
    idle: Mapping[int, Any]
    part: Mapping[int, Any]


class TierModel(PlacementModel):
    """The tier model of an instance, which decides the machine, rack or racks of each gang."""

    def wide_machines(self) -> list[int]:
        """Return the machines whose GPUs gangs on several machines may use."""
        return [m for r in self.data.shared_racks() for m in self.data.racks[r]]

    def counted(self) -> list[int]:
        """Return the machines that the objective charges for if they end partly free."""
        if not self.data.counts_machines:
            return []
        return [m for rack in self.data.racks for m in rack]

    def can_be_idle(self, m: int) -> bool:
        """Return whether all GPUs of machine m are free."""
        machine = self.data.instance.machines[m]
        return machine.free_gpus == machine.gpus

    def loads(self, variables: Variables) -> Iterator[tuple[int, list[Term]]]:
        """Yield each usable machine, with the GPUs used on it as (coefficient, variable) pairs."""
        held: dict[int, list[Term]] = {m: [] for rack in self.data.racks for m in rack}
        for (j, m), x in variables.machine.items():
            held[m].append((self.data.gang(j), x))
        for m, x in variables.wide.items():
            held[m].append((1, x))
        for m, load in held.items():
            if load or self.data.counts_machines:
                yield m, load

    def cost(self, variables: Variables) -> list[Term]:
        """Return the cost that the model minimises, as pairs of coefficient and variable."""
        worth = self.data.worth
        return [
            *((1, x) for x in variables.part.values()),
            *((-worth[j][Tier.MACHINE], x) for (j, _), x in variables.machine.items()),
            *((-worth[j][Tier.RACK], x) for (j, _), x in variables.rack.items()),
            *((-worth[j][Tier.NETWORK], x) for j, x in variables.network.items()),
        ]

    @property
    def largest(self) -> Variables:
        """The upper bound of each variable of the model, by kind of variable and key."""
        data = self.data
        counted = self.counted()
        return Variables(
            machine=dict.fromkeys(data.machine_pairs(), 1),
            rack=dict.fromkeys(data.rack_pairs(), 1),
            network=dict.fromkeys(data.network_jobs(), 1),
            wide={m: data.free(m) for m in self.wide_machines()},
            share={r: data.rack_free(r) for r in data.shares()},
            full=dict.fromkeys(counted, 1),
            idle=dict.fromkeys([m for m in counted if self.can_be_idle(m)], 1),
            part=dict.fromkeys(counted, 1),
        )

    def encoded(self, found: Encoded) -> Variables:
        """Return the values of all variables for a placement, by kind of variable and key."""
        keys, given = self.largest, found.assignment
        load = {
            m: given.open_gpus.get(m, 0) + sum(self.data.gang(j) for j in found.packed.get(m, ()))
            for m in self.counted()
        }
        full = {m: int(load[m] == self.data.free(m)) for m in keys.full}
        idle = {m: int(load[m] == 0) for m in keys.idle}
        return Variables(
            machine={(j, m): int(given.machine_of.get(j) == m) for j, m in keys.machine},
            rack={(j, r): int(given.rack_of.get(j) == r) for j, r in keys.rack},
            network={j: int(j in given.across) for j in keys.network},
            wide={m: given.open_gpus.get(m, 0) for m in keys.wide},
            share={r: found.across_gpus.get(r, 0) for r in keys.share},
            full=full,
            idle=idle,
            part={m: 1 - full[m] - idle.get(m, 0) for m in keys.part},
        )

    def assignment(self, found: Variables) -> Assignment:
        """Return the placement decisions that values of the variables describe."""
        data = self.data
        machine_of = {j: m for (j, m), value in found.machine.items() if value}
        open_gpus = dict(found.wide)
        if not data.counts_machines:
            open_gpus = {m: data.free(m) for m in found.wide}
            for j, m in machine_of.items():
                if m in open_gpus:
                    open_gpus[m] -= data.gang(j)
        return Assignment(
            machine_of,
            {j: r for (j, r), value in found.rack.items() if value},
            [j for j, value in found.network.items() if value],
            open_gpus,
        )


def tier_columns(instance: Instance) -> int:
    """Return the approximate number of variables of the tier model."""
    return len(instance.jobs) * (len(instance.machines) + len(instance.racks) + 1)


TIERS = Formulation(
    problem=PROBLEM,
    variants=tuple(Objective),
    supports=limits_of_size(tier_columns),
    data=lambda instance, _, in_floats: TierModel.of(instance, in_floats=in_floats),
    begin=best_of(ListPlacement()),
    simple_bound=simple_bound,
    summary="Tier model of gangs",
)
