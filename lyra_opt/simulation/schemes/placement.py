"""Schemes that place gangs near or far: rules of the network problem."""

from __future__ import annotations

from lyra_opt.network.policies import PLACEMENT_POLICIES, SUMMARIES
from lyra_opt.simulation.scheme import PlacementScheme

BEST_FIT = PlacementScheme(
    name="best-fit",
    paper="other",
    summary=SUMMARIES["best-fit"],
    make=PLACEMENT_POLICIES["best-fit"],
)
CONSOLIDATED = PlacementScheme(
    name="consolidated",
    paper="Dally",
    summary=SUMMARIES["consolidated"],
    make=PLACEMENT_POLICIES["consolidated"],
)
DALLY = PlacementScheme(
    name="dally", paper="Dally", summary=SUMMARIES["dally"], make=PLACEMENT_POLICIES["dally"]
)
GANDIVA_AFFINITY = PlacementScheme(
    name="gandiva-affinity",
    paper="Gandiva",
    summary=SUMMARIES["gandiva-affinity"],
    make=PLACEMENT_POLICIES["gandiva-affinity"],
)
MANUAL = PlacementScheme(
    name="manual", paper="Dally", summary=SUMMARIES["manual"], make=PLACEMENT_POLICIES["manual"]
)
NO_WAIT = PlacementScheme(
    name="no-wait", paper="Dally", summary=SUMMARIES["no-wait"], make=PLACEMENT_POLICIES["no-wait"]
)
PRICED_PLACEMENT = PlacementScheme(
    name="priced-placement",
    paper="ours",
    summary=SUMMARIES["priced-placement"],
    make=PLACEMENT_POLICIES["priced-placement"],
)
SRTF_NETWORK = PlacementScheme(
    name="srtf-network",
    paper="other",
    summary=SUMMARIES["srtf-network"],
    make=PLACEMENT_POLICIES["srtf-network"],
)
TIRESIAS_SKEW = PlacementScheme(
    name="tiresias-skew",
    paper="Tiresias",
    summary=SUMMARIES["tiresias-skew"],
    make=PLACEMENT_POLICIES["tiresias-skew"],
)
