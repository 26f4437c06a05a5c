"""What the inference cluster needs of itself, and so how many servers it can lend.

Loans change at the ticks of the resource orchestrator alone. A loan set at one tick stands until
the next, and the demand that comes up with that next tick is there before the orchestrator has
answered it; a loan is therefore measured against every step of demand from its own tick to the
next one, both included. This is the "burst within 5 minutes" that Lyra's headroom is for
(EuroSys 2023, section 7.1).
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
    """Return how many of `servers` servers serve when a share of the cluster's GPUs does."""
    return math.ceil(share * servers - SERVER_TOLERANCE)


def lendable_servers(share: float, servers: int, headroom: float) -> int:
    """Return floor(servers * (1 - headroom - share)), at least 0.

    Rounded as in `busy_servers`, so that busy and lent servers together never exceed the cluster.

    Parameters
    ----------
    share
        Share of the cluster's GPUs that serve, at least 0.
    servers
        Servers of the inference cluster.
    headroom
        Share of the cluster that is never lent.
    """
    kept = math.ceil(share * servers + headroom * servers - SERVER_TOLERANCE)
    return max(0, servers - kept)


def newest_step(demand: InferenceDemand, time_s: float) -> int:
    """Return the step of a moment, counted from time 0 without going round."""
    return int(time_s // demand.step_s)


def share_of_step(demand: InferenceDemand, step: int) -> float:
    """Return the busy share of a step; after the last step of the demand comes its first."""
    return demand.busy_share[step % len(demand.busy_share)]


def steps_to_next_tick(demand: InferenceDemand, time_s: float, interval_s: float) -> int:
    """Return how many steps begin after the step of a tick, up to and including the next tick."""
    return newest_step(demand, time_s + interval_s) - newest_step(demand, time_s)


def peak_shares(demand: InferenceDemand, *, interval_s: float, intervals: int) -> list[float]:
    """Return the greatest busy share that a loan of each interval meets.

    Parameters
    ----------
    demand
        What the inference cluster needs.
    interval_s
        Time between two ticks of the orchestrator.
    intervals
        How many intervals, the first from time 0.

    Returns
    -------
    list[float]
        The greatest share from each tick to the next, both included.
    """
    peaks = []
    for tick in range(intervals):
        time_s = tick * interval_s
        first = newest_step(demand, time_s)
        last = first + steps_to_next_tick(demand, time_s, interval_s)
        peaks.append(max(share_of_step(demand, step) for step in range(first, last + 1)))
    return peaks


def lendable_series(
    demand: InferenceDemand,
    *,
    servers: int,
    headroom: float,
    interval_s: float,
    intervals: int,
) -> list[int]:
    """Return how many servers can be lent in each interval by one who knows the demand.

    With headroom 0 these are exactly the loans without shortfall. Parameters as in
    `lendable_servers` and `peak_shares`.
    """
    peaks = peak_shares(demand, interval_s=interval_s, intervals=intervals)
    return [lendable_servers(peak, servers, headroom) for peak in peaks]


def shortfalls(
    demand: InferenceDemand, loans: Sequence[int], *, servers: int, interval_s: float
) -> list[int]:
    """Return how many servers the inference cluster lacks in each interval.

    The measure of the risk to its service-level objectives: the servers by which demand and
    loans together exceed the cluster. Using up the headroom is none; that is what it is for.

    Parameters
    ----------
    demand
        What the inference cluster needs.
    loans
        Servers on loan in each interval, the first from time 0.
    servers
        Servers of the inference cluster.
    interval_s
        Time between two ticks of the orchestrator.
    """
    peaks = peak_shares(demand, interval_s=interval_s, intervals=len(loans))
    return [
        max(0, busy_servers(peak, servers) + loan - servers)
        for peak, loan in zip(peaks, loans, strict=True)
    ]
