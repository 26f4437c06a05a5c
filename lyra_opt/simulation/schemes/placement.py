"""Schemes that place gangs near or far: rules of the network problem."""

from __future__ import annotations

from lyra_opt.network.heuristics.policies import PLACEMENT_POLICIES, SUMMARIES
from lyra_opt.simulation.scheme import PlacementScheme


def _scheme(name: str, paper: str) -> PlacementScheme:
    return PlacementScheme(
        name=name, paper=paper, summary=SUMMARIES[name], make=PLACEMENT_POLICIES[name]
    )


BEST_FIT = _scheme("best-fit", "other")
CONSOLIDATED = _scheme("consolidated", "Dally")
DALLY = _scheme("dally", "Dally")
GANDIVA_AFFINITY = _scheme("gandiva-affinity", "Gandiva")
MANUAL = _scheme("manual", "Dally")
NO_WAIT = _scheme("no-wait", "Dally")
PRICED_PLACEMENT = _scheme("priced-placement", "ours")
SRTF_NETWORK = _scheme("srtf-network", "other")
TIRESIAS_SKEW = _scheme("tiresias-skew", "Tiresias")
