"""The racks, machines and links of a cluster, and the topology files that describe them."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from lyra_opt.core.documents import parse_toml, read_text, require_format
from lyra_opt.core.errors import FieldError, MissingFieldError, in_file
from lyra_opt.core.fields import Table, declared, key, parsed, written
from lyra_opt.core.rules import Integer, ListOf, Named, Number, Text, require_integer, require_text
from lyra_opt.network.instance import MOST_GPUS
from lyra_opt.network.links import LARGEST_LATENCY_S, LINK_SETS, TIER_OF_LABEL, Link, LinkSet, Tier

TOPOLOGY_FORMAT = "lyra-opt/topology"
VERSION = 1
LARGEST_FILE_BYTES = 2**20
DEFAULT_LINKS = "shipped"
UNIFORM = ("racks", "machines_per_rack", "gpus_per_machine")
"""Keys of a file with equal racks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """A rack of machines with the same number of GPUs.

    Parameters
    ----------
    machines, gpus_per_machine
        At least 1.
    """

    machines: int
    gpus_per_machine: int

    def __post_init__(self) -> None:
        require_integer("machines", self.machines, minimum=1)
        require_integer("gpus_per_machine", self.gpus_per_machine, minimum=1)

    @property
    def gpus(self) -> int:
        """Return the number of GPUs in the rack."""
        return self.machines * self.gpus_per_machine


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A cluster as a tree of racks, machines and GPUs.

    Machines are numbered from 0, rack by rack.

    Parameters
    ----------
    name
        The name of the cluster in results.
    racks
        At least one; at most 1,000,000 GPUs in all.
    """

    name: str
    racks: tuple[Rack, ...]

    def __post_init__(self) -> None:
        require_text("name", self.name)
        if not self.racks:
            raise FieldError("racks", [], "must have at least one entry")
        gpus = 0
        for position, rack in enumerate(self.racks):
            gpus += rack.gpus
            if gpus > MOST_GPUS:
                rule = f"the racks up to this rack must have at most {MOST_GPUS} GPUs in all"
                raise FieldError(f"racks[{position}].machines", rack.machines, rule)

    @classmethod
    def uniform(
        cls, *, racks: int, machines_per_rack: int, gpus_per_machine: int = 8, name: str = ""
    ) -> "Topology":
        """Return a cluster of equal racks; its default name has the sizes, such as ``4x8x8``."""
        require_integer("racks", racks, minimum=1, maximum=MOST_GPUS)
        rack = Rack(machines=machines_per_rack, gpus_per_machine=gpus_per_machine)
        name = name or f"{racks}x{machines_per_rack}x{gpus_per_machine}"
        return cls(name=name, racks=(rack,) * racks)

    @cached_property
    def gpus_of_machine(self) -> np.ndarray:
        """Return the GPUs of each machine: int64, shape (machines,)."""
        sizes = [rack.gpus_per_machine for rack in self.racks]
        return np.repeat(np.array(sizes, np.int64), [rack.machines for rack in self.racks])

    @cached_property
    def rack_of_machine(self) -> np.ndarray:
        """Return the rack number of each machine: int64, shape (machines,)."""
        return np.repeat(
            np.arange(len(self.racks), dtype=np.int64), [rack.machines for rack in self.racks]
        )

    @cached_property
    def first_machine_of_rack(self) -> np.ndarray:
        """Return the first machine of each rack, then the number of machines; shape (racks+1,)."""
        return np.concatenate(([0], np.cumsum([rack.machines for rack in self.racks])))

    @property
    def machines(self) -> int:
        """Return the number of machines in the cluster."""
        return len(self.gpus_of_machine)

    @cached_property
    def gpus(self) -> int:
        """Return the number of GPUs in the cluster."""
        return int(self.gpus_of_machine.sum())

    @cached_property
    def largest_machine_gpus(self) -> int:
        """Return the GPUs of the largest machine; Dally's g_m."""
        return max(rack.gpus_per_machine for rack in self.racks)

    @cached_property
    def largest_rack_gpus(self) -> int:
        """Return the GPUs of the largest rack; Dally's g_r."""
        return self.gpus_of_largest_racks[0]

    @cached_property
    def racks_of_several(self) -> tuple[Rack, ...]:
        """Return the distinct racks with at least two machines, which a gang can span."""
        return tuple(dict.fromkeys(rack for rack in self.racks if rack.machines > 1))

    @cached_property
    def gpus_of_largest_racks(self) -> list[int]:
        """Return the number of GPUs of the largest rack, of the two largest racks, and so on."""
        return list(accumulate(sorted((rack.gpus for rack in self.racks), reverse=True)))

    def can_span(self, tier: Tier, gang: int) -> bool:
        """Return whether a gang fits the empty cluster such that it spans exactly a given tier.

        At the tier of a machine the gang is on one machine, at the tier of a rack on several
        machines of one rack, and at the tier of the network on several racks. A gang of one GPU
        fits only a machine. O(distinct racks).
        """
        if tier is Tier.MACHINE:
            return gang <= self.largest_machine_gpus
        if tier is Tier.RACK:
            return 1 < gang <= max((rack.gpus for rack in self.racks_of_several), default=0)
        return 1 < gang <= self.gpus and len(self.racks) > 1

    def fewest_units(self, tier: Tier, gang: int) -> int:
        """Return the fewest GPUs, machines or racks that a gang can span at a network tier.

        `can_span` must be true for the gang and the tier.

        A unit is a GPU at the tier of a machine, a machine at the tier of a rack, and a rack at the
        tier of the network. A gang spans at least two machines or two racks. O(distinct racks + log
        racks).
        """
        if tier is Tier.MACHINE:
            return gang
        if tier is Tier.RACK:
            machines = (
                -(-gang // rack.gpus_per_machine)
                for rack in self.racks_of_several
                if gang <= rack.gpus
            )
            return max(2, min(machines))
        return max(2, bisect_left(self.gpus_of_largest_racks, gang) + 1)

    def machine_names(self) -> list[str]:
        """Return the names of the machines in order: ``r0m0``, ``r0m1``, ..."""
        return [
            f"r{number}m{machine}"
            for number, rack in enumerate(self.racks)
            for machine in range(rack.machines)
        ]


@declared()
class _LinkTable:
    """A link of a file: wider than any real network, but no simulated time overflows."""

    bandwidth_gb_per_s: float = key(Number(1e-6, 1e6), "bandwidth in 10^9 bytes per second")
    latency_s: float = key(Number(0.0, LARGEST_LATENCY_S), "latency of one hop")


@declared()
class _RackTable:
    """Equal racks of a file with unlike racks."""

    machines: int = key(Integer(1), "machines of each rack")
    gpus_per_machine: int = key(Integer(1), "GPUs of each machine")
    count: int = key(Integer(1, MOST_GPUS), "number of such racks", 1)


@declared()
class _TopologyFile:
    """A topology file: equal racks or tables of unlike ones, and changes of a set of links."""

    name: str = key(Text(), "name of the cluster in results")
    racks: int | None = key(Integer(1, MOST_GPUS), "equal racks", None)
    machines_per_rack: int | None = key(Integer(1), "machines of each rack", None)
    gpus_per_machine: int | None = key(Integer(1), "GPUs of each machine", None)
    rack: tuple[_RackTable, ...] = key(ListOf(Table(_RackTable)), "unlike racks", ())
    network: str = key(Text(tuple(LINK_SETS)), "the set of links", DEFAULT_LINKS)
    links: Mapping[str, _LinkTable] = key(
        Named(Table(_LinkTable), names=tuple(TIER_OF_LABEL)), "links that differ, by tier", {}
    )

    def topology(self) -> Topology:
        """Return the racks."""
        sizes: dict[str, Any] = {name: getattr(self, name) for name in UNIFORM}
        for name, size in sizes.items():
            if self.rack and size is not None:
                raise FieldError(name, size, "cannot be combined with [[rack]] tables")
            if not self.rack and size is None:
                raise MissingFieldError(name)
        if not self.rack:
            return Topology.uniform(name=self.name, **sizes)
        racks = [
            Rack(machines=each.machines, gpus_per_machine=each.gpus_per_machine)
            for each in self.rack
            for _ in range(each.count)
        ]
        return Topology(name=self.name, racks=tuple(racks))

    def link_set(self) -> LinkSet:
        """Return the named set of links with the file's changes."""
        links = LINK_SETS[self.network]
        own = {tier: Link(**written(link)) for tier, link in self.links.items()}
        return replace(links, **own, name=f"{self.network}, changed") if own else links


def read_topology(path: str | Path, *, network: LinkSet | None = None) -> tuple[Topology, LinkSet]:
    """Read a cluster's racks and links from a TOML file; see ``formulations/network/README.md``.

    Parameters
    ----------
    path
        The file.
    network
        Links that replace those of the file.

    Raises
    ------
    InputError
        If the file cannot be read or breaks a rule; the message names the file, the field and the
        rule.
    """
    source = str(path)
    document = parse_toml(read_text(path, LARGEST_FILE_BYTES), source, "a topology")
    with in_file(source):
        require_format(document, TOPOLOGY_FORMAT, VERSION)
        file = parsed(_TopologyFile, document, beside=("format", "version"))
        return file.topology(), network or file.link_set()
