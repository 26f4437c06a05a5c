"""How many servers the inference cluster lends from one tick to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_integer, require_number
from lyra_opt.simulation.cluster import LoanPlan
from lyra_opt.simulation.loaning.capacity import lendable_servers

if TYPE_CHECKING:
    from lyra_opt.simulation.loaning.forecast import Forecaster
    from lyra_opt.simulation.workload import InferenceDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """The rule by which the inference cluster lends and reclaims whole servers.

    At each tick it keeps what it needs now and, by the forecast, up to the next tick, and the
    headroom; it lends the rest:

        floor(servers * (1 - headroom - max(share now, forecast shares))), at least 0.

    So servers are reclaimed ahead of the forecast.

    Parameters
    ----------
    servers
        Servers of the inference cluster, at least 0.
    forecaster
        What it expects of the demand.
    headroom
        Share of the cluster that is never lent, from 0 to 1; Lyra's 2% is the median burst
        within 5 minutes.
    interval_s
        Time between two ticks, above 0.

    Raises
    ------
    FieldError
        If a parameter breaks its rule.

    Notes
    -----
    Source: headroom, interval and early reclaiming from Lyra (EuroSys 2023), sections 6 and 7.1,
    which does not print how the number of servers is computed. Complexity: one forecast a tick.
    Guarantee with the oracle: no shortfall.
    """

    servers: int
    forecaster: Forecaster
    headroom: float = 0.02
    interval_s: float = 300.0

    def __post_init__(self) -> None:
        require_integer("servers", self.servers, minimum=0)
        if require_number("headroom", self.headroom, minimum=0) > 1:
            raise FieldError("headroom", self.headroom, "must be at most 1")
        require_number("interval_s", self.interval_s, minimum=0, above=True)

    def lends(self, demand: InferenceDemand, time_s: float) -> int:
        """Return how many servers are on loan from a tick to the next.

        Parameters
        ----------
        demand
            What the inference cluster needs; steps after that of the tick are seen by the
            forecaster alone.
        time_s
            The moment of the tick, at least 0.
        """
        steps = demand.step_of(time_s + self.interval_s) - demand.step_of(time_s)
        shares = demand.at(time_s), *self.forecaster.predict(demand, time_s, steps)
        return lendable_servers(max(shares), self.servers, self.headroom)

    def plan(self, demand: InferenceDemand, intervals: int) -> LoanPlan:
        """Return the loans of so many intervals from time 0 on, at least 1."""
        ticks_s = [tick * self.interval_s for tick in range(intervals)]
        return LoanPlan(
            interval_s=self.interval_s,
            on_loan=tuple(self.lends(demand, time_s) for time_s in ticks_s),
            busy_share=tuple(map(demand.at, ticks_s)),
        )
