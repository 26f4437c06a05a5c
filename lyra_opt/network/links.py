"""Tiers of a cluster's network, the links of each, and the sets of links that are known by name.

Source: the configurations of Dally's public simulator (aakash-sharma/cluster-sim and its fork of
ASTRA-sim), of which some are earlier values of the same files.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.core.rules import require_number, require_text
from lyra_opt.core.texts import meant

if TYPE_CHECKING:
    from collections.abc import Mapping


LARGEST_LATENCY_S = 1e3
"""Of what files say: far beyond any network, and near enough that no simulated time overflows."""


class Tier(IntEnum):
    """The slowest part of the network that a gang spans, the nearest first."""

    MACHINE = 0
    """All GPUs in one machine; a single GPU too."""
    RACK = 1
    """Several machines of one rack."""
    NETWORK = 2
    """Machines of several racks."""

    @property
    def label(self) -> str:
        """Its name in files and tables, such as ``rack``."""
        return self.name.lower()


TIER_OF_LABEL: Mapping[str, Tier] = {tier.label: tier for tier in Tier}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What connects the units of a tier.

    Parameters
    ----------
    bandwidth_gb_per_s
        In 10^9 bytes a second, above 0.
    latency_s
        Of one hop, at least 0.
    """

    bandwidth_gb_per_s: float
    latency_s: float

    def __post_init__(self) -> None:
        for name, above in (("bandwidth_gb_per_s", True), ("latency_s", False)):
            number = require_number(name, getattr(self, name), minimum=0, above=above)
            object.__setattr__(self, name, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSet:
    """The links of every tier.

    Parameters
    ----------
    name
        What it is called in results.
    machine, rack, network
        Between GPUs of a machine, machines of a rack, and racks.
    """

    name: str
    machine: Link
    rack: Link
    network: Link

    def __post_init__(self) -> None:
        require_text("name", self.name)

    def at(self, tier: Tier) -> Link:
        """Return the links of a tier."""
        return (self.machine, self.rack, self.network)[tier]

    def with_latency(self, latency_s: Mapping[str, float]) -> LinkSet:
        """Return them with other latencies, by the label of the tier; the name says which."""
        changed = {
            label: replace(self.at(TIER_OF_LABEL[label]), latency_s=value)
            for label, value in latency_s.items()
        }
        words = [f"{label} {link.latency_s:g} s" for label, link in changed.items()]
        return replace(self, name=", ".join([self.name, *words]), **changed)


NVSWITCH = Link(bandwidth_gb_per_s=600.0, latency_s=500e-9)
SHIPPED_RACK = Link(bandwidth_gb_per_s=200.0, latency_s=5e-6)
SHIPPED_NETWORK = Link(bandwidth_gb_per_s=400.0, latency_s=50e-6)
"""Wider than the rack, and slower to answer: as shipped, not a slip of ours."""

LINK_SETS: Mapping[str, LinkSet] = {
    links.name: links
    for links in (
        LinkSet(name="shipped", machine=NVSWITCH, rack=SHIPPED_RACK, network=SHIPPED_NETWORK),
        LinkSet(
            name="congested-1",
            machine=NVSWITCH,
            rack=Link(bandwidth_gb_per_s=100.0, latency_s=500e-9),
            network=SHIPPED_NETWORK,
        ),
        LinkSet(
            name="congested-2",
            machine=NVSWITCH,
            rack=Link(bandwidth_gb_per_s=50.0, latency_s=500e-9),
            network=SHIPPED_NETWORK,
        ),
        LinkSet(
            name="congested-3",
            machine=NVSWITCH,
            rack=Link(bandwidth_gb_per_s=25.0, latency_s=5e-3),
            network=Link(bandwidth_gb_per_s=10.0, latency_s=50e-3),
        ),
    )
}
"""By name. The congested ones are earlier values of the shipped files; what those did not say is
as shipped."""


_COSTS_NOTHING = Link(bandwidth_gb_per_s=1e12, latency_s=0.0)

FREE_LINKS = LinkSet(
    name="free", machine=_COSTS_NOTHING, rack=_COSTS_NOTHING, network=_COSTS_NOTHING
)
"""On which communication takes no time: no links of Dally's, but what locality is held against."""


def find_link_set(name: str) -> LinkSet:
    """Return the links called `name`; `UserError` that names the nearest if there are none."""
    known = {**LINK_SETS, FREE_LINKS.name: FREE_LINKS}
    if name not in known:
        raise UserError(f"links {name!r}: no such links; {meant(name, known)}")
    return known[name]
