"""The racks, machines and links of a cluster, and the topology files that describe them."""

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


TOPOLOGY_FORMAT = "lyra-opt/topology"
VERSION = 1
LARGEST_FILE_BYTES = 2**20
DEFAULT_LINKS = "shipped"
LINK_BOUNDS = {"bandwidth_gb_per_s": (1e-6, 1e6), "latency_s": (0.0, LARGEST_LATENCY_S)}
"""Allowed values of a file's links: wider than any real network, but no simulated time
overflows.
"""


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
    ) -> Topology:
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
    try:
        topology, links = parse_topology(document)
    except FieldError as error:
        raise InputError(source, str(error)) from None
    return topology, network or links


def parse_topology(document: dict[str, Any]) -> tuple[Topology, LinkSet]:
    """Return the topology and the links of a parsed file, or raise `FieldError`."""
    uniform = ("racks", "machines_per_rack", "gpus_per_machine")
    record = Record(
        document, "", ("format", "version", "name", *uniform, "rack", "network", "links")
    )
    require_format(document, TOPOLOGY_FORMAT, VERSION)
    name = require_text("name", record.required("name"))
    if "rack" in record:
        for key in uniform:
            if key in record:
                raise FieldError(key, document[key], "cannot be combined with [[rack]] tables")
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
                given = table.required("count")
                count = require_integer("count", given, minimum=1, maximum=MOST_GPUS)
            machines, gpus = table.required("machines"), table.required("gpus_per_machine")
            rack = Rack(machines=machines, gpus_per_machine=gpus)
        except FieldError as error:
            raise error if error.field.startswith(path) else error.inside(path) from None
        for _ in range(count):
            yield rack


def _links(record: Record) -> LinkSet:
    """Return the network links of a topology file: a named set with the file's changes."""
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
