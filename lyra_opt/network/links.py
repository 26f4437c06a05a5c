"""Network tiers of a cluster, the links of each tier, and named sets of links.

Source: the configuration files of Dally's public simulator (aakash-sharma/cluster-sim and its fork
of ASTRA-sim); some values are from earlier versions of these files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.rules import require_number, require_text

LARGEST_LATENCY_S = 1e3
"""Largest latency in a file: far above any network, yet no simulated time overflows."""


class Tier(IntEnum):
    """The network tier that a gang spans, which is one machine, one rack or several racks.

    It is the slowest part of the network that the gang uses. The nearest tier comes first.
    """

    MACHINE = 0
    """All GPUs are in one machine, which includes a single GPU."""
    RACK = 1
    """GPUs are on several machines of one rack."""
    NETWORK = 2
    """GPUs are on machines of several racks."""

    @property
    def label(self) -> str:
        """The name of the tier in files and tables, such as ``rack``."""
        return self.name.lower()


TIER_OF_LABEL: Mapping[str, Tier] = {tier.label: tier for tier in Tier}


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The bandwidth and latency of one kind of network link.

    Parameters
    ----------
    bandwidth_gb_per_s
        Bandwidth in 10^9 bytes per second, above 0.
    latency_s
        Latency of one hop, at least 0.
    """

    bandwidth_gb_per_s: float
    latency_s: float

    def __post_init__(self) -> None:
        for name, above in (("bandwidth_gb_per_s", True), ("latency_s", False)):
            number = require_number(name, getattr(self, name), minimum=0, above=above)
            object.__setattr__(self, name, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSet:
    """A named set of network links, with one kind of link per tier.

    Parameters
    ----------
    name
        Name of the set in results.
    machine, rack, network
        Links between GPUs of a machine, between machines of a rack, and between racks.
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

    def with_latency(self, latency_s: Mapping[str, float]) -> "LinkSet":
        """Return a copy of the link set with new latencies, in seconds, for some tiers.

        The latencies are given by tier label, and the new name states them.
        """
        changed = {
            label: replace(self.at(TIER_OF_LABEL[label]), latency_s=value)
            for label, value in latency_s.items()
        }
        words = [f"{label} {link.latency_s:g} s" for label, link in changed.items()]
        return replace(self, name=", ".join([self.name, *words]), **changed)


NVSWITCH = Link(bandwidth_gb_per_s=600.0, latency_s=500e-9)
SHIPPED_RACK = Link(bandwidth_gb_per_s=200.0, latency_s=5e-6)
SHIPPED_NETWORK = Link(bandwidth_gb_per_s=400.0, latency_s=50e-6)
"""More bandwidth than the rack, but more latency: these are the shipped values, not a mistake."""

_CONGESTED = (
    (Link(bandwidth_gb_per_s=100.0, latency_s=500e-9), SHIPPED_NETWORK),
    (Link(bandwidth_gb_per_s=50.0, latency_s=500e-9), SHIPPED_NETWORK),
    (Link(bandwidth_gb_per_s=25.0, latency_s=5e-3), Link(bandwidth_gb_per_s=10.0, latency_s=50e-3)),
)

LINK_SETS: Mapping[str, LinkSet] = {
    name: LinkSet(name=name, machine=NVSWITCH, rack=rack, network=network)
    for name, rack, network in (
        ("shipped", SHIPPED_RACK, SHIPPED_NETWORK),
        *((f"congested-{number}", *links) for number, links in enumerate(_CONGESTED, start=1)),
    )
}
"""Link sets by name. The congested sets are earlier versions of the shipped files; values that
these versions lack are the shipped ones."""


_COSTS_NOTHING = Link(bandwidth_gb_per_s=1e12, latency_s=0.0)

FREE_LINKS = LinkSet(
    name="free", machine=_COSTS_NOTHING, rack=_COSTS_NOTHING, network=_COSTS_NOTHING
)
"""Links without communication time; not from Dally, but a baseline for the value of locality."""


def find_link_set(name: str) -> LinkSet:
    """Return the link set with a given name; raise `UserError` if the name is unknown."""
    known = {**LINK_SETS, FREE_LINKS.name: FREE_LINKS}
    if name not in known:
        raise UserError(f"unknown links {name!r}; {meant(name, known)}")
    return known[name]
