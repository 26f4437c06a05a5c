"""Hadar: in each round, jobs buy GPUs of any types at exponential prices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, log

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.heterogeneous.heuristics.hadar.kernel import (
    Basket,
    Beam,
    Buyers,
    Market,
    Offer,
    allocate_queue,
)
from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, RoundPolicy, RoundState
from lyra_opt.heterogeneous.instance import Placement
from lyra_opt.heterogeneous.utility import InverseJct

LOG_LEAST_SHARE = log(1e-12)
"""Log of the least price relative to the highest, if no job has utility above 0 at the horizon."""


@dataclass(frozen=True, slots=True)
class PriceRange:
    """Range of a GPU's price for one type: lowest if all GPUs are idle, highest if all are used.

    Parameters
    ----------
    log_least, log_most
        Logarithms of the two prices, which may differ widely; both -inf if no job can use the type.
    """

    log_least: float
    log_most: float

    def price(self, used: int, capacity: int) -> float:
        """Return the price U_min (U_max / U_min)^(used / capacity)."""
        if self.log_most == -inf:
            return 0.0
        return exp(self.log_least + (self.log_most - self.log_least) * used / capacity)

    @property
    def log_ratio(self) -> float:
        """The logarithm ln(U_max / U_min); 0 if no job can use the type."""
        return 0.0 if self.log_most == -inf else self.log_most - self.log_least


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedJobs:
    """Gangs, run times and utilities of the active jobs, from which Hadar's prices follow.

    Parameters
    ----------
    gangs
        Shape (jobs,): size of each gang.
    can_run
        Shape (jobs, types): whether a job can run on a type.
    longest_rounds
        Shape (jobs,): number of rounds that each job takes on its slowest type.
    most_worth, last_worth
        Shape (jobs,): weighted utility if the job never waits and runs on its fastest type, and if
        it completes at the horizon.
    """

    gangs: NDArray[np.int64]
    can_run: NDArray[np.bool_]
    longest_rounds: NDArray[np.float64]
    most_worth: NDArray[np.float64]
    last_worth: NDArray[np.float64]


def rounds_to_run(steps: float, rate: float, round_s: float) -> int:
    """Return the number of rounds, at least 1, that a job needs at a rate."""
    return max(1, ceil(steps / (rate * round_s) * (1 - 1e-9)))


def all_rounds_to_run(
    steps: NDArray[np.float64], rates: NDArray[np.float64], round_s: float
) -> NDArray[np.float64]:
    """Return the number of rounds, at least 1, that each job needs at each rate.

    This is `rounds_to_run` for arrays that broadcast; rates may be inf.
    """
    return np.maximum(1.0, np.ceil(steps / (rates * round_s) * (1 - 1e-9)))


def price_ranges(jobs: PricedJobs, gpus: int) -> list[PriceRange]:
    """Return Hadar's price range U_min to U_max of each type.

    Source: Hadar (arXiv 2503.10918). It is well established that prices grow exponentially between
    two constants. The constants below are from memory, with high to medium confidence for their
    form and medium confidence for the factor 1 / (4 eta)::

        U_max^r = max_j U_j(t_j^min) / W_j
        U_min^r = min_j U_j(T - a_j) / (t_j^max W_j) / (4 eta)
        1 / eta = min_j t_j^max W_j / (GPUs of the cluster)

    W_j is the gang, and t_j^min and t_j^max are the rounds that the job takes on its fastest and on
    its slowest type. The extremes run over the jobs that can run on type r. Prices are per GPU and
    round. Jobs without utility at the horizon are left out of U_min; if all are left out, U_min is
    1e-12 U_max. O(jobs types).

    Parameters
    ----------
    jobs
        Data of the active jobs.
    gpus
        Number of GPUs in the cluster.
    """
    with np.errstate(divide="ignore"):
        gpu_rounds = jobs.longest_rounds * jobs.gangs
        most = np.log(jobs.most_worth / jobs.gangs)
        least = np.log(jobs.last_worth / gpu_rounds)
    least[least == -inf] = inf
    is_runnable = jobs.can_run.any(axis=1)
    log_inverse_eta = log(gpu_rounds[is_runnable].min() / gpus) if is_runnable.any() else 0.0
    ranges = []
    for can_run in jobs.can_run.T:
        log_most = float(most[can_run].max(initial=-inf))
        log_least = float(least[can_run].min(initial=inf)) + log_inverse_eta - log(4)
        if log_least == inf:
            log_least = log_most + LOG_LEAST_SHARE
        ranges.append(PriceRange(min(log_least, log_most), log_most))
    return ranges


def competitive_ratio(ranges: Sequence[PriceRange]) -> float:
    """Return Hadar's competitive ratio 2 alpha, with alpha = max(1, ln(U_max / U_min)).

    The maximum runs over the GPU types.

    The form is from memory (high confidence). It is a theorem only in the setting of
    `lyra_opt.heterogeneous.heuristics.hadar.solver`; elsewhere it only serves for comparison with
    observed ratios.
    """
    return 2 * max(1.0, *(each.log_ratio for each in ranges))


DEFAULT_WIDTH = 8


class Hadar(RoundPolicy):
    """Hadar's online primal-dual scheduler in its preemptive form, which decides in each round.

    Source: Hadar (arXiv 2503.10918, IPDPS 2024), reconstructed mostly from memory. High confidence:
    the form of the prices, all-or-nothing gangs on mixed types at the speed of the slowest, and the
    two kinds of candidates. Medium confidence: the constants of the prices (`price_ranges`) and the
    order of the search.

    A GPU of type r on server h costs U_min^r (U_max^r / U_min^r)^(used / capacity) for the round.
    The payoff of a placement is the job's weighted utility if it keeps this speed until its end,
    minus the cost of the placement for one round. A job runs only if its payoff is above 0.
    `find_allocation` returns the placement with the largest payoff on one server or several. A
    dynamic programme over the queue chooses the jobs: it takes each job's best placement or skips
    the job. States with equal numbers of free GPUs of each type are merged, and the `width` most
    promising states are kept. With `width` 1 it is the greedy rule; without a bound it would be
    exponential in the types. The queue is sorted by best utility per GPU of the gang. This order
    and the bound on states are our own, because the paper's are not known to us.

    Complexity of a decision: O(width jobs servers types (types + gang)), and gang times that for
    gangs spread over servers. Guarantee: none known in this form; `hadar-committed` has one.
    `lyra_opt.heterogeneous.bounds.utility_prices` bounds the distance to the optimum.

    Parameters
    ----------
    width
        Number of states that the dynamic programme keeps.
    communication_cost
        Relative surcharge on the cost of GPUs on several servers. The default is 0, because
        `GangJob.spread_throughput`, and hence the utility, already contains the loss of speed.
    """

    name = "hadar"

    def __init__(self, width: int = DEFAULT_WIDTH, communication_cost: float = 0.0) -> None:
        self._width = require_integer("width", width, minimum=1)
        cost = require_number("communication_cost", communication_cost, minimum=0)
        self._spread_cost = 1.0 + cost
        self._rates: dict[str, list[float]] = {}
        self.last_ranges: dict[str, PriceRange] = {}
        """Price ranges of the last decision, by type."""

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Store the cluster in flat arrays."""
        self._types = [gpu_type.name for gpu_type in state.gpu_types]
        kind_of = {name: kind for kind, name in enumerate(self._types)}
        cells = [
            (place, kind_of[name], count)
            for place, server in enumerate(state.servers)
            for name, count in server.gpus.items()
        ]
        self._name_of_cell = [(server.id, name) for server in state.servers for name in server.gpus]
        self._home, self._kind, capacity = np.array(cells, dtype=np.int64).T.copy()
        _, first_of_group, group = np.unique(
            np.stack((self._kind, capacity)), axis=1, return_index=True, return_inverse=True
        )
        self._market = Market(
            types=len(self._types),
            first_cell=np.searchsorted(self._home, np.arange(len(state.servers) + 1)),
            capacity=capacity,
            first_price=np.cumsum(capacity) - capacity,
            prices=np.zeros(capacity.sum()),
            group=group.ravel(),
            first_of_group=first_of_group,
            spread_cost=self._spread_cost,
        )
        self._gpus_of_type = np.bincount(self._kind, capacity, len(self._types)).astype(np.int64)

    def decide(self, state: RoundState) -> Decision:
        """Return the placement of each gang in the round."""
        queue = self._queue(state)
        ranges = self._ranges(state, queue)
        self.last_ranges = dict(zip(self._types, ranges, strict=True))
        # Cells of a group have equal prices, which are computed once.
        capacities = self._market.capacity
        price_of = [
            [ranges[self._kind[cell]].price(used, capacity) for used in range(capacity)]
            for cell in self._market.first_of_group.tolist()
            for capacity in (int(capacities[cell]),)
        ]
        groups = self._market.group.tolist()
        prices = np.array([price for group in groups for price in price_of[group]])
        market = self._market._replace(prices=prices)
        return {
            queue.jobs[job].job.id: (self._placement(pairs),)
            for job, pairs in self._taken(queue.buyers, market)
        }

    def _ranges(self, state: RoundState, queue: "_Queue") -> list[PriceRange]:
        """Return the price range of each type."""
        gpus = int(self._gpus_of_type.sum())
        rates = queue.buyers.rates.reshape(len(queue.jobs), 2, -1)
        slowest = np.where(rates > 0, rates, np.inf).min(axis=(1, 2))
        horizon_s = horizon_of(state, gpus)
        return price_ranges(
            PricedJobs(
                gangs=queue.buyers.gangs,
                can_run=(rates[:, 0] > 0) | (rates[:, 1] > 0),
                longest_rounds=all_rounds_to_run(queue.steps, slowest, state.round_s),
                most_worth=queue.buyers.values.reshape(len(queue.jobs), -1).max(axis=1),
                last_worth=np.array([worth_at(active, horizon_s) for active in queue.jobs]),
            ),
            gpus,
        )

    def _queue(self, state: RoundState) -> "_Queue":
        """Return the jobs sorted by best utility per GPU of the gang; ties by submission."""
        rates = np.array([self._rates_of(active) for active in state.jobs])
        steps = np.array([active.steps_left for active in state.jobs])
        values = _values(state, rates, steps)
        gangs = np.array([active.job.gang for active in state.jobs], dtype=np.int64)
        by_type = values.reshape(len(gangs), 2, -1).max(axis=1) / gangs[:, None]
        order = np.argsort(-by_type.max(axis=1), kind="stable")
        from_here_on = np.maximum.accumulate(by_type[order][::-1], axis=0)[::-1]
        return _Queue(
            jobs=[state.jobs[place] for place in order.tolist()],
            steps=steps[order],
            buyers=Buyers(
                gangs=gangs[order],
                rates=rates[order].ravel(),
                values=values[order].ravel(),
                densities=np.append(from_here_on.ravel(), np.zeros(by_type.shape[1])),
            ),
        )

    def _rates_of(self, active: ActiveJob) -> list[float]:
        """Return the speed on each type, first on one server, then on several."""
        job = active.job
        if job.id not in self._rates:
            spread = job.throughput if job.spread_throughput is None else job.spread_throughput
            self._rates[job.id] = [
                rates.get(name, 0.0) for rates in (job.throughput, spread) for name in self._types
            ]
        return self._rates[job.id]

    def _taken(self, buyers: Buyers, market: Market) -> Iterator[tuple[int, list[int]]]:
        """Choose the jobs that run; yield the queue position of each, with cells and GPU counts."""
        jobs, types, cells = len(buyers.gangs), market.types, len(market.capacity)
        states, most = 2 * self._width + 1, 2 * int(buyers.gangs.max())
        levels = int(market.capacity.max()) + 1
        counts = len(market.first_of_group) * levels
        beam = Beam(
            width=self._width,
            row=np.arange(states),
            free=np.zeros(states * cells, dtype=np.int64),
            tally=np.zeros(states * counts, dtype=np.int64),
            left=np.zeros(states * types, dtype=np.int64),
            gains=np.zeros(states),
            optimism=np.zeros(states),
            is_exact=np.zeros(states, dtype=np.int64),
            last_take=np.full(states, -1),
            take_before=np.zeros(jobs * self._width, dtype=np.int64),
            placement=np.zeros(jobs * self._width * most, dtype=np.int64),
        )
        beam.free[:cells] = market.capacity
        beam.tally[:counts] = np.bincount(market.group * levels + market.capacity, minlength=counts)
        beam.left[:types] = self._gpus_of_type
        path, length, placements = allocate_queue.run(
            buyers,
            market,
            Offer(
                home=self._home,
                kind=self._kind,
                left=np.zeros(cells, dtype=np.int64),
                price=np.zeros(cells),
                estimate=np.zeros(counts),
            ),
            beam,
            Basket(trial=np.zeros(most, dtype=np.int64), best=np.zeros(most, dtype=np.int64)),
            np.zeros(jobs, dtype=np.int64),
            work=jobs * self._width * cells * types,
            largest=jobs * self._width * max(cells, most),
        )
        takes = np.array(path[:length][::-1], dtype=np.int64)
        rows = np.asarray(placements).reshape(-1, most)[takes]
        yield from zip((takes // self._width).tolist(), rows.tolist(), strict=True)

    def _placement(self, pairs: Sequence[int]) -> Placement:
        """Convert a flat list of pairs (cell, GPUs) to a placement; zeros are padding."""
        placement: Placement = {}
        for cell, count in zip(pairs[::2], pairs[1::2], strict=True):
            if not count:
                break
            server, gpu_type = self._name_of_cell[cell]
            placement.setdefault(server, {})[gpu_type] = count
        return placement


@dataclass(frozen=True, slots=True)
class _Queue:
    """The active jobs in queue order, with their data for the kernel."""

    jobs: list[ActiveJob]
    steps: NDArray[np.float64]
    buyers: Buyers


def worth_at(active: ActiveJob, time_s: float) -> float:
    """Return the weighted utility of a job that completes at `time_s`."""
    jct_s = time_s - active.submitted_s
    return active.job.weight * active.job.utility.at(jct_s) if jct_s > 0 else 0.0


def horizon_of(state: RoundState, gpus: int) -> float:
    """Return the time by which all jobs should complete, in seconds.

    If the instance does not state it, it is estimated as the sum of three times: now, the time in
    which all GPUs together run the active jobs on their slowest types, and the longest run time of
    a job.
    """
    if state.horizon_s is not None:
        return state.horizon_s
    longest_s = busy_gpu_s = 0.0
    for active in state.jobs:
        slowest = min(rate for rate in active.job.throughput.values() if rate)
        run_s = rounds_to_run(active.steps_left, slowest, state.round_s) * state.round_s
        longest_s = max(longest_s, run_s)
        busy_gpu_s += run_s * active.job.gang
    return state.now_s + longest_s + busy_gpu_s / gpus


def _values(
    state: RoundState, rates: NDArray[np.float64], steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return each job's utility at each speed, if it keeps the speed to its end; 0 at speed 0."""
    submitted_s = np.array([active.submitted_s for active in state.jobs])
    weights = np.array([active.job.weight for active in state.jobs])
    rounds = all_rounds_to_run(steps[:, None], np.where(rates > 0, rates, np.inf), state.round_s)
    jcts_s = state.now_s + rounds * state.round_s - submitted_s[:, None]
    utilities = [active.job.utility for active in state.jobs]
    # The default utility, inverse JCT, is computed for all jobs at once, other utilities singly.
    scales = np.array(
        [each.scale if isinstance(each, InverseJct) else np.nan for each in utilities]
    )
    values = (weights * scales)[:, None] / jcts_s
    for row in np.flatnonzero(np.isnan(scales)).tolist():
        worths = [utilities[row].at(jct_s) for jct_s in jcts_s[row].tolist()]
        values[row] = weights[row] * np.array(worths)
    return np.where(rates > 0, values, 0.0)
