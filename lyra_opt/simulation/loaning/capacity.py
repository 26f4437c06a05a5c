"""What the inference cluster needs of itself, and so how many servers it can lend.

Loans change at the ticks of the resource orchestrator alone. A loan set at one tick stands until
the next, and the demand that comes up with that next tick is there before the orchestrator has
answered it; a loan is therefore measured against every step of demand from its own tick to the
next one, both included. This is the "burst within 5 minutes" that Lyra's headroom is for
(EuroSys 2023, section 7.1).

In all of it ``servers`` are those of the inference cluster, ``interval_s`` is the time between two
ticks, and the first interval begins at time 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.workload import InferenceDemand

SERVER_TOLERANCE = 1e-9
"""Part of a server that is taken for a rounding error of share times servers."""


def busy_servers(share: float, servers: int) -> int:
    """Return how many servers serve when a share of the cluster's GPUs does."""
    return math.ceil(share * servers - SERVER_TOLERANCE)


def lendable_servers(share: float, servers: int, headroom: float) -> int:
    """Return floor(servers * (1 - headroom - share)), at least 0.

    Rounded as in `busy_servers`, so that busy and lent servers together never exceed the cluster.
    """
    kept = math.ceil(share * servers + headroom * servers - SERVER_TOLERANCE)
    return max(0, servers - kept)


def peak_shares(demand: InferenceDemand, *, interval_s: float, intervals: int) -> list[float]:
    """Return the greatest busy share from each tick to the next, which a loan there meets."""
    return [
        max(
            map(
                demand.share,
                range(
                    demand.step_of(tick * interval_s),
                    demand.step_of(tick * interval_s + interval_s) + 1,
                ),
            )
        )
        for tick in range(intervals)
    ]


def shortfalls(
    demand: InferenceDemand, loans: Sequence[int], *, servers: int, interval_s: float
) -> list[int]:
    """Return how many servers the inference cluster lacks in each interval of a loan.

    The measure of the risk to its service-level objectives: the servers by which demand and
    loans together exceed the cluster. Using up the headroom is none; that is what it is for.
    """
    peaks = peak_shares(demand, interval_s=interval_s, intervals=len(loans))
    return [
        max(0, busy_servers(peak, servers) + loan - servers)
        for peak, loan in zip(peaks, loans, strict=True)
    ]
