"""How many servers the inference cluster lends from one tick to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.errors import FieldError
from lyra_opt.simulation.loaning.capacity import lendable_servers, steps_to_next_tick
from lyra_opt.validation import require_integer, require_number

if TYPE_CHECKING:
    from lyra_opt.simulation.loaning.forecast import Forecaster
    from lyra_opt.simulation.workload import InferenceDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanDecision:
    """How many servers are to be on loan until the next tick.

    Parameters
    ----------
    target_servers
        Servers on loan until the next tick.
    lend_servers
        Servers to lend now.
    reclaim_servers
        Servers to reclaim now, Lyra's N_R; 0 where servers are lent.
    """

    target_servers: int
    lend_servers: int
    reclaim_servers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """The rule by which the inference cluster lends and reclaims whole servers.

    At each tick it keeps what it needs now and, by the forecast, in the coming steps, and the
    headroom; it lends the rest:

        target = floor(servers * (1 - headroom - max(share now, forecast shares))), at least 0.

    So servers are reclaimed ahead of the forecast, as soon as they are needed within
    `ahead_steps`. A longer `lend_ahead_steps` keeps loans from being short: more servers than
    are on loan are lent only if the forecast leaves them idle for that long, while those on loan
    stay until they are needed within `ahead_steps`.

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
    ahead_steps
        Steps of demand that a server has to be free for to stay on loan, at least 0; None for
        those up to the next tick.
    lend_ahead_steps
        Steps of demand that a server has to be free for to be lent; None, or fewer than
        `ahead_steps`, for the same.

    Raises
    ------
    FieldError
        If a parameter breaks its rule.

    Notes
    -----
    Source: headroom, interval and early reclaiming from Lyra (EuroSys 2023), sections 6 and 7.1,
    which does not print how the number of servers is computed; `lend_ahead_steps` from this
    project. Complexity: one forecast a decision.

    Guarantee with the oracle and `ahead_steps` None: no shortfall. If moreover a tick is one step
    long and `lend_ahead_steps` is `lyra_opt.simulation.loaning.clairvoyant.shortest_loan`, its
    loans are the clairvoyant's for the same headroom, up to what begins less than a shortest loan
    before the end of the horizon. So knowing the demand for one shortest loan ahead is as good as
    knowing all of it.
    """

    servers: int
    forecaster: Forecaster
    headroom: float = 0.02
    interval_s: float = 300.0
    ahead_steps: int | None = None
    lend_ahead_steps: int | None = None

    def __post_init__(self) -> None:
        require_integer("servers", self.servers, minimum=0)
        if require_number("headroom", self.headroom, minimum=0) > 1:
            raise FieldError("headroom", self.headroom, "must be at most 1")
        require_number("interval_s", self.interval_s, minimum=0, above=True)
        for name in ("ahead_steps", "lend_ahead_steps"):
            if getattr(self, name) is not None:
                require_integer(name, getattr(self, name), minimum=0)

    def decide(self, demand: InferenceDemand, time_s: float, on_loan_servers: int) -> LoanDecision:
        """Return what to lend or to reclaim at a tick.

        Parameters
        ----------
        demand
            What the inference cluster needs; steps after that of `time_s` are seen by the
            forecaster alone.
        time_s
            The moment of the tick, at least 0.
        on_loan_servers
            Servers on loan up to now, from 0 to `servers`.

        Raises
        ------
        FieldError
            If `time_s` or `on_loan_servers` is out of range.
        """
        require_number("time_s", time_s, minimum=0)
        if require_integer("on_loan_servers", on_loan_servers, minimum=0) > self.servers:
            rule = f"must be at most the servers of the inference cluster, {self.servers}"
            raise FieldError("on_loan_servers", on_loan_servers, rule)
        keep_steps = self.ahead_steps
        if keep_steps is None:
            keep_steps = steps_to_next_tick(demand, time_s, self.interval_s)
        lend_steps = max(keep_steps, self.lend_ahead_steps or 0)
        shares = [demand.at(time_s), *self.forecaster.predict(demand, time_s, lend_steps)]
        most_to_keep = self._lendable(max(shares[: keep_steps + 1]))
        most_to_lend = self._lendable(max(shares))
        target = min(most_to_keep, max(on_loan_servers, most_to_lend))
        return LoanDecision(
            target_servers=target,
            lend_servers=max(0, target - on_loan_servers),
            reclaim_servers=max(0, on_loan_servers - target),
        )

    def loans(self, demand: InferenceDemand, intervals: int) -> list[int]:
        """Return the servers on loan in each of `intervals` intervals, from none before time 0."""
        loans: list[int] = []
        on_loan = 0
        for tick in range(intervals):
            on_loan = self.decide(demand, tick * self.interval_s, on_loan).target_servers
            loans.append(on_loan)
        return loans

    def _lendable(self, share: float) -> int:
        return lendable_servers(share, self.servers, self.headroom)
