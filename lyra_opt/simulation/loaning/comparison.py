"""Forecasters side by side: what their loans are worth, and what they risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.loaning.capacity import lendable_servers, peak_shares, shortfalls
from lyra_opt.simulation.loaning.clairvoyant import clairvoyant_loans, returned_servers, value
from lyra_opt.simulation.loaning.orchestrator import Orchestrator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.loaning.forecast import Forecaster
    from lyra_opt.simulation.workload import InferenceDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRecord:
    """What came of the loans of one forecaster.

    Parameters
    ----------
    name
        The forecaster, or one of the two clairvoyants.
    returned_servers
        Servers returned, each as often as it was.
    shortfall_server_intervals
        Servers that the inference cluster lacked, summed over the intervals.
    value_server_s
        Lent server-seconds less the cost of returns.
    share_of_clairvoyant
        That value over the clairvoyant's; at most 1 without shortfall, and may exceed it with.
        None where the clairvoyant's is 0.
    """

    name: str
    returned_servers: int
    shortfall_server_intervals: int
    value_server_s: float
    share_of_clairvoyant: float | None


def compare_forecasters(
    demand: InferenceDemand,
    forecasters: Sequence[Forecaster],
    *,
    servers: int,
    return_cost_s: float,
    headroom: float = 0.02,
    interval_s: float = 300.0,
) -> list[LoanRecord]:
    """Return the record of the orchestrator with each forecaster, after two yardsticks.

    The first record is the clairvoyant's, who needs no headroom: a bound for all loans without
    shortfall. The second is that of a clairvoyant who keeps it, which tells the price of the
    headroom from that of the forecast.

    Parameters
    ----------
    demand
        What the inference cluster needs, gone through once in whole intervals. Forecasters start
        without history at time 0.
    forecasters
        Whom to compare.
    servers, headroom, interval_s
        As in `Orchestrator`.
    return_cost_s
        As in `lyra_opt.simulation.loaning.clairvoyant.clairvoyant_loans`.

    Raises
    ------
    FieldError
        If a parameter breaks its rule, or the demand is shorter than an interval.

    Notes
    -----
    Complexity: one forecast an interval for each forecaster.
    """
    orchestrators = [
        Orchestrator(
            servers=servers, forecaster=forecaster, headroom=headroom, interval_s=interval_s
        )
        for forecaster in forecasters
    ]
    duration_s = demand.step_s * len(demand.busy_share)
    intervals = int(duration_s // interval_s)
    if intervals < 1:
        rule = f"must be at most the length of the demand, {duration_s:g}"
        raise FieldError("interval_s", interval_s, rule)
    peaks = peak_shares(demand, interval_s=interval_s, intervals=intervals)
    loans_of = {
        name: clairvoyant_loans(
            [lendable_servers(peak, servers, kept) for peak in peaks],
            interval_s=interval_s,
            return_cost_s=return_cost_s,
        )
        for name, kept in (("clairvoyant", 0.0), ("clairvoyant-with-headroom", headroom))
    }
    for orchestrator in orchestrators:
        loans_of[orchestrator.forecaster.name] = list(orchestrator.plan(demand, intervals).on_loan)
    worth = {
        name: value(loans, interval_s=interval_s, return_cost_s=return_cost_s)
        for name, loans in loans_of.items()
    }
    optimum = worth["clairvoyant"]
    return [
        LoanRecord(
            name=name,
            returned_servers=returned_servers(loans),
            shortfall_server_intervals=sum(
                shortfalls(demand, loans, servers=servers, interval_s=interval_s)
            ),
            value_server_s=worth[name],
            share_of_clairvoyant=worth[name] / optimum if optimum > 0 else None,
        )
        for name, loans in loans_of.items()
    ]
