"""Random: the baseline that looks at nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.reclaim.heuristics.base import ReclaimHeuristic

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from lyra_opt.reclaim.instance import Instance


class RandomChoice(ReclaimHeuristic):
    """Choose N_R servers on loan uniformly at random.

    Source: the baseline "Random" of Lyra (EuroSys 2023), section 7.1. Complexity O(servers).
    Guarantee: none; on an instance with one idle block of N_R servers it is almost surely
    arbitrarily worse than the optimum of 0.
    """

    name = "random"

    def choose(self, instance: Instance, rng: np.random.Generator) -> Sequence[int]:
        """Return a uniform sample without replacement."""
        on_loan = instance.index.on_loan
        chosen = rng.permutation(len(on_loan))[: instance.reclaim_servers]
        return [int(position) for position in on_loan[chosen]]
