"""Proved dual bounds on the optimum of an allocation instance, for ``--certify``.

One-shot objectives: Lagrangian relaxation of the GPUs. For any price y >= 0 of a GPU each job may
choose for itself, and what all of them gain at that price, plus or less y times the GPUs, bounds
the optimum. T(w) is convex in w, so the best price gives the bound of the linear relaxation
(Sinha and Zoltners, 1979; for `Objective.JOINT` with waiting as one more choice). A job's best
number of workers at a price follows from T'(w) = -y g, so that a price costs O(jobs).

It is computed in floats, from terms none of which exceeds the sum of all T(w_min) (and H), and then
moved to the safe side by 1e-12 of that sum. It shares no code with the knapsack solvers, which have
a bound of their own, and takes instances of any size.

`Objective.MEAN_JCT`: see `lyra_opt.allocation.mean_jct_bounds`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.checker import started_by_two_phase, waiting_horizon_s
from lyra_opt.allocation.instance import Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from lyra_opt.allocation.instance import AllocationInstance, ElasticJob

    FloatArray = NDArray[np.float64]

MARGIN = 1e-12
PRICES = 200
"""Prices that are tried between 0 and the highest at which anybody takes an extra worker."""


def dual_bound(instance: AllocationInstance) -> float:
    """Return an upper bound on the reduction, a lower bound on the other objectives; seconds."""
    if instance.objective is Objective.MEAN_JCT:
        from lyra_opt.allocation.mean_jct_bounds import mean_jct_bound

        return mean_jct_bound(instance)
    if instance.objective is Objective.JOINT:
        return _joint_bound(instance)
    if instance.objective is Objective.JCT_REDUCTION:
        return _knapsack_bound(instance.jobs, instance.gpus)
    starts = started_by_two_phase(instance)
    started = [job for job, is_started in zip(instance.jobs, starts, strict=True) if is_started]
    if not started:
        return 0.0
    base_s = math.fsum(float(job.duration_s(job.min_workers)) for job in started)
    free = instance.gpus - sum(job.min_gpus for job in started)
    return max(0.0, base_s - _knapsack_bound(started, free) - MARGIN * base_s)


class _Jobs:
    """The jobs as arrays, and their best choices at a price."""

    def __init__(self, jobs: Sequence[ElasticJob]) -> None:
        self.least = np.array([job.min_workers for job in jobs], dtype=np.float64)
        self.most = np.array([job.max_workers for job in jobs], dtype=np.float64)
        self.gpus = np.array([job.gpus_per_worker for job in jobs], dtype=np.float64)
        self.work = np.array([job.work_worker_s for job in jobs], dtype=np.float64)
        self.gain = np.array([1 - job.scaling_loss for job in jobs], dtype=np.float64)
        self.running = np.array([job.running for job in jobs], dtype=np.bool_)
        self.base_s = self.work / self.least

    def duration_s(self, workers: FloatArray) -> FloatArray:
        """Return T(w) of each job."""
        rate: FloatArray = self.least + (workers - self.least) * self.gain
        return self.work / rate

    def cost_at(self, price: float, unpaid: FloatArray) -> FloatArray:
        """Return the least T(w) + price * g * (w - unpaid) over whole w, for each job."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rate = np.sqrt(self.work * self.gain / (price * self.gpus))
            best = self.least + (rate - self.least) / self.gain
        best = np.where(np.isfinite(best), best, np.where(self.gain > 0, self.most, self.least))
        below = np.clip(np.floor(best), self.least, self.most)
        above = np.clip(below + 1, self.least, self.most)
        costs: FloatArray = np.minimum(
            self.duration_s(below) + price * self.gpus * (below - unpaid),
            self.duration_s(above) + price * self.gpus * (above - unpaid),
        )
        return costs

    @property
    def highest_price(self) -> float:
        """At which no job takes more workers than it must."""
        return float(np.max(self.base_s / self.gpus))


def _knapsack_bound(jobs: Sequence[ElasticJob], free_gpus: int) -> float:
    """Return an upper bound on the sum of T(w_min) - T(w) with `free_gpus` for extra workers."""
    arrays = _Jobs(jobs)
    base_s = math.fsum(arrays.base_s)

    def lower_bound_s(price: float) -> float:
        return math.fsum(arrays.cost_at(price, arrays.least)) - price * free_gpus

    return max(0.0, base_s - _best_over_prices(arrays, lower_bound_s)) + MARGIN * base_s


def _joint_bound(instance: AllocationInstance) -> float:
    arrays = _Jobs(instance.jobs)
    horizon_s = float(waiting_horizon_s(instance))
    waiting_s = np.where(arrays.running, np.inf, arrays.base_s + horizon_s)
    unpaid = np.zeros_like(arrays.least)

    def lower_bound_s(price: float) -> float:
        costs = np.minimum(arrays.cost_at(price, unpaid), waiting_s)
        return math.fsum(costs) - price * instance.gpus

    size_s = math.fsum(arrays.base_s) + len(instance.jobs) * horizon_s
    found = _best_over_prices(arrays, lower_bound_s, horizon_s)
    return max(0.0, found - MARGIN * size_s)


def _best_over_prices(
    arrays: _Jobs, lower_bound_s: Callable[[float], float], most_saved_s: float = 0.0
) -> float:
    """Return the largest of a concave function of the price; golden section, any price holds."""
    ratio = (math.sqrt(5) - 1) / 2
    low, high = 0.0, arrays.highest_price + most_saved_s
    first, second = high - ratio * (high - low), low + ratio * (high - low)
    at_first, at_second = lower_bound_s(first), lower_bound_s(second)
    best = max(lower_bound_s(0.0), at_first, at_second)
    for _ in range(PRICES):
        if high - low <= MARGIN * high:
            break
        if at_first < at_second:
            low, first, at_first = first, second, at_second
            second = low + ratio * (high - low)
            at_second = lower_bound_s(second)
        else:
            high, second, at_second = second, first, at_first
            first = high - ratio * (high - low)
            at_first = lower_bound_s(first)
        best = max(best, at_first, at_second)
    return best
