"""Forecasters side by side: what their loans are worth, and what they risk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.errors import FieldError
from lyra_opt.simulation.loaning.capacity import lendable_series, newest_step, shortfalls
from lyra_opt.simulation.loaning.clairvoyant import clairvoyant_loans, returned_servers, value
from lyra_opt.simulation.loaning.forecast import mean_squared_error
from lyra_opt.simulation.loaning.orchestrator import Orchestrator
from lyra_opt.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.loaning.forecast import Forecaster
    from lyra_opt.simulation.workload import InferenceDemand

CLAIRVOYANT = "clairvoyant"
CLAIRVOYANT_WITH_HEADROOM = "clairvoyant-with-headroom"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRecord:
    """What came of the loans of one forecaster.

    Parameters
    ----------
    name
        The forecaster, or one of the two clairvoyants.
    lent_server_hours
        Servers on loan, summed over time.
    returned_servers
        Servers returned, each as often as it was.
    shortfall_intervals
        Intervals in which the inference cluster lacked servers.
    shortfall_server_intervals
        Servers that it lacked, summed over the intervals.
    value_server_s
        Lent server-seconds less the cost of returns.
    share_of_clairvoyant
        That value over the clairvoyant's; at most 1 without shortfall, and may exceed it with.
        None where the clairvoyant's is 0.
    mean_squared_error
        Of the forecasts of one step; None for the clairvoyants.
    """

    name: str
    lent_server_hours: float
    returned_servers: int
    shortfall_intervals: int
    shortfall_server_intervals: int
    value_server_s: float
    share_of_clairvoyant: float | None
    mean_squared_error: float | None


def compare_forecasters(
    demand: InferenceDemand,
    forecasters: Sequence[Forecaster],
    *,
    servers: int,
    return_cost_s: float,
    headroom: float = 0.02,
    interval_s: float = 300.0,
    ahead_steps: int | None = None,
    lend_ahead_steps: int | None = None,
    duration_s: float | None = None,
) -> list[LoanRecord]:
    """Return the record of the orchestrator with each forecaster, after two yardsticks.

    The first record is the clairvoyant's, who needs no headroom: a bound for all loans without
    shortfall. The second is that of a clairvoyant who keeps it, which tells the price of the
    headroom from that of the forecast.

    Parameters
    ----------
    demand
        What the inference cluster needs. Forecasters start without history at time 0.
    forecasters
        Whom to compare.
    servers, headroom, interval_s, ahead_steps, lend_ahead_steps
        As in `Orchestrator`.
    return_cost_s
        As in `lyra_opt.simulation.loaning.clairvoyant.clairvoyant_loans`.
    duration_s
        How long, in whole intervals, rounded down; None for the demand once through.

    Raises
    ------
    FieldError
        If a parameter breaks its rule, or the duration is shorter than an interval.

    Notes
    -----
    Complexity: one forecast an interval and one a step, for each forecaster.
    """
    orchestrators = [
        Orchestrator(
            servers=servers,
            forecaster=forecaster,
            headroom=headroom,
            interval_s=interval_s,
            ahead_steps=ahead_steps,
            lend_ahead_steps=lend_ahead_steps,
        )
        for forecaster in forecasters
    ]
    if duration_s is None:
        duration_s = demand.step_s * len(demand.busy_share)
    require_number("duration_s", duration_s, minimum=0)
    intervals = int(duration_s // interval_s)
    if intervals < 1:
        raise FieldError("duration_s", duration_s, f"must be at least interval_s, {interval_s:g}")
    steps = max(1, newest_step(demand, intervals * interval_s))

    plans: list[tuple[str, list[int], float | None]] = [
        (
            name,
            clairvoyant_loans(
                lendable_series(
                    demand,
                    servers=servers,
                    headroom=kept,
                    interval_s=interval_s,
                    intervals=intervals,
                ),
                interval_s=interval_s,
                return_cost_s=return_cost_s,
            ),
            None,
        )
        for name, kept in ((CLAIRVOYANT, 0.0), (CLAIRVOYANT_WITH_HEADROOM, headroom))
    ]
    plans += [
        (
            orchestrator.forecaster.name,
            orchestrator.loans(demand, intervals),
            mean_squared_error(orchestrator.forecaster, demand, steps=steps),
        )
        for orchestrator in orchestrators
    ]

    optimum = value(plans[0][1], interval_s=interval_s, return_cost_s=return_cost_s)
    records = []
    for name, loans, error in plans:
        lacking = shortfalls(demand, loans, servers=servers, interval_s=interval_s)
        worth = value(loans, interval_s=interval_s, return_cost_s=return_cost_s)
        records.append(
            LoanRecord(
                name=name,
                lent_server_hours=sum(loans) * interval_s / 3600,
                returned_servers=returned_servers(loans),
                shortfall_intervals=sum(short > 0 for short in lacking),
                shortfall_server_intervals=sum(lacking),
                value_server_s=worth,
                share_of_clairvoyant=worth / optimum if optimum > 0 else None,
                mean_squared_error=error,
            )
        )
    return records
