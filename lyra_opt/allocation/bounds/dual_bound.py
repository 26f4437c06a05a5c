"""Proved dual bounds on the optimum of an allocation instance, for ``--certify``.

One-shot objectives use the Lagrangian relaxation of the GPU constraint. For any price y >= 0 of a
GPU each job can choose its workers independently, and the total cost or saving at that price bounds
the optimum. T(w) is convex in w, so the best price gives the bound of the linear relaxation (Sinha
and Zoltners, 1979; for `Objective.JOINT` with waiting as one more choice).

The price is sought in floats, in O(jobs) per price, and any price gives a valid bound. At the best
price the choice of each job is determined in integers, and every term is rounded to the safe side.
So the value is within a few units in the last place of the bound at that price, and exact zeros
stay zero. The code is independent of the knapsack solvers, which have their own bound, and takes
instances of any size.

`lyra_opt.allocation.bounds.mean_jct.best` bounds `Objective.MEAN_JCT`.
"""

import math
import sys
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from lyra_opt.allocation.checker import started_by_two_phase, waiting_horizon_s
from lyra_opt.allocation.instance import ElasticJob, Instance, Objective
from lyra_opt.core.arrays import FloatArray

CLEARLY = 1e-9
"""Two rounded floats that differ by more than this, relatively, are surely in the right order."""
PRICES = 100
"""Most prices that are tried; few are needed, because each next price is an intersection."""


def dual_bound(instance: Instance) -> float:
    """Return an upper bound on ``jct_reduction``, or a lower bound on other objectives, in s."""
    if instance.objective is Objective.MEAN_JCT:
        from lyra_opt.allocation.bounds.mean_jct.best import mean_jct_bound

        return instance.bound_at_clock_times(mean_jct_bound(instance.from_first_release))
    choosers, free_gpus = _choosers(instance)
    if not choosers:
        return 0.0
    price, guesses = _best_price(choosers, free_gpus)
    exact_price = Fraction(price)
    maximises = instance.objective is Objective.JCT_REDUCTION
    terms_s = []
    for chooser, guess in zip(choosers, guesses, strict=True):
        workers = chooser.best_workers(exact_price, guess)
        free_gpus -= chooser.weight(workers)
        terms_s.append(chooser.saved_up_s(workers) if maximises else chooser.cost_down_s(workers))
    unused = exact_price * free_gpus
    unused_s = _quotient_up(unused.numerator, unused.denominator)
    if maximises:
        return _next_up(math.fsum([*terms_s, unused_s]))
    return max(0.0, -_next_up(-math.fsum([*terms_s, -unused_s])))


