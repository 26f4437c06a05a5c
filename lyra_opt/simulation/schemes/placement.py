"""Schemes that place gangs near or far: rules of the network problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES, SUMMARIES
from lyra_opt.simulation.network.class_timers import manual
from lyra_opt.simulation.scheme import PlacementScheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.network.heuristics.policy import PlacementPolicy


def _scheme(
    name: str, paper: str, make: Callable[..., PlacementPolicy] | None = None
) -> PlacementScheme:
    return PlacementScheme(
        name=name, paper=paper, summary=SUMMARIES[name], make=make or PLACEMENT_POLICIES[name]
    )


BEST_FIT = _scheme("best-fit", "other")
CONSOLIDATED = _scheme("consolidated", "Dally")
DALLY = _scheme("dally", "Dally")
GANDIVA_AFFINITY = _scheme("gandiva-affinity", "Gandiva")
GANDIVA_SHUFFLED = _scheme("gandiva-shuffled", "Gandiva")
MANUAL = _scheme("manual", "Dally", manual)
NO_WAIT = _scheme("no-wait", "Dally")
PRICED_PLACEMENT = _scheme("priced-placement", "ours")
SRTF_NETWORK = _scheme("srtf-network", "other")
TIRESIAS_SKEW = _scheme("tiresias-skew", "Tiresias")
