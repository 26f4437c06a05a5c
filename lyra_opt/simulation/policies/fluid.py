"""Prices of GPU time from a fluid model of the recent past, a part of composed schemes.

The jobs are a fluid, in classes by remaining GPU-seconds. One fast machine with all GPUs serves the
smallest class that has any work, while new work arrives in each class as in the recent past. Then
all classes up to class k are served after T_k = W_k / (K - R_k) seconds, where W_k is their work
now, R_k their arriving work per second, and K the number of GPUs. The price of a GPU-second at time
t is the number of seconds that all jobs together wait longer if it is taken away. It falls at the
rate 1 / a(t), where a(t) is the work of a job of the class served at t, down to 0 at the end. A job
on g GPUs that starts at s and runs for p seconds pays for its GPUs until s + p, and a second for
each second until then. Its cost is convex in s, so its best start is found by bisection.

Source: this project. `lyra_opt.pricing.ascent` starts the prices of bounds with the same model, but
knows all jobs.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lyra_opt.core.arrays import BoolArray, FloatArray, IntArray
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.core.rules import require_number

CLASSES = 48
"""Number of classes of jobs by GPU-seconds."""

_LEAST_GPU_S, _RATIO = 50.0, 1.4
_CLASS_GPU_S = _LEAST_GPU_S * _RATIO ** (np.arange(CLASSES) + 0.5)
"""GPU-seconds of a typical job of each class."""

_HALVINGS = 20


def _classes_of(works_gpu_s: FloatArray) -> IntArray:
    above = np.log(np.maximum(works_gpu_s, _LEAST_GPU_S) / _LEAST_GPU_S) / math.log(_RATIO)
    classes: IntArray = np.minimum(above.astype(np.int64), CLASSES - 1)
    return classes


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPreemption:
    """Stops running jobs at the prices of `FluidPrices`, for waiting jobs that should run now.

    A waiting job should run now if its best start is now. A running job may be stopped if starting
    it again at its best time costs less than letting it run. The jobs that gain most per GPU are
    stopped first.

    Parameters
    ----------
    window_days
        Time constant, in days, of the exponential average of arriving work; above 0.
    horizon_days
        Time in days after which the model forgets the work that is still left; above 0.
    least_slack
        Least share of the GPUs that serve the work that is there now, however much arrives; above
        0, at most 1.
    interval_s
        Least time between two rounds of preemptions, in seconds; at least 0.

    Notes
    -----
    Source: this project.
    """

    window_days: float = 3.0
    horizon_days: float = 30.0
    least_slack: float = 0.3
    interval_s: float = 300.0

    def __post_init__(self) -> None:
        for name in ("window_days", "horizon_days"):
            require_number(name, getattr(self, name), minimum=0, above=True)
        require_number("least_slack", self.least_slack, minimum=0, above=True, maximum=1)
        require_number("interval_s", self.interval_s, minimum=0)


class RecentWork:
    """The work that arrives per second in each class, as an exponential average.

    Parameters
    ----------
    window_s
        Time constant of the average, in seconds.
    now_s
        Start time of the run.
    """

    def __init__(self, window_s: float, now_s: float) -> None:
        self._window_s, self._began_s = window_s, now_s
        self._at_s, self._rates = now_s, np.zeros(CLASSES)

    def submitted(self, now_s: float, work_gpu_s: float) -> None:
        """Count a job that is submitted now."""
        self._rates = self._decayed(now_s)
        self._at_s = now_s
        self._rates[_classes_of(np.array([work_gpu_s]))] += work_gpu_s / self._window_s

    def rates(self, now_s: float) -> FloatArray:
        """Return the GPU-seconds that arrive per second: float64, shape (CLASSES,).

        The average runs over the time since the start, but at least over six hours.
        """
        passed_s = max(6 * HOUR_S, now_s - self._began_s)
        return self._decayed(now_s) / -math.expm1(-passed_s / self._window_s)

    def _decayed(self, now_s: float) -> FloatArray:
        return self._rates * math.exp((self._at_s - now_s) / self._window_s)


class FluidPrices:
    """The price of a GPU-second at each time from now on.

    Parameters
    ----------
    rule
        The settings.
    gpus
        Number of GPUs of the machine; at least 1.
    works_gpu_s
        Remaining GPU-seconds of each job that waits or runs.
    rates
        Arriving GPU-seconds per second: shape (CLASSES,).
    """

    def __init__(
        self, rule: PricedPreemption, gpus: float, works_gpu_s: Iterable[float], rates: FloatArray
    ) -> None:
        works = np.fromiter(works_gpu_s, np.float64)
        work = np.cumsum(np.bincount(_classes_of(works), weights=works, minlength=CLASSES))
        left = np.maximum(gpus - np.cumsum(rates), rule.least_slack * gpus)
        ends_s = np.minimum(work / left, rule.horizon_days * DAY_S)
        self.times_s = np.append(0.0, np.maximum.accumulate(ends_s))
        lengths_s = np.diff(self.times_s)
        self._falls = 1.0 / _CLASS_GPU_S
        self._prices = np.append(np.cumsum((self._falls * lengths_s)[::-1])[::-1], 0.0)
        means = (self._prices[1:] + self._prices[:-1]) / 2
        self._paid = np.append(0.0, np.cumsum(means * lengths_s))

    def price(self, time_s: FloatArray) -> FloatArray:
        """Return the prices at some times; 0 after the last time at which there is work."""
        prices: FloatArray = np.interp(time_s, self.times_s, self._prices)
        return prices

    def paid(self, time_s: FloatArray) -> FloatArray:
        """Return the integrals of the price from now until some times."""
        time_s = np.minimum(time_s, self.times_s[-1])
        place = np.minimum(np.searchsorted(self.times_s, time_s, "right") - 1, CLASSES - 1)
        since_s = time_s - self.times_s[place]
        means = self._prices[place] - self._falls[place] * since_s / 2
        paid: FloatArray = self._paid[place] + means * since_s
        return paid

    def is_best_now(self, run_s: FloatArray, gpus: FloatArray) -> BoolArray:
        """Return whether each job with a run time and a number of GPUs should start now.

        All jobs of a class should, not only those with less work than its typical job.
        """
        return self._saved(np.zeros(len(run_s)), run_s, gpus) <= math.sqrt(_RATIO)

    def _saved(self, start_s: FloatArray, run_s: FloatArray, gpus: FloatArray) -> FloatArray:
        """Return how many seconds each job's payment falls per second of a later start."""
        return gpus * (self.price(start_s) - self.price(start_s + run_s))

    def least_cost(self, run_s: FloatArray, gpus: FloatArray) -> FloatArray:
        """Return the cost of each job, in seconds, if it begins at its best time."""
        early_s, late_s = np.zeros(len(run_s)), np.full(len(run_s), self.times_s[-1])
        late_s[self._saved(early_s, run_s, gpus) <= 1] = 0.0
        for _ in range(_HALVINGS):
            middle_s = (early_s + late_s) / 2
            is_late = self._saved(middle_s, run_s, gpus) <= 1
            early_s, late_s = (
                np.where(is_late, early_s, middle_s),
                np.where(is_late, middle_s, late_s),
            )
        end_s = late_s + run_s
        return end_s + gpus * (self.paid(end_s) - self.paid(late_s))

    def gain_of_stop(self, left_s: FloatArray, again_s: FloatArray, gpus: FloatArray) -> FloatArray:
        """Return the seconds per GPU that stopping each running job gains; negative for a loss.

        Parameters
        ----------
        left_s, again_s
            Remaining seconds of the jobs if they run on, and if they are stopped.
        gpus
            GPUs of each job.
        """
        cost_s = left_s + gpus * self.paid(left_s)
        return (cost_s - self.least_cost(again_s, gpus)) / gpus