class _Chooser:
    """A job that chooses its number of workers at a given price per GPU, in exact integers.

    Parameters
    ----------
    job
        The job.
    is_granted
        Whether its base demand is granted, so that only extra workers are paid for.
    most_workers
        The most workers that fit; below w_min if the job must wait.
    horizon_s
        H, the cost of waiting besides T(w_min), in seconds.
    """

    def __init__(
        self, job: ElasticJob, is_granted: bool, most_workers: int, horizon_s: Fraction
    ) -> None:
        self.job, self.is_granted = job, is_granted
        self.most_workers, self.horizon_s = most_workers, horizon_s
        self._work, self._work_unit = job.work_worker_s.as_integer_ratio()
        # The rate of w workers is `_rate(w)` / `_unit`; each extra worker adds `_gain` / `_unit`.
        self._gain, self._unit = 1, 1
        if job.scaling_loss > 0:
            self._gain, self._unit = (1 - Fraction(job.scaling_loss)).as_integer_ratio()

    def _rate(self, workers: int) -> int:
        least = self.job.min_workers
        return least * self._unit + (workers - least) * self._gain

    def weight(self, workers: int) -> int:
        """Return the GPUs that `workers` workers hold, without those of a granted base demand."""
        free_workers = self.job.min_workers if self.is_granted else 0
        return (workers - free_workers) * self.job.gpus_per_worker

    def cost_down_s(self, workers: int) -> float:
        """Return the running time T(w), or the cost of waiting if w = 0, in s, rounded down."""
        at_least = workers or self.job.min_workers
        least_s = -_quotient_up(-self._work * self._unit, self._work_unit * self._rate(at_least))
        if workers or not self.horizon_s:
            return least_s
        horizon_s = -_quotient_up(-self.horizon_s.numerator, self.horizon_s.denominator)
        return math.nextafter(least_s + horizon_s, -math.inf)

    def saved_up_s(self, workers: int) -> float:
        """Return the seconds T(w_min) - T(w) that extra workers save, rounded up."""
        least = self.job.min_workers
        return _quotient_up(
            self._work * self._gain * (workers - least),
            self._work_unit * least * self._rate(workers),
        )

    def best_workers(self, price: Fraction, guess: int) -> int:
        """Return the number of workers with the least sum of cost and GPU price, or 0 for waiting.

        Each further worker saves less, so the first worker that is not worth its price ends the
        search. If `guess` is right, two comparisons suffice.
        """
        least, most = self.job.min_workers, self.most_workers
        if most < least:
            return 0
        saves = self._work * self._gain * self._unit * price.denominator
        costs = self._work_unit * self.job.gpus_per_worker * price.numerator

        def is_enough(workers: int) -> bool:
            """Whether one more worker saves at most its price.

            The saving T(w) - T(w + 1) is work gain / (rate(w) rate(w + 1)).
            """
            rate = self._rate(workers)
            return saves <= costs * rate * (rate + self._gain)

        best = min(max(guess, least), most)
        if (best < most and not is_enough(best)) or (best > least and is_enough(best - 1)):
            best = least + bisect_left(range(least, most), True, key=is_enough)
        return best if self.is_granted or self._is_worth_starting(best, price) else 0

    def _is_worth_starting(self, workers: int, price: Fraction) -> bool:
        """Whether starting the job saves at least the price of its GPUs, compared with waiting.

        Floats are compared if they differ clearly, otherwise fractions.
        """
        job = self.job
        least, price_s = job.min_workers, float(price) * self.weight(workers)
        saved_s = float(self.horizon_s) + self.saved_up_s(workers)
        if abs(saved_s - price_s) > CLEARLY * saved_s > sys.float_info.min:
            return saved_s > price_s
        exact_s = self.horizon_s + job.duration_s(least) - job.duration_s(workers)
        return exact_s >= price * self.weight(workers)


def _choosers(instance: Instance) -> tuple[list[_Chooser], int]:
    """Return the jobs that can choose their workers, and the GPUs left after granted demands."""
    objective, free_gpus = instance.objective, instance.gpus
    horizon_s = Fraction(0)
    is_granted = [True] * len(instance.jobs)
    if objective is Objective.TWO_PHASE:
        is_granted = started_by_two_phase(instance)
    elif objective is Objective.JOINT:
        is_granted = [job.running for job in instance.jobs]
        horizon_s = waiting_horizon_s(instance)
    jobs = list(zip(instance.jobs, is_granted, strict=True))
    if objective is not Objective.JCT_REDUCTION:
        free_gpus -= sum(job.min_gpus for job, granted in jobs if granted)
    choosers = []
    for job, granted in jobs:
        fits = free_gpus // job.gpus_per_worker
        most_workers = min(job.max_workers, job.min_workers + fits if granted else fits)
        if granted or objective is Objective.JOINT:
            choosers.append(_Chooser(job, granted, most_workers, horizon_s))
    paid_for = [chooser for chooser in choosers if chooser.weight(chooser.most_workers) > 0]
    unit = math.gcd(*(chooser.job.gpus_per_worker for chooser in paid_for)) or 1
    return choosers, free_gpus // unit * unit


