"""Every placement policy by name, for the simulated cluster and for standalone instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.network.heuristics.best_fit import BestFitPlacement
from lyra_opt.network.heuristics.dally import consolidated, dally, manual, no_wait
from lyra_opt.network.heuristics.gandiva_affinity import GandivaAffinity
from lyra_opt.network.heuristics.gandiva_shuffled import GandivaShuffled
from lyra_opt.network.heuristics.priced_placement import PricedPlacement
from lyra_opt.network.heuristics.srtf_network import ShortestRemainingTime
from lyra_opt.network.heuristics.tiresias_skew import tiresias_skew

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.network.heuristics.policy import PlacementPolicy

PLACEMENT_POLICIES: Mapping[str, Callable[[], PlacementPolicy]] = {
    "best-fit": BestFitPlacement,
    "consolidated": consolidated,
    "dally": dally,
    "gandiva-affinity": GandivaAffinity,
    "gandiva-shuffled": GandivaShuffled,
    "manual": manual,
    "no-wait": no_wait,
    "priced-placement": PricedPlacement,
    "srtf-network": ShortestRemainingTime,
    "tiresias-skew": tiresias_skew,
}
"""Name to what makes a policy for one run."""

SUMMARIES: Mapping[str, str] = {
    "best-fit": "first come, first placed: the tightest machine, else rack, else fewest racks",
    "consolidated": "waits for ever for the nearest tier that could hold a gang (Dally's order)",
    "dally": "most network-hurt first, tuned delay timers per tier (Dally)",
    "gandiva-affinity": "machines kept for gangs of a size; running gangs move closer (Gandiva)",
    "gandiva-shuffled": "the same, but gangs that no machine holds get GPUs at random (Gandiva)",
    "manual": "Dally with fixed timers of 6 and 12 leases",
    "no-wait": "Dally without timers: near GPUs or far ones, at once",
    "priced-placement": "most progress for the GPUs, at prices that say who had better wait (ours)",
    "srtf-network": "shortest remaining time first, at the speed of the best tier free now",
    "tiresias-skew": "least attained service first; skewed models wait for a machine (Tiresias)",
}
"""One line on each policy of `PLACEMENT_POLICIES`."""
