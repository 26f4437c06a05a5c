"""The pattern model of gang placement, which counts the equal machines filled in the same way."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from lyra_opt.formulations.backends.backend import Values
from lyra_opt.formulations.backends.rows import Term
from lyra_opt.formulations.network.placing import (
    MOST_COLUMNS,
    Assignment,
    Encoded,
    PlacementModel,
    limits_of_size,
)
from lyra_opt.formulations.network.tiers.data import TIERS
from lyra_opt.network.heuristics.list_placement import best_placement, filled
from lyra_opt.network.instance import Instance, Objective, Solution
from lyra_opt.network.links import Tier

HARDLY = 1e-6
"""A share of a gang below this limit counts as 0."""


class MachineClass(NamedTuple):
    """The machines of one rack that have the same number of free GPUs.

    If machines count, idle machines are a separate class.
    """

    rack: int
    free: int
    is_whole: bool
    machines: tuple[int, ...]


class Pattern(NamedTuple):
    """A way to fill a machine with gangs.

    Parameters
    ----------
    gangs
        The number of gangs of each size.
    open_gpus
        The GPUs that gangs on several machines may use; they must use them if machines count.
    leaves_part
        Whether the machine ends partly free.
    """

    gangs: tuple[int, ...]
    open_gpus: int
    leaves_part: bool


class Kind(NamedTuple):
    """A class of interchangeable gangs that may run on several machines of one rack.

    Parameters
    ----------
    size
        The number of GPUs of each gang.
    loses
        Whether the gangs must span machines in racks where one machine could hold them.
    """

    size: int
    loses: bool


class Variables(NamedTuple):
    """The variables of the pattern model, in the backend's own type.

    The README one folder up defines the symbols.

    Parameters
    ----------
    machine, rack, network
        ``y_j0``, ``y_j1`` and ``y_j2``, by job: it runs on one machine, in one rack, or across
        racks.
    gangs
        ``z_rk``: the number of gangs of kind k in rack r.
    pattern
        ``l_cp``: the number of machines of class c with pattern p.
    share
        ``q_r``: GPUs of rack r that gangs across racks use.
    open
        ``d_ro``: some machine of rack r leaves o GPUs open.
    """

    machine: Mapping[int, Any]
    rack: Mapping[int, Any]
    network: Mapping[int, Any]
    gangs: Mapping[tuple[int, int], Any]
    pattern: Mapping[tuple[int, int], Any]
    share: Mapping[int, Any]
    open: Mapping[tuple[int, int], Any]

    def by_tier(self) -> dict[Tier, Mapping[int, Any]]:
        """Return the variables of the gangs that start at each tier."""
        return {Tier.MACHINE: self.machine, Tier.RACK: self.rack, Tier.NETWORK: self.network}


class PatternModel(PlacementModel):
    """The pattern model of an instance, which chooses how many machines use each pattern."""

    @cached_property
    def sizes(self) -> dict[int, int]:
        """The sizes of gangs that fit on one machine, with the number of gangs of each size."""
        counts = Counter(self.data.gang(j) for j in self.data.machine_jobs())
        return dict(sorted(counts.items()))

    @cached_property
    def kind_of(self) -> dict[int, Kind]:
        """The `Kind` of each job that can start on several machines of a rack, by job."""
        losing = {j for j, _ in self.data.must_span_machines}
        return {j: Kind(self.data.gang(j), j in losing) for j, _ in self.data.rack_pairs()}

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """The distinct kinds of gangs that can run on several machines of a rack, sorted."""
        return tuple(sorted(set(self.kind_of.values())))

    @cached_property
    def classes(self) -> tuple[MachineClass, ...]:
        """The classes of equal machines."""
        alike: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
        for r, rack in enumerate(self.data.racks):
            for m in rack:
                machine = self.data.instance.machines[m]
                is_whole = self.data.counts_machines and machine.free_gpus == machine.gpus
                alike[r, machine.free_gpus, is_whole].append(m)
        return tuple(MachineClass(*key, tuple(machines)) for key, machines in alike.items())

    @cached_property
    def patterns(self) -> tuple[tuple[Pattern, ...], ...]:
        """The possible ways to fill a machine (patterns), for each machine class."""
        shared = set(self.data.shared_racks())
        known: dict[tuple[int, bool, bool], tuple[Pattern, ...]] = {}
        for one in self.classes:
            kind = (one.free, one.is_whole, one.rack in shared)
            if kind not in known:
                known[kind] = tuple(self._patterns(*kind))
        return tuple(known[one.free, one.is_whole, one.rack in shared] for one in self.classes)

    def _patterns(self, free: int, is_whole: bool, is_shared: bool) -> Iterator[Pattern]:
        for gangs, packed in _fillings(tuple(self.sizes.items()), free):
            left = free - packed
            if not self.data.counts_machines:
                yield Pattern(gangs, left if is_shared else 0, leaves_part=False)
                continue
            for held in range(left + 1 if is_shared else 1):
                unused = left - held
                is_idle = is_whole and unused == free
                yield Pattern(gangs, held, leaves_part=unused > 0 and not is_idle)

    def open_keys(self) -> list[tuple[int, int]]:
        """Return the pairs (rack r, open GPUs o) for which the model has a variable ``d_ro``.

        Some pattern leaves o GPUs open in rack r, where some gang must span machines.
        """
        racks = self.data.racks_apart()
        return sorted(
            {
                (one.rack, pattern.open_gpus)
                for one, patterns in zip(self.classes, self.patterns, strict=True)
                if one.rack in racks
                for pattern in patterns
                if pattern.open_gpus
            }
        )

    def patterns_of(self, r: int) -> Iterator[tuple[tuple[int, int], Pattern]]:
        """Yield the key (c, p) and the pattern, for all machine classes c of rack r."""
        for c, one in enumerate(self.classes):
            if one.rack == r:
                for p, pattern in enumerate(self.patterns[c]):
                    yield (c, p), pattern

    def all_patterns(self) -> Iterator[tuple[tuple[int, int], Pattern]]:
        """Yield the key (c, p) and the pattern, for all machine classes c."""
        for c, patterns in enumerate(self.patterns):
            for p, pattern in enumerate(patterns):
                yield (c, p), pattern

    def cost(self, variables: Variables) -> list[Term]:
        """Return the cost that the model minimises, as pairs of coefficient and variable."""
        terms: list[Term] = [
            (1, variables.pattern[key]) for key, one in self.all_patterns() if one.leaves_part
        ]
        for tier, of_tier in variables.by_tier().items():
            terms += [(-self.data.worth[j][tier], x) for j, x in of_tier.items()]
        return terms

    @property
    def largest(self) -> Variables:
        """The upper bound of each variable of the model, by kind of variable and key."""
        data = self.data
        return Variables(
            machine=dict.fromkeys(data.machine_jobs(), 1),
            rack=dict.fromkeys(self.kind_of, 1),
            network=dict.fromkeys(data.network_jobs(), 1),
            gangs=dict(sorted(self._most_gangs().items())),
            pattern={(c, p): len(self.classes[c].machines) for (c, p), _ in self.all_patterns()},
            share={r: data.rack_free(r) for r in data.shares()},
            open=dict.fromkeys(self.open_keys(), 1),
        )

    def _most_gangs(self) -> Counter[tuple[int, int]]:
        """Return, per rack and kind, how many gangs could run in the rack if each were alone."""
        return Counter((r, self.kinds.index(self.kind_of[j])) for j, r in self.data.rack_pairs())

    def encoded(self, found: Encoded) -> Variables:
        """Return the values of all variables for a placement, by kind of variable and key."""
        keys, given = self.largest, found.assignment
        used: Counter[tuple[int, int]] = Counter()
        opened = set()
        for c, one in enumerate(self.classes):
            place = {
                (pattern.gangs, pattern.open_gpus): p for p, pattern in enumerate(self.patterns[c])
            }
            is_shared = any(pattern.open_gpus for pattern in self.patterns[c])
            for m in one.machines:
                sizes = [self.data.gang(j) for j in found.packed.get(m, ())]
                here = Counter(sizes)
                held = given.open_gpus.get(m, 0)
                if is_shared and not self.data.counts_machines:
                    held = one.free - sum(sizes)
                used[c, place[tuple(here[size] for size in self.sizes), held]] += 1
                opened.add((one.rack, held))
        gangs = Counter((r, self.kinds.index(self.kind_of[j])) for j, r in given.rack_of.items())
        return Variables(
            machine={j: int(j in given.machine_of) for j in keys.machine},
            rack={j: int(j in given.rack_of) for j in keys.rack},
            network={j: int(j in given.across) for j in keys.network},
            gangs={key: gangs[key] for key in keys.gangs},
            pattern={key: used[key] for key in keys.pattern},
            share={r: found.across_gpus.get(r, 0) for r in keys.share},
            open={key: int(key in opened) for key in keys.open},
        )

    def assignment(self, found: Variables) -> Assignment:
        """Return the decisions that variable values describe; ValueError if they are infeasible."""
        slots: dict[int, list[int]] = defaultdict(list)
        open_gpus: dict[int, int] = {}
        for c, one in enumerate(self.classes):
            machines = iter(one.machines)
            for p, pattern in enumerate(self.patterns[c]):
                for _ in range(found.pattern[c, p]):
                    m = next(machines, None)
                    if m is None:
                        raise ValueError(f"machine class {c} has more patterns than machines")
                    open_gpus[m] = pattern.open_gpus
                    for size, count in zip(self.sizes, pattern.gangs, strict=True):
                        slots[size] += [m] * count
        machine_of = {}
        for j, value in found.machine.items():
            if value:
                if not slots[self.data.gang(j)]:
                    raise ValueError(f"no pattern is left for a gang of {self.data.gang(j)} GPUs")
                machine_of[j] = slots[self.data.gang(j)].pop(0)
        room = {
            kind: [r for (r, other), n in found.gangs.items() if other == k for _ in range(n)]
            for k, kind in enumerate(self.kinds)
        }
        rack_of = {}
        for j, value in found.rack.items():
            if value:
                if not room[self.kind_of[j]]:
                    raise ValueError(f"no rack is left for a gang of {self.data.gang(j)} GPUs")
                rack_of[j] = room[self.kind_of[j]].pop(0)
        return Assignment(
            machine_of, rack_of, [j for j, value in found.network.items() if value], open_gpus
        )


class RelaxedPatterns(PatternModel):
    """The linear relaxation of the pattern model: a bound, and placements by rounding."""

    def solution(self, values: Values) -> Solution | None:
        """Return the better of two greedy placements guided by the relaxation, without a guarantee.

        The first places gangs by the share of them that the relaxation places. The second places
        gangs by value per GPU, those that the relaxation leaves out last. Each gang prefers the
        tiers to which the relaxation gives the largest shares.
        """
        data = self.data
        flat = iter(values)
        kinds: Any = ({key: next(flat) for key in kind} for kind in self.largest)
        share: dict[int, dict[Tier, float]] = {j: {} for j in data.jobs}
        for tier, of_tier in Variables(*kinds).by_tier().items():
            for j, value in of_tier.items():
                share[j][tier] = value
        tiers = {
            j: sorted(of_job, key=lambda tier: (of_job[tier], data.worth[j][tier]), reverse=True)
            for j, of_job in share.items()
        }
        placed = {j: sum(of_job.values()) for j, of_job in share.items()}
        dense = {j: max(data.worth[j]) / data.gang(j) for j in data.jobs}
        orders = (
            sorted(data.jobs, key=lambda j: (-placed[j], -dense[j])),
            sorted(data.jobs, key=lambda j: (placed[j] < HARDLY, -dense[j])),
        )
        tried = [filled(data.instance, [(j, tiers[j]) for j in order]) for order in orders]
        return best_placement(data.instance, tried)[0]


def _fillings(sizes: Sequence[tuple[int, int]], free: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the numbers of gangs of each size that fit into `free` GPUs, and the GPUs they use."""
    if not sizes:
        yield (), 0
        return
    (size, most), *rest = sizes
    for count in range(min(most, free // size) + 1):
        for gangs, packed in _fillings(rest, free - count * size):
            yield (count, *gangs), packed + count * size


def pattern_columns(instance: Instance) -> int:
    """Return an upper estimate of the pattern model's number of variables, without building it.

    Counting stops above `MOST_COLUMNS`. Complexity O(`MOST_COLUMNS` * sizes + jobs).
    """
    sizes = Counter(job.gang for job in instance.jobs if Tier.MACHINE in instance.tiers_of(job))
    largest = max(machine.free_gpus for machine in instance.machines)
    ways = {0: 1}  # number of ways to fill the largest machine, by GPUs used
    for size, most in sizes.items():
        options = {packed: min(most, (largest - packed) // size) + 1 for packed in ways}
        columns = sum(count * options[packed] for packed, count in ways.items())
        if columns > MOST_COLUMNS:
            return columns
        longer: Counter[int] = Counter()
        for packed, count in ways.items():
            for gangs in range(options[packed]):
                longer[packed + gangs * size] += count
        ways = longer
    counts_machines = instance.objective is Objective.LEAST_FRAGMENTATION
    columns = len(instance.jobs) * len(Tier) + len(instance.racks) * (len(sizes) + 1)
    for _, free, _ in {
        (machine.rack, machine.free_gpus, counts_machines and machine.free_gpus == machine.gpus)
        for machine in instance.machines
    }:
        for packed, count in ways.items():
            if packed <= free:
                columns += count * (free - packed + 1 if counts_machines else 1)
    return columns


PATTERNS = replace(
    TIERS,
    supports=limits_of_size(pattern_columns),
    data=lambda instance, _, in_floats: PatternModel.of(instance, in_floats=in_floats),
    summary="Pattern model of gangs",
    suffix="-patterns",
)
RELAXED_PATTERNS = replace(
    PATTERNS,
    # The limit on the number of GPUs exists because of rounding in floats. This bound uses
    # exact arithmetic, so it needs no limit.
    supports=lambda instance, _: PATTERNS.supports(instance, False),
    data=lambda instance, _, in_floats: RelaxedPatterns.of(instance, in_floats=in_floats),
    summary="Linear relaxation of the pattern model, a bound with a rounded placement",
    suffix="",
    is_exact=False,
)