class _Arrays:
    """Data of the jobs whose number of workers is a decision, as arrays of floats.

    `choices_at` computes the best numbers of workers at a given GPU price.
    """

    def __init__(self, choosers: Sequence[_Chooser]) -> None:
        jobs = [chooser.job for chooser in choosers]
        self.least = np.array([job.min_workers for job in jobs], dtype=np.float64)
        self.most = np.array([chooser.most_workers for chooser in choosers], dtype=np.float64)
        self.gpus = np.array([job.gpus_per_worker for job in jobs], dtype=np.float64)
        self.work = np.array([job.work_worker_s for job in jobs], dtype=np.float64)
        self.gain = np.array([1 - job.scaling_loss for job in jobs], dtype=np.float64)
        self.is_granted = np.array([chooser.is_granted for chooser in choosers], dtype=np.bool_)
        self.base_s = self.work / self.least
        horizon_s = float(choosers[0].horizon_s)
        self.start_s = np.where(self.is_granted, 0.0, horizon_s)
        self.can_choose = self.most >= self.least + self.is_granted

    def highest_price(self) -> float:
        """Return a GPU price so high that no job takes more workers than it must have."""
        first_worker_s = self.base_s * (self.gain / self.least) + (self.start_s + self.base_s) * (
            ~self.is_granted
        )
        return float(np.max(np.where(self.can_choose, first_worker_s / self.gpus, 0.0)))

    def choices_at(self, price: float) -> tuple[FloatArray, float, float]:
        """Return the workers of each job at a GPU price (0: waits), the total saving and GPUs."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            rate = np.sqrt(self.work * self.gain / (price * self.gpus))
            best = self.least + (rate - self.least) / self.gain
        best = np.where(np.isfinite(best), best, np.where(self.gain > 0, self.most, self.least))
        most = np.maximum(self.most, self.least)
        fewer = np.maximum(np.minimum(np.floor(best), most), self.least)
        more = np.minimum(fewer + 1, most)
        workers = np.where(self.worth(more, price) > self.worth(fewer, price), more, fewer)
        starts = self.is_granted | (self.can_choose & (self.worth(workers, price) >= 0))
        saved, gpus = self.saved_s(workers)[starts].sum(), self.weight(workers)[starts].sum()
        return np.where(starts, workers, 0.0), float(saved), float(gpus)

    def saved_s(self, workers: FloatArray) -> FloatArray:
        """Return the seconds that the workers save against the base demand or against waiting."""
        extra = (workers - self.least) * self.gain
        saved: FloatArray = self.base_s * (extra / (self.least + extra)) + self.start_s
        return saved

    def worth(self, workers: FloatArray, price: float) -> FloatArray:
        """Return the saving of each job's workers minus the price of their GPUs."""
        return self.saved_s(workers) - price * self.weight(workers)

    def weight(self, workers: FloatArray) -> FloatArray:
        """Return the GPUs of each job's workers, without those of a granted base demand."""
        weight: FloatArray = self.gpus * (workers - np.where(self.is_granted, self.least, 0.0))
        return weight


def _best_price(choosers: Sequence[_Chooser], free_gpus: int) -> tuple[float, list[int]]:
    """Return the GPU price with the least bound on the total saving, and each job's workers at it.

    The bound is convex and piecewise linear in the price, and its slope is the number of GPUs left
    over. Between a price that is too low and one that is too high, the next price is where their
    lines intersect, which is optimal once no kink lies between. Every other step bisects instead,
    so that few prices are tried.
    """
    arrays = _Arrays(choosers)
    low, high = 0.0, arrays.highest_price()
    workers, low_saved, low_gpus = arrays.choices_at(low)
    if low_gpus <= free_gpus or high == 0.0:
        return low, [int(count) for count in workers]
    best = (low_saved + low * (free_gpus - low_gpus), low, workers)
    workers, high_saved, high_gpus = arrays.choices_at(high)
    best = min(
        best,
        (high_saved + high * (free_gpus - high_gpus), high, workers),
        key=lambda found: found[0],
    )
    for tried in range(PRICES):
        price = (low + high) / 2
        if tried % 2 == 0 and low_gpus > high_gpus:
            price = (low_saved - high_saved) / (low_gpus - high_gpus)
        if not low < price < high:
            break
        workers, saved, gpus = arrays.choices_at(price)
        bound = saved + price * (free_gpus - gpus)
        best = min(best, (bound, price, workers), key=lambda found: found[0])
        if (saved, gpus) in ((low_saved, low_gpus), (high_saved, high_gpus)) and tried % 2 == 0:
            break
        if gpus > free_gpus:
            low, low_saved, low_gpus = price, saved, gpus
        else:
            high, high_saved, high_gpus = price, saved, gpus
    return best[1], [int(count) for count in best[2]]


def _quotient_up(numerator: int, denominator: int) -> float:
    """Return `numerator / denominator` rounded up to a float; the denominator is positive."""
    nearest = numerator / denominator
    parts, unit = nearest.as_integer_ratio()
    is_below = parts * denominator < numerator * unit
    return math.nextafter(nearest, math.inf) if is_below else nearest


def _next_up(value: float) -> float:
    """Return an upper bound on a sum of floats that was correctly rounded to `value`."""
    return math.nextafter(value, math.inf) if value else 0.0
