"""Upper bounds on the offline utility from GPU prices, at which each job buys a schedule."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.stopwatch import OutOfTimeError, within_time
from lyra_opt.heterogeneous.checker import due_steps, worth
from lyra_opt.heterogeneous.instance import GangJob, Instance, Placement, RoundEntry

Prices = NDArray[np.float64]
"""Price of a GPU by round, server and type."""


MOST_LABELS = 20_000
"""Most partial schedules kept per job; beyond this number labels are merged and bounds relaxed."""

STEP_TOLERANCE = 1e-12
"""Allowance for rounding in sums of steps, on the safe side for upper bounds."""


CELLS_BETWEEN_CLOCK_CHECKS = 2**17
"""Number of prices whose sorting takes about ten milliseconds."""
ROUNDS_BETWEEN_CLOCK_CHECKS = 200
"""Number of completions whose utility takes some milliseconds."""


@dataclass(frozen=True, slots=True)
class Level:
    """A rate at which a job can run, with the GPU types that allow this rate.

    Parameters
    ----------
    rate
        Steps per second, above 0.
    is_spread
        Whether the gang is on several servers.
    types
        Positions of the GPU types on which the job runs at `rate` or faster.
    """

    rate: float
    is_spread: bool
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase:
    """The schedule that a job buys at given GPU prices.

    Parameters
    ----------
    payoff
        Utility minus cost, at least 0; 0 if the job buys nothing.
    worth
        Weighted utility of the schedule.
    entries
        Entries of the schedule; empty if the job buys nothing.
    is_exact
        Whether the payoff is the maximum; if not, it is an upper bound on the maximum.
    """

    payoff: float
    worth: float
    entries: tuple[RoundEntry, ...]
    is_exact: bool


class PricingOracle:
    """Finds, at given GPU prices, the most profitable schedule of each job.

    Parameters
    ----------
    instance
        An instance with the objective utility.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._types = [gpu_type.name for gpu_type in instance.gpu_types]
        self.capacity = np.array(
            [[server.gpus.get(name, 0) for name in self._types] for server in instance.servers]
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of price arrays: numbers of rounds, servers and GPU types."""
        return (self._instance.horizon_rounds, *self.capacity.shape)

    @cached_property
    def levels(self) -> dict[str, list[Level]]:
        """The rates of each job, fastest first, by job id."""
        return {job.id: self._levels(job) for job in self._instance.jobs}

    def worths(self, job: GangJob) -> NDArray[np.float64]:
        """Return the weighted utility of a job by the round in which it completes."""
        first = self._instance.first_round(job)
        rounds = range(self._instance.horizon_rounds)
        return np.array(
            [
                float(worth(self._instance, job, last)) if last >= first else 0.0
                for last in within_time(rounds, ROUNDS_BETWEEN_CLOCK_CHECKS)
            ]
        )

    def most_worth(self, job: GangJob) -> float:
        """Return the best utility of a job alone on the cluster, 0 if it cannot complete."""
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

    def buy(self, job: GangJob, priced: "PricedRounds") -> Purchase:
        """Return a job's schedule with the largest payoff, which is utility minus cost of GPUs.

        The search extends labels round by round. A label is a partial schedule, given by its steps
        and its cost. In each round a label waits or takes the cheapest placement of one rate. A
        label is dropped if another has at least its steps and at most its cost. It is also dropped
        if its cost reaches the utility of completing in the next round, or if it can no longer
        complete. A completed label is a schedule: utilities never rise with time and prices are not
        negative, so further rounds cannot improve it. With forking a round has one turn per server,
        in which a copy may run on that server.

        The result is exact: a dropped label cannot reach a larger payoff than some label that is
        kept, because labels with equal steps and cost have the same futures. Beyond `MOST_LABELS`
        labels, those with nearly equal steps are merged into one with their most steps and their
        least cost; the payoff is then an upper bound. O(rounds labels speeds log labels), times
        the servers with forking; without merging there may be (rounds + 1)^speeds labels.

        Parameters
        ----------
        job
            The job that buys.
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
        """Return the number of GPUs that schedule entries use, by round, server and type."""
        server_at = {server.id: place for place, server in enumerate(self._instance.servers)}
        type_at = {name: place for place, name in enumerate(self._types)}
        used = np.zeros(self.shape, dtype=np.int64)
        for entry in entries:
            for server, types in entry.gpus.items():
                for name, count in types.items():
                    used[entry.round, server_at[server], type_at[name]] += count
        return used


class PricedRounds:
    """GPU prices by round, server and type, with the cheapest placements of gangs.

    Parameters
    ----------
    oracle
        The oracle of the instance.
    prices
        Price of a GPU by round, server and type; at least 0.
    """

    def __init__(self, oracle: PricingOracle, prices: Prices) -> None:
        self._oracle = oracle
        self._instance = oracle._instance  # noqa: SLF001
        self.prices = prices
        self._known: dict[tuple[int, bool, tuple[int, ...]], NDArray[np.float64]] = {}

    def costs(self, job: GangJob) -> NDArray[np.float64]:
        """Return the least cost of a gang, shape (rounds, turns, speeds); inf if it does not fit.

        With forking, a round has one turn per server; without, one turn.
        """
        levels = self._oracle.levels[job.id]
        return np.stack([self._costs(job.gang, level) for level in levels], axis=-1)

    def _costs(self, gang: int, level: Level) -> NDArray[np.float64]:
        key = (gang, level.is_spread, level.types)
        if key not in self._known:
            rounds, servers, types = self._oracle.shape
            block = max(1, CELLS_BETWEEN_CLOCK_CHECKS // (servers * types))
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
        """Return the least cost of a gang on one server, by round and server.

        The cost is infinite if the gang does not fit.
        """
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
        """Return the least cost of a gang on at least two servers, by round.

        If the cheapest GPUs are all on one server, the dearest of them is exchanged for the
        cheapest GPU of another server. GPUs of other servers cost no less, so one exchange is
        enough.
        """
        servers = prices.shape[1]
        types = list(level.types)
        prices = prices[:, :, types].reshape(len(prices), -1)
        there = np.broadcast_to(self._oracle.capacity[:, types].ravel(), prices.shape)
        server = np.repeat(np.arange(servers), len(types))
        # A GPU type that a server lacks gets an infinite price, so it never looks cheapest.
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
        """Return the cheapest placement of a job at a given rate in one round.

        With forking, the placement is on the server of the turn.
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
    """Labelling search for one job's schedule with the largest payoff at given GPU prices.

    Parameters
    ----------
    worths
        Utility by the round in which the job completes.
    first_round
        First round in which the job may run.
    shares
        Fraction of its steps that the job does in a round, by speed.
    costs
        Cost of the cheapest gang, by round, turn and speed.
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
        # For each step: its labels' parents and speeds (-1 if a label waits), its round and turn.
        self._history: list[tuple[NDArray[np.int64], NDArray[np.int64], int, int]] = []

    def run(self) -> tuple[float, int, list[tuple[int, int, int]]]:
        """Return the largest payoff, the round of completion, and the purchases of GPUs.

        A purchase is (round, turn, index of the speed).
        """
        rounds, turns, _ = self._costs.shape
        best, best_round = 0.0, 0
        best_turns: list[tuple[int, int, int]] = []
        # For each round, the fraction of the job's steps that can be done from that round on.
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
        """Let each partial schedule (label) wait or take GPUs, and drop dominated labels."""
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
        """Merge labels with nearly equal progress, keeping the most progress and the least cost."""
        self.is_exact = False
        grid = MOST_LABELS // 2
        bucket = np.floor(shares * grid).astype(np.int64)
        # Labels are sorted by falling share and cost, so a bucket's last label is the cheapest.
        first = np.flatnonzero(np.concatenate(([True], bucket[1:] != bucket[:-1])))
        last = np.concatenate((first[1:] - 1, [len(bucket) - 1]))
        self._history.append((last, np.full(len(last), -1), 0, 0))
        return shares[first], costs[last]

    def _path(self, label: int) -> list[tuple[int, int, int]]:
        """Return the purchases of a partial schedule, in order, as (round, turn, speed)."""
        bought = []
        for origin, speed, number, turn in reversed(self._history):
            if speed[label] >= 0:
                bought.append((number, turn, int(speed[label])))
            label = int(origin[label])
        return bought[::-1]


SCALES = (1.0, 0.5, 0.25, 0.1, 0.0)
"""Factors for the given prices; at 0 the bound is the sum of what each job earns alone."""

MOST_STEPS = 60
PRICINGS_BUDGET = 40_000
"""Most pricings in all steps; one pricing is a job in a round (with forking, on one server)."""

SAFETY = 1e-11
"""Relative allowance: far above the rounding of the sums, far below a relevant gap."""


class UtilityPriceBound(NamedTuple):
    """An upper bound on the optimum of a utility instance, with the effort that it took."""

    value: float
    """The best bound found."""
    at_given_prices: float
    """The bound at the given prices."""
    evaluations: int
    """Number of price vectors that were evaluated."""
    relaxed: int
    """Number of jobs whose pricing problem was relaxed at least once."""


def price_bound(
    instance: Instance, prices: NDArray[np.float64], utility: float
) -> UtilityPriceBound:
    """Return an upper bound on the best offline utility, derived from given GPU prices.

    By weak duality. Let k[t, h, r] >= 0 be prices and c[h, r] the GPUs. Let S_j be the schedules
    that complete job j within the horizon on at most all GPUs. Schedule s takes w_js[t, h, r] GPUs
    and has the weighted utility U_js. Put::

        mu_j = max(0, max over s in S_j of U_js - sum of k[t, h, r] w_js[t, h, r])
        D(k) = sum_j mu_j + sum of k[t, h, r] c[h, r]

    Let an optimal solution complete the jobs J, job j by schedule s(j); jobs that do not complete
    earn nothing. Its value is the sum over J of U_js(j). By the choice of mu_j this is at most the
    sum over J of mu_j + sum of k w_js(j). That is at most D(k), because mu_j >= 0, k >= 0, and the
    schedules together take at most c[h, r] GPUs of a cell in a round. So D(k) is at least the
    optimum whatever the prices. Weights only need to be part of U_js. The pricing problem of each
    job is solved exactly (`PricingOracle.buy`) or relaxed upwards.

    The prices are scaled by each of `SCALES`. From the best of these, Polyak's subgradient steps
    aim at `utility`; c minus the GPUs that all jobs buy is a subgradient of D. The best bound is
    kept. The number of steps depends on the size of the instance and on the current time limit.

    Parameters
    ----------
    instance
        An instance with the objective utility.
    prices
        Price of a GPU by round, server and type; at least 0.
    utility
        Objective of a known solution.
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
    """Search for GPU prices that minimise the dual function D of `price_bound`."""

    def __init__(self, instance: Instance) -> None:
        self._instance, self._jobs = instance, instance.jobs
        self._oracle = PricingOracle(instance)
        self.best = np.inf
        self.best_prices = np.zeros(self._oracle.shape)
        self.evaluations = 0
        self.relaxed: set[str] = set()

    def improve(self, prices: NDArray[np.float64], utility: float) -> None:
        """Lower the dual bound by scaling the GPU prices, then by subgradient steps."""
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
        """Return the dual bound at the given GPU prices, and a subgradient in the prices."""
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
