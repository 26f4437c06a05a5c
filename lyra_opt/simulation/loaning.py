r"""Loaning: how many servers the inference cluster lends over time, compared with the optimum.

A forecaster (`lyra_opt.simulation.forecast`) predicts the demand, the orchestrator turns the
forecast into loans, and the clairvoyant optimum bounds the value of any loans.

Loans change only at the ticks of the resource orchestrator. A loan set at one tick lasts until the
next tick, and demand that rises at the next tick arrives before the orchestrator can react to it. A
loan is therefore compared with every step of demand from its own tick to the next tick, both
included. This is the "burst within 5 minutes" for which Lyra keeps headroom (EuroSys 2023, section
7.1). Throughout, ``servers`` are servers of the inference cluster, ``interval_s`` is the time
between two ticks, and the first interval begins at time 0.

*The clairvoyant optimum.* Let c_t be the number of servers that can be lent in interval t. The
optimum is the loans L_t in {0, ..., c_t} that maximise

    interval * sum_t L_t  -  return cost * sum_t max(0, L_t - L_{t+1}),

in server-seconds. Servers still on loan after the last interval are not returned and cost nothing.

*The problem decomposes by level.* Let x_kt = 1 if L_t >= k. Then L_t is the sum over k of x_kt, and
max(0, L_t - L_{t+1}) is the sum over k of max(0, x_kt - x_{k,t+1}), because the x_kt decrease with
k. So the optimum is at most the sum of the optima of the levels k = 1, 2, ..., where level k may be
lent while c_t >= k.

*A level is lent for a whole run or not at all.* Consider a maximal run of intervals with c_t >= k.
Joining two loans within the run, or extending a loan to the ends of the run, makes the loan longer
and causes no additional return. The whole run is worth its length less one return, or its length
alone if it reaches the last interval. It is lent if its value is above 0.

*The levels fit together.* A run of level k + 1 lies within a run of level k, which is at least as
long, and reaches the last interval if the other does. Hence if level k + 1 is lent, so is level k;
the levels form one series of loans, and the bound is attained. The bound holds for fractional loans
too, by the same argument with a continuous k.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.simulation.cluster import LoanPlan
from lyra_opt.simulation.forecast import Forecaster
from lyra_opt.simulation.workload import InferenceDemand

SERVER_TOLERANCE = 1e-9
"""Fraction of a server that counts as a rounding error of share times servers."""


def busy_servers(share: float, servers: int) -> int:
    """Return how many servers are busy when the given share of the inference GPUs serves."""
    return math.ceil(share * servers - SERVER_TOLERANCE)


def lendable_servers(share: float, servers: int, headroom: float) -> int:
    """Return how many servers can be lent: floor(servers * (1 - headroom - share)), or 0.

    Rounding is as in `busy_servers`, so busy and lent servers together never exceed the cluster.
    """
    kept = math.ceil(share * servers + headroom * servers - SERVER_TOLERANCE)
    return max(0, servers - kept)


def peak_shares(demand: InferenceDemand, *, interval_s: float, intervals: int) -> list[float]:
    """Return the highest share of busy GPUs in each interval between two loan decisions."""
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
    """Return how many servers the inference cluster lacks in each interval because of loans.

    This measures the risk to the service-level objectives: the servers by which demand and loans
    together exceed the cluster. Using the headroom is not a shortfall, because that is its purpose.
    """
    peaks = peak_shares(demand, interval_s=interval_s, intervals=len(loans))
    return [
        max(0, busy_servers(peak, servers) + loan - servers)
        for peak, loan in zip(peaks, loans, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """The rule by which the inference cluster lends and reclaims whole servers.

    At each tick it keeps the servers that it needs now and, by the forecast, until the next tick,
    plus the headroom. It lends the other servers:

        floor(servers * (1 - headroom - max(share now, forecast shares))), at least 0.

    So servers are reclaimed before the forecast demand arrives.

    Parameters
    ----------
    servers
        Servers of the inference cluster, at least 0.
    forecaster
        Predicts the demand.
    headroom
        Share of the cluster that is never lent, from 0 to 1; Lyra's 2 % is the median burst within
        5 minutes.
    interval_s
        Time between two ticks, above 0.

    Raises
    ------
    FieldError
        If a parameter breaks its rule.

    Notes
    -----
    Source: headroom, interval and early reclaiming from Lyra (EuroSys 2023), sections 6 and 7.1,
    which does not print how the number of servers is computed. Complexity: one forecast per tick.
    Guarantee with the oracle: no shortfall.
    """

    servers: int
    forecaster: Forecaster
    headroom: float = 0.02
    interval_s: float = 300.0

    def __post_init__(self) -> None:
        require_integer("servers", self.servers, minimum=0)
        require_number("headroom", self.headroom, minimum=0, maximum=1)
        require_number("interval_s", self.interval_s, minimum=0, above=True)

    def lends(self, demand: InferenceDemand, time_s: float) -> int:
        """Return how many servers are on loan from the tick at `time_s` until the next tick.

        Parameters
        ----------
        demand
            Demand of the inference cluster; only the forecaster may look at steps after the tick.
        time_s
            Time of the tick, at least 0.
        """
        return lendable_servers(self.expects(demand, time_s), self.servers, self.headroom)

    def expects(self, demand: InferenceDemand, time_s: float) -> float:
        """Return the highest share of busy GPUs now and, by forecast, until the next tick."""
        steps = demand.step_of(time_s + self.interval_s) - demand.step_of(time_s)
        return max((demand.at(time_s), *self.forecaster.predict(demand, time_s, steps)))

    def plan(self, demand: InferenceDemand, intervals: int) -> LoanPlan:
        """Return the loans of the first `intervals` intervals from time 0, at least 1."""
        ticks_s = [tick * self.interval_s for tick in range(intervals)]
        return LoanPlan(
            interval_s=self.interval_s,
            on_loan=tuple(self.lends(demand, time_s) for time_s in ticks_s),
            busy_share=tuple(map(demand.at, ticks_s)),
        )


def clairvoyant_loans(
    lendable: Sequence[int], *, interval_s: float, return_cost_s: float
) -> list[int]:
    """Return the optimal number of servers on loan in each interval, for a known demand.

    Runs of intervals with value 0 are not lent.

    Parameters
    ----------
    lendable
        Servers that can be lent in each interval, at least 0.
    interval_s
        Length of an interval, above 0.
    return_cost_s
        Cost of returning a server in server-seconds, at least 0: work lost to a preemption that the
        return may cause, and overhead (Lyra's simulator counts 63 s per preemption).

    Raises
    ------
    FieldError
        If an argument breaks its rule.

    Notes
    -----
    Source: this project; the docstring of the module has the proof. Complexity O(intervals): the
    runs of all levels are the rectangles of a histogram, found with a stack.
    """
    for position, limit in enumerate(lendable):
        require_integer(f"lendable[{position}]", limit, minimum=0)
    _require_costs(interval_s, return_cost_s)
    # Fewest intervals of a loan worth more than its return costs; fractions avoid rounding.
    shortest = math.floor(Fraction(return_cost_s) / Fraction(interval_s)) + 1
    changes = [0] * (len(lendable) + 1)
    # The stack holds runs that have not ended, lowest level first, as (first interval, level).
    runs: list[tuple[int, int]] = []
    for end, limit in enumerate(lendable):
        start = end
        while runs and runs[-1][1] > limit:
            start, level = runs.pop()
            below = max(limit, runs[-1][1] if runs else 0)
            if end - start >= shortest:
                changes[start] += level - below
                changes[end] -= level - below
        if limit > (runs[-1][1] if runs else 0):
            runs.append((start, limit))
    below = 0
    for start, level in runs:
        changes[start] += level - below
        below = level
    return list(accumulate(changes[:-1]))


def value(loans: Sequence[int], *, interval_s: float, return_cost_s: float) -> float:
    """Return the value of loans: lent server-seconds less the cost of returned servers."""
    _require_costs(interval_s, return_cost_s)
    return interval_s * sum(loans) - return_cost_s * returned_servers(loans)


def returned_servers(loans: Sequence[int]) -> int:
    """Return how many servers are returned in total; a server counts once for each return."""
    return sum(max(0, before - after) for before, after in pairwise(loans))


def _require_costs(interval_s: float, return_cost_s: float) -> None:
    require_number("interval_s", interval_s, minimum=0, above=True)
    require_number("return_cost_s", return_cost_s, minimum=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRecord:
    """The result of lending with one forecaster: returned servers, shortfall and value.

    Parameters
    ----------
    name
        Name of the forecaster, or of one of the two clairvoyant references.
    returned_servers
        Servers returned; a server counts once for each return.
    shortfall_server_intervals
        Servers that the inference cluster lacked, summed over the intervals.
    value_server_s
        Lent server-seconds less the cost of returns.
    share_of_clairvoyant
        Value relative to that of the clairvoyant; at most 1 without shortfall, possibly above 1
        with shortfall. None if the clairvoyant's value is 0.
    forecast_error_servers
        Mean absolute difference, in servers, between the highest demand that the orchestrator
        expects in an interval and the highest demand that comes; 0 for the clairvoyants.
    """

    name: str
    returned_servers: int
    shortfall_server_intervals: int
    value_server_s: float
    share_of_clairvoyant: float | None
    forecast_error_servers: float = 0.0


def compare_forecasters(
    demand: InferenceDemand,
    forecasters: Sequence[Forecaster],
    *,
    servers: int,
    return_cost_s: float,
    headroom: float = 0.02,
    interval_s: float = 300.0,
) -> list[LoanRecord]:
    """Return the loan results of two clairvoyant references, and then of each forecaster.

    The first record is the clairvoyant without headroom, a bound for all loans without shortfall.
    The second record is a clairvoyant with headroom, which separates the price of the headroom from
    that of the forecast.

    Parameters
    ----------
    demand
        Demand of the inference cluster, replayed once in whole intervals. Forecasters start without
        history at time 0.
    forecasters
        The forecasters to compare.
    servers, headroom, interval_s
        See `Orchestrator`.
    return_cost_s
        See `clairvoyant_loans`.

    Raises
    ------
    FieldError
        If a parameter breaks its rule, or the demand is shorter than an interval.

    Notes
    -----
    Complexity: one forecast per interval for each forecaster.
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
    errors = {}
    for orchestrator in orchestrators:
        name = orchestrator.forecaster.name
        loans_of[name] = list(orchestrator.plan(demand, intervals).on_loan)
        expected = [orchestrator.expects(demand, tick * interval_s) for tick in range(intervals)]
        off = [abs(one - other) for one, other in zip(expected, peaks, strict=True)]
        errors[name] = servers * math.fsum(off) / intervals
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
            forecast_error_servers=errors.get(name, 0.0),
        )
        for name, loans in loans_of.items()
    ]
