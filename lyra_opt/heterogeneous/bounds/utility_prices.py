"""An upper bound on the offline utility from prices of GPUs, and what a job buys at them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.heterogeneous.checker import due_steps, worth
from lyra_opt.heterogeneous.instance import RoundEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.instance import GangJob, Instance, Placement

    Prices = NDArray[np.float64]
    """By round, server and type."""


MOST_LABELS = 20_000
"""Partial schedules of one job that are kept apart; beyond them a bound is relaxed."""

STEP_TOLERANCE = 1e-12
"""By which a sum of rounded steps may fall short: bounds stay bounds."""


CELLS_BETWEEN_LOOKS_AT_THE_CLOCK = 2**17
"""Prices that are sorted in about ten milliseconds."""
ROUNDS_BETWEEN_LOOKS_AT_THE_CLOCK = 200
"""Completions that are valued in some milliseconds."""


@dataclass(frozen=True, slots=True)
class Level:
    """Placements of one speed.

    Parameters
    ----------
    rate
        Steps a second, above 0.
    is_spread
        Whether they are on several servers.
    types
        Positions of the types that are at least as fast.
    """

    rate: float
    is_spread: bool
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """What a job buys.

    Parameters
    ----------
    payoff
        Utility less cost, at least 0; 0 where it buys nothing.
    worth
        The utility.
    entries
        Where it runs; empty where it buys nothing.
    is_exact
        Whether the payoff is the largest one; else it is no less than that.
    """

    payoff: float
    worth: float
    entries: tuple[RoundEntry, ...]
    is_exact: bool


class PricingOracle:
    """Solves the pricing problem of each job of a utility instance.

    Parameters
    ----------
    instance
        With the objective utility.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._types = [gpu_type.name for gpu_type in instance.gpu_types]
        self.capacity = np.array(
            [[server.gpus.get(name, 0) for name in self._types] for server in instance.servers]
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rounds, servers and types."""
        return (self._instance.horizon_rounds, *self.capacity.shape)

    @cached_property
    def levels(self) -> dict[str, list[Level]]:
        """The speeds of each job, by id."""
        return {job.id: self._levels(job) for job in self._instance.jobs}

    def worths(self, job: GangJob) -> NDArray[np.float64]:
        """Return the weighted utility of a job by the round at whose end it completes."""
        first = self._instance.first_round(job)
        rounds = range(self._instance.horizon_rounds)
        return np.array(
            [
                float(worth(self._instance, job, last)) if last >= first else 0.0
                for last in within_time(rounds, ROUNDS_BETWEEN_LOOKS_AT_THE_CLOCK)
            ]
        )

    def most_worth(self, job: GangJob) -> float:
        """Return what the job is worth alone on the cluster; 0 if it cannot complete."""
        return self.buy(job, PricedRounds(self, np.zeros(self.shape))).payoff

    def _levels(self, job: GangJob) -> list[Level]:
        levels = []
        for is_spread in (False, True):
            if is_spread and (job.gang == 1 or self._instance.forking):
                continue
            speeds = [job.rate((name,), is_spread=is_spread) for name in self._types]
            for rate in sorted({speed for speed in speeds if speed}, reverse=True):
                types = tuple(place for place, speed in enumerate(speeds) if speed >= rate)
                levels.append(Level(rate, is_spread, types))
        return levels

    def buy(self, job: GangJob, priced: PricedRounds) -> Purchase:
        """Return the schedule of most payoff.

        A partial schedule is a label: its steps and its cost. Labels go through the rounds; in
        each they wait or take a placement, of those of one speed the cheapest. A label that has
        no more steps and no less cost than another is dropped, as is one that costs as much as
        completing in the next round is worth, or that cannot complete. A completed label is a
        schedule: as utilities never rise with time and prices are not negative, nothing is gained
        by going on. With forking a round has a turn for each server, in which a copy may run
        there.

        Exact, since only labels are dropped from which a label kept reaches no less payoff; two
        schedules with the same steps and cost so far have the same futures. Beyond `MOST_LABELS`
        labels those of nearly the same steps are made one, with the most steps and the least
        cost of them: the payoff is then an upper bound. O(rounds labels speeds log labels), with
        forking times the servers; without merging labels may number (rounds + 1)^speeds.

        Parameters
        ----------
        job
            The buyer.
        priced
            Prices of all GPUs in all rounds.
        """
        search = _LabelSearch(
            worths=self.worths(job),
            first_round=self._instance.first_round(job),
            shares=np.array([level.rate for level in self.levels[job.id]])
            * (self._instance.round_s / float(due_steps(job))),
            costs=priced.costs(job),
        )
        payoff, last_round, turns = search.run()
        entries = tuple(
            RoundEntry(
                job=job.id,
                round=number,
                gpus=priced.placement(job, number, self.levels[job.id][level], server),
            )
            for number, server, level in turns
        )
        return Purchase(
            payoff=payoff,
            worth=float(search.worths[last_round]) if entries else 0.0,
            entries=entries,
            is_exact=search.is_exact,
        )

    def usage(self, entries: Sequence[RoundEntry]) -> NDArray[np.int64]:
        """Return the GPUs that entries take, by round, server and type."""
        server_at = {server.id: place for place, server in enumerate(self._instance.servers)}
        type_at = {name: place for place, name in enumerate(self._types)}
        used = np.zeros(self.shape, dtype=np.int64)
        for entry in entries:
            for server, types in entry.gpus.items():
                for name, count in types.items():
                    used[entry.round, server_at[server], type_at[name]] += count
        return used


class PricedRounds:
    """Prices of GPUs, and the cheapest placements at them.

    Parameters
    ----------
    oracle
        Whose instance they belong to.
    prices
        By round, server and type; at least 0.
    """

    def __init__(self, oracle: PricingOracle, prices: Prices) -> None:
        self._oracle = oracle
        self._instance = oracle._instance  # noqa: SLF001
        self.prices = prices
        self._known: dict[tuple[int, bool, tuple[int, ...]], NDArray[np.float64]] = {}

    def costs(self, job: GangJob) -> NDArray[np.float64]:
        """Return the least cost by round, turn and speed; inf where there are too few GPUs.

        A round has a turn for each server with forking, one turn without.
        """
        levels = self._oracle.levels[job.id]
        return np.stack([self._costs(job.gang, level) for level in levels], axis=-1)

    def _costs(self, gang: int, level: Level) -> NDArray[np.float64]:
        key = (gang, level.is_spread, level.types)
        if key not in self._known:
            rounds, servers, types = self._oracle.shape
            block = max(1, CELLS_BETWEEN_LOOKS_AT_THE_CLOCK // (servers * types))
            blocks = []
            for first in within_time(range(0, rounds, block)):
                prices = self.prices[first : first + block]
                if level.is_spread:
                    costs = self._spread_costs(prices, gang, level)[:, None]
                else:
                    costs = self._server_costs(prices, gang, level)
                    if not self._instance.forking:
                        costs = costs.min(axis=1, keepdims=True)
                blocks.append(costs)
            self._known[key] = np.concatenate(blocks)
        return self._known[key]

    def _server_costs(
        self, prices: NDArray[np.float64], gang: int, level: Level
    ) -> NDArray[np.float64]:
        """Return the cost of the cheapest GPUs by round and server."""
        types = list(level.types)
        prices = prices[:, :, types]
        order = np.argsort(prices, axis=2, kind="stable")
        there = np.broadcast_to(self._oracle.capacity[:, types], prices.shape)
        prices = np.take_along_axis(prices, order, axis=2)
        there = np.take_along_axis(there, order, axis=2)
        before = np.cumsum(there, axis=2) - there
        costs = (np.clip(gang - before, 0, there) * prices).sum(axis=2)
        return np.where(there.sum(axis=2) >= gang, costs, np.inf)

    def _spread_costs(
        self, prices: NDArray[np.float64], gang: int, level: Level
    ) -> NDArray[np.float64]:
        """Return the cost of the cheapest GPUs that are not all on one server, by round.

        If the cheapest are all on one server, the dearest of them gives way to the cheapest that
        is elsewhere: each GPU elsewhere costs no less than those, so one is enough.
        """
        servers = prices.shape[1]
        types = list(level.types)
        prices = prices[:, :, types].reshape(len(prices), -1)
        there = np.broadcast_to(self._oracle.capacity[:, types].ravel(), prices.shape)
        server = np.repeat(np.arange(servers), len(types))
        # Types that a server does not have would pass for the cheapest GPUs.
        prices = np.where(there > 0, prices, np.inf)
        order = np.argsort(prices, axis=1, kind="stable")
        prices = np.take_along_axis(prices, order, axis=1)
        there = np.take_along_axis(there, order, axis=1)
        server = server[order]
        before = np.cumsum(there, axis=1) - there
        taken = np.clip(gang - before, 0, there)
        known = np.where(there > 0, prices, 0.0)
        costs = (taken * known).sum(axis=1)
        elsewhere = server != server[:, :1]
        is_whole = ~((taken > 0) & elsewhere).any(axis=1)
        dearest = np.where(taken > 0, known, 0.0).max(axis=1)
        cheapest_elsewhere = np.where(elsewhere, prices, np.inf).min(axis=1)
        costs = np.where(is_whole, costs - dearest + cheapest_elsewhere, costs)
        return np.where(there.sum(axis=1) >= gang, costs, np.inf)

    def placement(self, job: GangJob, number: int, level: Level, turn: int) -> Placement:
        """Return the cheapest placement of a speed in a round.

        With forking, on the server whose turn it is.
        """
        capacity = self._oracle.capacity
        here = self.prices[number]

        def cheapest(servers: Sequence[int], gpus: int) -> list[tuple[int, int, int]]:
            cells = sorted(
                ((here[server, kind], server, kind) for server in servers for kind in level.types),
                key=lambda cell: cell[0],
            )
            taken = []
            for _, server, kind in cells:
                count = min(gpus, int(capacity[server, kind]))
                if count:
                    taken.append((server, kind, count))
                    gpus -= count
            return taken if not gpus else []

        def cost(cells: Sequence[tuple[int, int, int]]) -> float:
            return float(sum(here[server, kind] * count for server, kind, count in cells))

        everywhere = range(len(capacity))
        if self._instance.forking:
            cells = cheapest([turn], job.gang)
        elif level.is_spread:
            cells = cheapest(everywhere, job.gang)
            if len({server for server, _, _ in cells}) == 1:
                elsewhere = [server for server in everywhere if server != cells[0][0]]
                cells = cheapest([cells[0][0]], job.gang - 1) + cheapest(elsewhere, 1)
        else:
            of_server = (cheapest([server], job.gang) for server in everywhere)
            cells = min((cells for cells in of_server if cells), key=cost)
        placement: Placement = {}
        for server, kind, count in cells:
            of_types = placement.setdefault(self._instance.servers[server].id, {})
            of_types[self._instance.gpu_types[kind].name] = count
        return placement


class _LabelSearch:
    """The labels of one job; see `PricingOracle.buy`.

    Parameters
    ----------
    worths
        By last round.
    first_round
        In which the job may run.
    shares
        Part of its steps that the job does in a round, by speed.
    costs
        By round, turn and speed.
    """

    def __init__(
        self,
        worths: NDArray[np.float64],
        first_round: int,
        shares: NDArray[np.float64],
        costs: NDArray[np.float64],
    ) -> None:
        self.worths = worths
        self.is_exact = True
        self._first = first_round
        self._shares = shares
        self._costs = costs
        # The label that each label comes from, its speed, -1 for none, and when it took it.
        self._history: list[tuple[NDArray[np.int64], NDArray[np.int64], int, int]] = []

    def run(self) -> tuple[float, int, list[tuple[int, int, int]]]:
        """Return the best payoff, the last round, and round, turn and speed of what is bought."""
        rounds, turns, _ = self._costs.shape
        best, best_round = 0.0, 0
        best_turns: list[tuple[int, int, int]] = []
        # What can still be done from a round on.
        per_round = np.where(np.isfinite(self._costs), self._shares, 0.0).max(axis=2).sum(axis=1)
        ahead = np.append(np.cumsum(per_round[::-1])[::-1], 0.0)
        shares, costs = np.zeros(1), np.zeros(1)
        for number in within_time(range(self._first, rounds)):
            can_pay = costs < self.worths[number] - best
            can_end = shares + ahead[number] >= 1 - 2 * STEP_TOLERANCE
            shares, costs = self._keep(shares, costs, np.flatnonzero(can_pay & can_end))
            if not len(shares):
                break
            for turn in range(turns):
                shares, costs = self._extend(shares, costs, number, turn)
            is_complete = shares >= 1 - STEP_TOLERANCE
            if is_complete.any():
                chosen = int(np.argmin(np.where(is_complete, costs, np.inf)))
                payoff = float(self.worths[number] - costs[chosen])
                if payoff > best:
                    best, best_round = payoff, number
                    best_turns = self._path(chosen)
                shares, costs = self._keep(shares, costs, np.flatnonzero(~is_complete))
            else:
                shares, costs = self._keep(shares, costs, np.arange(len(shares)))
        return best, best_round, best_turns

    def _keep(
        self, shares: NDArray[np.float64], costs: NDArray[np.float64], kept: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        self._history.append((kept, np.full(len(kept), -1), 0, 0))
        return shares[kept], costs[kept]

    def _extend(
        self, shares: NDArray[np.float64], costs: NDArray[np.float64], number: int, turn: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Let each label wait or take a placement, and drop those that others are as good as."""
        of_speed = self._costs[number, turn]
        labels = len(shares)
        offered = np.flatnonzero(np.isfinite(of_speed))
        speeds = np.concatenate(([-1], offered))
        more = np.concatenate(([0.0], self._shares[offered]))
        price = np.concatenate(([0.0], of_speed[offered]))
        new_shares = np.minimum(shares + more[:, None], 1.0).ravel()
        new_costs = (costs + price[:, None]).ravel()
        origin = np.tile(np.arange(labels), len(speeds))
        speed = np.repeat(speeds, labels)
        order = np.lexsort((new_costs, -new_shares))
        sorted_costs = new_costs[order]
        cheapest_so_far = np.concatenate(([np.inf], np.minimum.accumulate(sorted_costs)[:-1]))
        kept = order[sorted_costs < cheapest_so_far]
        new_shares, new_costs = new_shares[kept], new_costs[kept]
        self._history.append((origin[kept], speed[kept], number, turn))
        if len(kept) > MOST_LABELS:
            new_shares, new_costs = self._merge(new_shares, new_costs)
        return new_shares, new_costs

    def _merge(
        self, shares: NDArray[np.float64], costs: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Let labels of nearly the same share have the most share and the least cost of them."""
        self.is_exact = False
        grid = MOST_LABELS // 2
        bucket = np.floor(shares * grid).astype(np.int64)
        # Shares fall and so do costs: the last label of a bucket is the cheapest, the first has
        # the most share.
        first = np.flatnonzero(np.concatenate(([True], bucket[1:] != bucket[:-1])))
        last = np.concatenate((first[1:] - 1, [len(bucket) - 1]))
        self._history.append((last, np.full(len(last), -1), 0, 0))
        return shares[first], costs[last]

    def _path(self, label: int) -> list[tuple[int, int, int]]:
        """Return round, turn and speed of all that a label has bought, in order."""
        bought = []
        for origin, speed, number, turn in reversed(self._history):
            if speed[label] >= 0:
                bought.append((number, turn, int(speed[label])))
            label = int(origin[label])
        return bought[::-1]


SCALES = (1.0, 0.5, 0.25, 0.1, 0.0)
"""By which given prices are multiplied; at 0 the bound is what all jobs are worth alone."""

MOST_STEPS = 60
PRICINGS_BUDGET = 40_000
"""Rounds times jobs, times servers with forking, that all steps may price."""

SAFETY = 1e-11
"""Relative; far more than the rounding of the sums, far less than what counts as a gap."""


class UtilityPriceBound(NamedTuple):
    """An upper bound on the optimum of a utility instance."""

    value: float
    """The best bound."""
    at_given_prices: float
    """That of the prices as they were given."""
    evaluations: int
    """Price vectors at which all jobs were priced."""
    relaxed: int
    """Jobs whose pricing problem was relaxed once at least, its payoff an upper bound."""


def price_bound(
    instance: Instance, prices: NDArray[np.float64], utility: float
) -> UtilityPriceBound:
    """Return an upper bound on the offline optimum from any prices.

    Weak duality. Let k[t, h, r] >= 0 be prices, c[h, r] the GPUs, S_j the schedules of job j that
    complete it, each in at most horizon rounds on at most all GPUs, w_js[t, h, r] what schedule s
    takes and U_js its weighted utility. Put::

        mu_j = max(0, max over s in S_j of U_js - sum of k[t, h, r] w_js[t, h, r])
        D(k) = sum_j mu_j + sum of k[t, h, r] c[h, r]

    Let an optimal solution complete the jobs J, job j by schedule s(j); jobs that do not complete
    are worth nothing. Then its value is the sum over J of U_js(j), at most the sum over J of
    mu_j + sum of k w_js(j), by the choice of mu_j; and that is at most D(k), since mu_j >= 0 and
    the schedules together take at most c[h, r] GPUs of a cell in a round, at k >= 0. So D(k) is no
    less than the optimum whatever the prices, and weights need no more than to be part of U_js.
    The pricing problem of each job is solved exactly (`PricingOracle.buy`), or relaxed upwards.

    The prices are scaled by each of `SCALES`; from the best of these, Polyak's subgradient steps
    towards `utility` follow, c - (what all jobs buy) being a subgradient of D; the best bound is
    kept. The number of steps depends on the size of the instance, and on the time limit in force.

    Parameters
    ----------
    instance
        With the objective utility.
    prices
        By round, server and type; at least 0.
    utility
        Of a known solution.
    """
    search = _PriceSearch(instance)
    at_given = search.evaluate(prices)[0]
    with suppress(OutOfTimeError):
        search.improve(prices, utility)
    return UtilityPriceBound(
        value=search.best * (1 + SAFETY),
        at_given_prices=at_given * (1 + SAFETY),
        evaluations=search.evaluations,
        relaxed=len(search.relaxed),
    )


class _PriceSearch:
    """Evaluates D and keeps the best; see `price_bound`."""

    def __init__(self, instance: Instance) -> None:
        self._instance, self._jobs = instance, instance.jobs
        self._oracle = PricingOracle(instance)
        self.best = np.inf
        self.best_prices = np.zeros(self._oracle.shape)
        self.evaluations = 0
        self.relaxed: set[str] = set()

    def improve(self, prices: NDArray[np.float64], utility: float) -> None:
        """Scale the prices, then step from the best of these."""
        instance = self._instance
        for scale in SCALES[1:]:
            self.evaluate(scale * prices)
        turns = len(instance.servers) if instance.forking else 1
        pricings = instance.horizon_rounds * len(instance.jobs) * turns
        here = self.best_prices
        for _ in range(min(MOST_STEPS, PRICINGS_BUDGET // pricings)):
            value, slope = self.evaluate(here)
            norm = float((slope**2).sum())
            if value <= utility or not norm:
                break
            here = np.maximum(0.0, here - (value - utility) / norm * slope)

    def evaluate(self, prices: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return D and a subgradient."""
        priced = PricedRounds(self._oracle, prices)
        slope = np.broadcast_to(self._oracle.capacity, prices.shape).astype(np.float64)
        value = float((prices * slope).sum())
        for job in within_time(self._jobs):
            purchase = self._oracle.buy(job, priced)
            value += purchase.payoff
            slope -= self._oracle.usage(purchase.entries)
            if not purchase.is_exact:
                self.relaxed.add(job.id)
        self.evaluations += 1
        if value < self.best:
            self.best, self.best_prices = value, prices
        return value, slope
