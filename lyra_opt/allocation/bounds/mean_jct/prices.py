"""Prices of GPU time: the strongest bound on mean JCT without a search, for up to 200 jobs.

With a price on each GPU-second, constant within each interval of a grid, every job can choose its
schedule independently. It chooses when to start and complete, and how many workers to hold in
between, never fewer than w_min, so that its completion time plus its payment is least. The sum of
these minima minus the price of the whole cluster bounds the sum of completion times for any prices
(Lagrangian relaxation). Unlike mean busy times, it charges a job that is interrupted for the full
delay.

**One job.** Fix the intervals i and k of its start and its completion. Let mu be the value of a
unit of work, w and e the work per second of the base demand and of the extra workers, and g and a
the GPUs per unit of work per second of each. An interval m between i and k costs ``phi_m = w (g
price_m - mu) - e max(0, mu - a price_m)`` per second. Then ::

    mu p + begin_k + min(0, d_i phi_i) + sum of d_m phi_m + min(0, d_k (1 + phi_k))

with lengths d is at most the cost of each such schedule, and its maximum over mu is the least cost
by duality. The minimum of the job is the least of these maxima over all pairs. A table holds the
largest known value of each pair. It shows which pair to solve next, and the mu of that pair raises
the whole table. Maximising over mu the minimum over all pairs would be weaker, because that mixes
runs of different lengths.

**The prices.** The minimum of each job is concave in the prices, and each schedule found is a
linear function that lies above it. A linear programme maximises the sum of these upper models near
the best prices so far (cutting planes with a trust region; in the dual: column generation). The
first prices are those of the mean busy times.

**More jobs.** For more jobs the problem is relaxed further: jobs may be interrupted at any moment.
Then the cheapest schedule of each job at given prices buys work where it is cheap, and one pass
over all jobs takes milliseconds (`lyra_opt.pricing`, which also bounds whole replays). Between the
base demand and all workers, the rate is that of the convex hull.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lyra_opt.allocation.bounds.mean_jct.busy_times import MeanBusyTimes
from lyra_opt.allocation.bounds.mean_jct.data import BoundData, safe_difference
from lyra_opt.allocation.instance import Instance
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.stopwatch import OutOfTimeError, loading, within_time
from lyra_opt.pricing.ascent import Pricer, Room, ascend, first_prices, safe_value
from lyra_opt.pricing.kernel import PricedJobs

LARGEST_FOR_PRICES = 200
"""Up to this many jobs the bound takes a second or two."""
PRICE_NODES = 120
"""Number of ends of price intervals besides the releases."""
ROUNDS = 30
"""Number of price updates."""
LEAST_PROMISE = 3e-4
"""The rounds end when the upper models promise a smaller relative rise."""
PRICING_GAP = 1e-5
"""Relative accuracy of the minimum of a job."""
MOST_PAIRS = 60
"""Most pairs of start and completion that are solved for a job before its table is used."""
FIRST_TRUST, LEAST_TRUSTED = 0.3, 0.1
"""First trust region, relative to each price, and the least price as a share of the highest."""


def priced_schedules_bound(instance: Instance, rounds: int = ROUNDS) -> float:
    """Return the lower bound on mean JCT from prices of GPU time, in seconds.

    Parameters
    ----------
    rounds
        Number of price updates; fewer give a weaker bound.

    Notes
    -----
    Source: this project. Complexity: a round prices n jobs, in O(T^2) per solved pair with T
    intervals, and solves a linear programme with T + n columns and at most n more rows each time.
    """
    data = BoundData(instance)
    busy = MeanBusyTimes(data, PRICE_NODES)
    times = np.unique(busy.times)
    first = busy.prices(busy.ascent(), times[:-1], (times[:-1] + times[1:]) / 2)
    return PricedSchedules(data, times).bound(first, rounds)


class JobSchedule(NamedTuple):
    """The cheapest schedule of a job with given intervals of its start and its completion."""

    cost: float
    completion: float
    usage: FloatArray
    """GPU-seconds used in each interval."""
    multiplier: float
    """Value of a unit of work at which the bound of the pair equals the cost."""


class PricedJob:
    """A job whose cheapest schedule is computed at given prices of GPU time per interval.

    Parameters
    ----------
    data
        The jobs.
    job
        Position of the job in the arrays of `data`.
    begin, length
        Begin and length of the intervals from its release on.
    runs
        Whether it starts at the begin of the first interval.
    """

    def __init__(
        self, data: BoundData, job: int, begin: FloatArray, length: FloatArray, *, runs: bool
    ) -> None:
        self.begin, self.length, self.runs = begin, length, runs
        self.work = float(data.work[job])
        self.base = float(data.base_rate[job])
        self.extra = float(data.top_rate[job] - data.base_rate[job])
        self.base_gpus = float(data.gpus_per_work[job])
        efficiency = float(data.efficiency[job])
        self.extra_gpus = self.base_gpus / efficiency if efficiency > 0 else self.base_gpus
        alone = begin[0] + float(data.height[job])
        self.pair = 0, int(np.searchsorted(begin, alone, side="right")) - 1
        """Intervals of start and completion of the best schedule at the last prices."""

    def cheapest(self, prices: FloatArray) -> tuple[float, JobSchedule, float]:
        """Return a lower bound on the job's cost, its best schedule, and the magnitude of its sums.

        The cost is the completion time plus the payment for GPU time. The magnitude bounds the
        rounding error.
        """
        best = self.schedule(*self.pair, prices)
        assert best is not None
        # A schedule that completes after this interval costs more than the best known schedule.
        ends = max(self.pair[1] + 1, int(np.searchsorted(self.begin, best.cost)))
        table = self._possible(ends)
        size, multiplier = 0.0, best.multiplier
        for _ in range(MOST_PAIRS):
            bounds, largest = self._bounds(multiplier, prices, ends)
            size = max(size, largest)
            np.maximum(table, bounds, out=table)
            while True:
                place = int(table.argmin())
                lowest = float(table.flat[place])
                if lowest >= best.cost - PRICING_GAP * (best.cost - self.begin[0]):
                    return min(lowest, best.cost), best, size
                pair = place // ends, place % ends
                found = self.schedule(*pair, prices)
                if found is not None:
                    break
                table.flat[place] = math.inf
            multiplier = found.multiplier
            if found.cost < best.cost:
                best, self.pair = found, pair
        return min(lowest, best.cost), best, size

    def _possible(self, ends: int) -> FloatArray:
        """Return a table of start and completion intervals, -inf if feasible, otherwise inf."""
        begin, end = self.begin[:ends], (self.begin + self.length)[:ends]
        starts = 1 if self.runs else ends
        least = self.base * (begin[None, :] - end[:starts, None])
        most = (self.base + self.extra) * (end[None, :] - begin[:starts, None])
        slack = 1e-9 * self.work
        possible = (least <= self.work + slack) & (most >= self.work - slack)
        possible &= np.arange(ends)[None, :] >= np.arange(starts)[:, None]
        return np.where(possible, -np.inf, np.inf)

    def _bounds(self, multiplier: float, prices: FloatArray, ends: int) -> tuple[FloatArray, float]:
        """Return the cost bound of each pair of start and completion intervals, and its magnitude.

        The argument `multiplier` is the value of a unit of work. The magnitude bounds the rounding
        error.
        """
        price, length = prices[:ends], self.length[:ends]
        cost = self.base * (self.base_gpus * price - multiplier)
        cost -= self.extra * np.maximum(multiplier - self.extra_gpus * price, 0.0)
        gain = length * cost
        total = np.concatenate(([0.0], np.cumsum(gain)))
        start = gain[:1] if self.runs else np.minimum(gain, 0.0)
        value = multiplier * self.work
        end = value + self.begin[:ends] + np.minimum(length * (1 + cost), 0.0)
        bounds = (start - total[1 : len(start) + 1])[:, None] + (end + total[:-1])[None, :]
        np.fill_diagonal(bounds, end)
        size = abs(value) + float(np.abs(gain).sum()) + float(np.abs(end).max())
        return bounds, size

    def schedule(self, start: int, end: int, prices: FloatArray) -> JobSchedule | None:
        """Return the cheapest schedule from interval `start` to interval `end`; None if infeasible.

        Work is bought in the order of its unit cost. Between the two intervals the base demand is
        held in any case.
        """
        price, length = prices[start : end + 1], self.length[start : end + 1]
        base, extra, g, a = self.base, self.extra, self.base_gpus, self.extra_gpus
        # Extra workers may do work in every interval except the last.
        # Base workers in the first interval, and all workers in the last, may also do work.
        inner = np.arange(len(price) - 1)
        unit_cost, work, gpu_s, place = [a * price[:-1]], [extra * length[:-1]], [], [inner]
        gpu_s.append(extra * a * length[:-1])
        held = base * length[:-1]
        if start < end and not self.runs:
            unit_cost.append(g * price[:1])
            work.append(base * length[:1])
            gpu_s.append(base * g * length[:1])
            place.append(inner[:1])
            held[0] = 0.0
        last, span = price[-1:], length[-1:]
        last_place = np.array([len(price) - 1])
        by_base = g * last + 1 / base
        offers = sum(len(part) for part in place)
        if by_base[0] <= a * last[0]:
            unit_cost += [by_base, a * last]
            work += [base * span, extra * span]
            gpu_s += [base * g * span, extra * a * span]
            place += [last_place, last_place]
        else:
            rate = base + extra
            unit_cost.append((1 + (base * g + extra * a) * last) / rate)
            work.append(rate * span)
            gpu_s.append((base * g + extra * a) * span)
            place.append(last_place)
        costs, amounts = np.concatenate(unit_cost), np.concatenate(work)
        order = np.argsort(costs, kind="stable")
        sums = np.cumsum(amounts[order])
        rest = self.work - float(held.sum())
        if rest < -1e-9 * self.work or rest > sums[-1] * (1 + 1e-9):
            return None
        marginal = min(int(np.searchsorted(sums, rest)), len(order) - 1)
        share = np.zeros(len(order))
        share[order[:marginal]] = 1.0
        dearest = order[marginal]
        if amounts[dearest] > 0:
            part = (rest - float(sums[marginal]) + float(amounts[dearest])) / amounts[dearest]
            share[dearest] = min(1.0, max(0.0, part))
        usage = np.zeros(len(self.length))
        usage[start:end] = g * held
        np.add.at(usage, np.concatenate(place) + start, share * np.concatenate(gpu_s))
        completion = float(self.begin[end] + share[offers] * self.length[end])
        cost = completion + float(usage @ prices)
        return JobSchedule(cost, completion, usage, float(costs[dearest]))


class PricedSchedules:
    """The Lagrangian bound on the sum of completion times as a function of prices.

    Parameters
    ----------
    data
        The jobs.
    times
        Increasing ends of the intervals of constant price, including all releases.
    """

    def __init__(self, data: BoundData, times: FloatArray) -> None:
        self.data = data
        # After the last time, GPUs cost nothing for long enough to complete the slowest job.
        begin, length = times, np.append(np.diff(times), float((data.work / data.base_rate).max()))
        self.length = length[:-1]
        self.first = np.searchsorted(times, data.release)
        self.jobs = [
            PricedJob(data, job, begin[first:], length[first:], runs=bool(data.running[job]))
            for job, first in enumerate(self.first.tolist())
        ]

    def evaluate(self, prices: FloatArray) -> tuple[float, list[JobSchedule], float]:
        """Return a lower bound on the sum of completions, the jobs' schedules, and a magnitude.

        The magnitude of the summed numbers bounds the rounding error.
        """
        padded = np.append(prices, 0.0)
        found = [
            job.cheapest(padded[first:])
            for job, first in within_time(zip(self.jobs, self.first.tolist(), strict=True))
        ]
        paid = self.data.gpus * float(self.length @ prices)
        value = math.fsum(lowest for lowest, _, _ in found) - paid
        size = math.fsum(added for _, _, added in found) + paid
        return value, [schedule for _, schedule, _ in found], size

    def bound(self, prices: FloatArray, rounds: int) -> float:
        """Return the bound on mean JCT after `rounds` price updates, fewer if time runs out."""
        value, schedules, size = self.evaluate(prices)
        model = _UpperModels(self.data, self.first, self.length)
        model.add(schedules)
        best, best_size, point = value, size, prices
        highest = max(float(prices.max()), 1 / self.data.gpus)
        trust = FIRST_TRUST * np.maximum(prices, LEAST_TRUSTED * highest)
        for _ in range(rounds):
            answer = model.maximise(point, trust)
            if answer is None:
                break
            moved, promised = answer
            promise = promised - best
            if promise <= LEAST_PROMISE * abs(best - self.data.release.sum()):
                break
            try:
                value, schedules, size = self.evaluate(moved)
            except OutOfTimeError:
                break
            model.add(schedules)
            if value - best > 0.7 * promise:
                trust = trust * 3
            elif value - best < 0.1 * promise:
                trust = trust * 0.6
            if value > best:
                best, best_size, point = value, size, moved
        terms = 4 * len(self.length)
        total = safe_difference(best + best_size, best_size, terms)
        return safe_difference(total, math.fsum(self.data.release), 1) / self.data.jobs


class _UpperModels:
    """The linear programme of cutting planes that lie above the Lagrangian bound.

    Costs are in units of the mean height, and prices are multiplied by all GPUs, so that numbers
    are near 1.
    """

    def __init__(self, data: BoundData, first: NDArray[np.int64], length: FloatArray) -> None:
        with loading():
            import highspy

        self._highspy = highspy
        self._unit = float(data.height.mean())
        self._gpus, self._first, self._intervals = data.gpus, first, len(length)
        self._places = np.arange(len(length), dtype=np.int32)
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        columns = len(length) + data.jobs
        unbounded = highspy.kHighsInf
        lower = np.concatenate((np.zeros(len(length)), np.full(data.jobs, -unbounded)))
        cost = np.concatenate((-length / self._unit, np.ones(data.jobs)))
        nothing = np.zeros(0, dtype=np.int32)
        self._solver.addCols(
            columns, cost, lower, np.full(columns, unbounded), 0, nothing, nothing, np.zeros(0)
        )
        self._solver.changeObjectiveSense(highspy.ObjSense.kMaximize)

    def add(self, schedules: list[JobSchedule]) -> None:
        """Add one cutting plane per job, from the schedule of the job."""
        begin, index, value, upper = [0], [], [], []
        for job, schedule in enumerate(schedules):
            usage = schedule.usage[:-1]  # GPUs are free after the last time
            used = np.flatnonzero(usage)
            index += [*(used + self._first[job]).tolist(), self._intervals + job]
            value += [*(-usage[used] / (self._gpus * self._unit)).tolist(), 1.0]
            upper.append(schedule.completion / self._unit)
            begin.append(len(index))
        rows = len(schedules)
        self._solver.addRows(
            rows,
            np.full(rows, -self._highspy.kHighsInf),
            np.array(upper),
            len(index),
            np.array(begin[:-1], dtype=np.int32),
            np.array(index, dtype=np.int32),
            np.array(value),
        )

    def maximise(self, point: FloatArray, trust: FloatArray) -> tuple[FloatArray, float] | None:
        """Return the model's best prices within `trust` of `point`, and their value in the model.

        The value is an upper bound on the Lagrangian bound at any of these prices. Returns None if
        HiGHS fails.
        """
        lower = np.maximum(0.0, point - trust) * self._gpus
        upper = (point + trust) * self._gpus
        self._solver.changeColsBounds(len(lower), self._places, lower, upper)
        self._solver.run()
        if self._solver.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            return None
        found = np.array(self._solver.getSolution().col_value)[: self._intervals]
        promised = self._solver.getInfo().objective_function_value * self._unit
        return np.clip(found, lower, upper) / self._gpus, promised


LARGEST_FOR_PASSES = 5_000
"""Up to this many jobs the bound takes some seconds."""
PASSES = 30
CELLS = 400
DRAIN = 1.2
"""Time after the last release that is priced, relative to the time that all the work takes."""


def interrupted_prices_bound(instance: Instance, passes: int = PASSES) -> float:
    """Return a lower bound on mean JCT, in seconds, from GPU-time prices for interruptible jobs.

    Parameters
    ----------
    passes
        Passes over all jobs to improve the prices.

    Notes
    -----
    Source: this project; the proof is that of `lyra_opt.simulation.bounds.whole`, for the reading
    *conserved*. Complexity O(passes * jobs * cells that a job examines * log cells).
    """
    data = BoundData(instance)
    grows = data.extra > 0
    gpus = np.stack((data.base, data.base + data.extra), axis=1)
    rate = np.stack((data.base_rate, data.top_rate), axis=1) / data.work[:, None]
    listed = np.stack((np.ones_like(grows), grows), axis=1)
    first = np.concatenate(([0], np.cumsum(listed.sum(axis=1))))
    area = float((data.base / data.base_rate * data.work).sum())
    end_s = float(data.release.max()) + DRAIN * area / data.gpus
    border_s = np.linspace(0.0, end_s, CELLS + 1)
    jobs = PricedJobs(
        release_s=data.release,
        weight=np.ones(data.jobs),
        is_contiguous=np.zeros(data.jobs, dtype=np.int64),
        adds=np.zeros(data.jobs, dtype=np.int64),
        first=first,
        pool=np.zeros(int(first[-1]), dtype=np.int64),
        gpus=gpus[listed],
        rate=rate[listed],
        cell=np.searchsorted(border_s, data.release, side="right") - 1,
    )
    room = Room(border_s=border_s, gpu_s=np.diff(border_s)[None] * data.gpus)
    pricer = Pricer(jobs, room)
    best = ascend(pricer, first_prices(jobs, room), passes)
    return max(0.0, safe_value(pricer, best.price)) / data.jobs
