"""Racks of machines of GPUs: what a gang spans, and the files that say so."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.documents import Record, parse_toml, read_text, require_format
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.rules import require_choice, require_integer, require_text
from lyra_opt.network.instance import MOST_GPUS
from lyra_opt.network.links import LARGEST_LATENCY_S, LINK_SETS, Link, LinkSet, Tier

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import networkx

TOPOLOGY_FORMAT = "lyra-opt/topology"
VERSION = 1
LARGEST_FILE_BYTES = 2**20
DEFAULT_LINKS = "shipped"
LINK_BOUNDS = {"bandwidth_gb_per_s": (1e-6, 1e6), "latency_s": (0.0, LARGEST_LATENCY_S)}
"""Of a file's links: far beyond any network, and near enough that no simulated time overflows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rack:
    """Machines of equal size.

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
        """All of them."""
        return self.machines * self.gpus_per_machine


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A cluster as a tree: racks, machines, GPUs.

    Machines are numbered rack by rack, from 0.

    Parameters
    ----------
    name
        What it is called in results.
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
                rule = f"all racks up to this one must have at most {MOST_GPUS} GPUs"
                raise FieldError(f"racks[{position}].machines", rack.machines, rule)

    @classmethod
    def uniform(
        cls, *, racks: int, machines_per_rack: int, gpus_per_machine: int = 8, name: str = ""
    ) -> Topology:
        """Return a cluster of equal racks, named like ``4x8x8`` unless it is given a name."""
        require_integer("racks", racks, minimum=1)
        if racks > MOST_GPUS:
            raise FieldError("racks", racks, f"must be at most {MOST_GPUS}")
        rack = Rack(machines=machines_per_rack, gpus_per_machine=gpus_per_machine)
        name = name or f"{racks}x{machines_per_rack}x{gpus_per_machine}"
        return cls(name=name, racks=(rack,) * racks)

    @cached_property
    def gpus_of_machine(self) -> np.ndarray:
        """GPUs of each machine, int64, shape (machines,)."""
        sizes = [rack.gpus_per_machine for rack in self.racks]
        return np.repeat(np.array(sizes, np.int64), [rack.machines for rack in self.racks])

    @cached_property
    def rack_of_machine(self) -> np.ndarray:
        """Rack of each machine, int64, shape (machines,)."""
        return np.repeat(
            np.arange(len(self.racks), dtype=np.int64), [rack.machines for rack in self.racks]
        )

    @cached_property
    def first_machine_of_rack(self) -> np.ndarray:
        """First machine of each rack, and how many machines there are; shape (racks + 1,)."""
        return np.concatenate(([0], np.cumsum([rack.machines for rack in self.racks])))

    def to_networkx(self) -> networkx.Graph:
        """Return the tree of network, racks and machines.

        Nodes are ``("network",)``, ``("rack", number)`` and ``("machine", number)`` with ``gpus``,
        numbered from 0. Edges have ``tier``, that of gangs that go across them: ``rack`` between
        machine and rack, ``network`` above. Complexity O(machines).
        """
        import networkx

        graph = networkx.Graph(name=self.name)
        for machine, gpus in enumerate(self.gpus_of_machine.tolist()):
            rack = ("rack", int(self.rack_of_machine[machine]))
            graph.add_node(("machine", machine), gpus=gpus)
            graph.add_edge(("network",), rack, tier=Tier.NETWORK.label)
            graph.add_edge(rack, ("machine", machine), tier=Tier.RACK.label)
        return graph

    @property
    def machines(self) -> int:
        """All of them."""
        return len(self.gpus_of_machine)

    @cached_property
    def gpus(self) -> int:
        """All of them."""
        return int(self.gpus_of_machine.sum())

    @cached_property
    def largest_machine_gpus(self) -> int:
        """GPUs of the largest machine; Dally's g_m."""
        return max(rack.gpus_per_machine for rack in self.racks)

    @cached_property
    def largest_rack_gpus(self) -> int:
        """GPUs of the largest rack; Dally's g_r."""
        return self.gpus_of_largest_racks[0]

    def tier_of(self, machines: Iterable[int]) -> Tier:
        """Return what a gang on these machines, at least one, spans."""
        places = set(machines)
        if len(places) == 1:
            return Tier.MACHINE
        racks = {int(self.rack_of_machine[machine]) for machine in places}
        return Tier.RACK if len(racks) == 1 else Tier.NETWORK

    @cached_property
    def racks_of_several(self) -> tuple[Rack, ...]:
        """Racks with at least two machines, one of each kind: those that a gang can span."""
        return tuple(dict.fromkeys(rack for rack in self.racks if rack.machines > 1))

    @cached_property
    def gpus_of_largest_racks(self) -> list[int]:
        """GPUs of the largest rack, of the two largest, and so on."""
        return list(accumulate(sorted((rack.gpus for rack in self.racks), reverse=True)))

    def can_span(self, tier: Tier, gang: int) -> bool:
        """Return whether the empty cluster has room for a gang of at least 1 across a tier.

        In a machine, in several machines of a rack, or in several racks; a single GPU spans
        nothing. O(kinds of racks).
        """
        if tier is Tier.MACHINE:
            return gang <= self.largest_machine_gpus
        if tier is Tier.RACK:
            return 1 < gang <= max((rack.gpus for rack in self.racks_of_several), default=0)
        return 1 < gang <= self.gpus and len(self.racks) > 1

    def fewest_units(self, tier: Tier, gang: int) -> int:
        """Return the fewest units that a gang can span at a tier that it `can_span`.

        GPUs; machines of the best rack, two at least; or as many of the largest racks as hold the
        gang, two at least. O(kinds of racks + log racks).
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
        """Return ``r0m0``, ``r0m1``, ... in the order of the machines."""
        return [
            f"r{number}m{machine}"
            for number, rack in enumerate(self.racks)
            for machine in range(rack.machines)
        ]


def read_topology(path: str | Path, *, network: LinkSet | None = None) -> tuple[Topology, LinkSet]:
    """Read a cluster and its links from a TOML file; see ``formulations/network/README.md``.

    Parameters
    ----------
    path
        The file.
    network
        Links that take the place of the file's.

    Raises
    ------
    InputError
        If the file cannot be read or breaks a rule; names file, field and rule.
    """
    source = str(path)
    document = parse_toml(read_text(path, LARGEST_FILE_BYTES), source, "a topology")
    try:
        topology, links = parse_topology(document)
    except FieldError as error:
        raise InputError(source, str(error)) from None
    return topology, network or links


def parse_topology(document: dict[str, Any]) -> tuple[Topology, LinkSet]:
    """Return the cluster and the links of a document; `FieldError` where a rule is broken."""
    uniform = ("racks", "machines_per_rack", "gpus_per_machine")
    record = Record(
        document, "", ("format", "version", "name", *uniform, "rack", "network", "links")
    )
    require_format(document, TOPOLOGY_FORMAT, VERSION)
    name = require_text("name", record.required("name"))
    if "rack" in record:
        for key in uniform:
            if key in record:
                raise FieldError(key, document[key], "must not stand beside [[rack]] tables")
        racks = tuple(_racks(record))
        if not racks:
            raise FieldError("rack", [], "must have at least one entry")
        topology = Topology(name=name, racks=racks)
    else:
        given = {key: record.required(key) for key in uniform}
        topology = Topology.uniform(name=name, **given)
    return topology, _links(record)


def _racks(record: Record) -> Iterable[Rack]:
    for path, value in record.items_of("rack"):
        table = Record(value, path, ("count", "machines", "gpus_per_machine"))
        count = 1
        try:
            if "count" in table:
                count = require_integer("count", table.required("count"), minimum=1)
            machines, gpus = table.required("machines"), table.required("gpus_per_machine")
            rack = Rack(machines=machines, gpus_per_machine=gpus)
            if count > MOST_GPUS:
                raise FieldError("count", count, f"must be at most {MOST_GPUS}")
        except FieldError as error:
            raise error if error.field.startswith(path) else error.inside(path) from None
        for _ in range(count):
            yield rack


def _links(record: Record) -> LinkSet:
    """Return the named set of links, with what the file says of its own in place of it."""
    name = DEFAULT_LINKS
    if "network" in record:
        name = require_choice("network", record.required("network"), LINK_SETS)
    links = LINK_SETS[name]
    if "links" not in record:
        return links
    tiers = Record(record.required("links"), "links", [tier.label for tier in Tier])
    own: dict[str, Link] = {}
    for tier in Tier:
        if tier.label not in tiers:
            continue
        path = f"links.{tier.label}"
        table = Record(tiers.required(tier.label), path, LINK_BOUNDS)
        given = {key: table.required(key) for key in LINK_BOUNDS}
        try:
            link = Link(**given)
            for key, (least, most) in LINK_BOUNDS.items():
                if not least <= getattr(link, key) <= most:
                    raise FieldError(key, given[key], f"must be from {least:g} to {most:g}")
        except FieldError as error:
            raise error.inside(path) from None
        own[tier.label] = link
    return replace(links, **own, name=f"{name}, changed") if own else links
