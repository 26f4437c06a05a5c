"""Lower bounds on mean JCT at any size.

Each one relaxes more than the one after it: heights, squashed area, mean busy times. The proofs
stand in ``formulations/allocation/mean_jct.md``.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.stopwatch import loading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.allocation.instance import AllocationInstance

    FloatArray = NDArray[np.float64]

MARGIN = 1e-11
"""What is taken off a bound, relative to the sums that it is the difference of."""
COARSE_NODES, FINE_NODES = 150, 1200
"""Points of time, beside the releases, while multipliers are sought and for the final value."""
ASCENT_STEPS = 120


def mean_jct_bound(instance: AllocationInstance, steps: int = ASCENT_STEPS) -> float:
    """Return the best of the bounds: heights, squashed area and mean busy times."""
    return max(
        height_bound(instance), squashed_area_bound(instance), mean_busy_time_bound(instance, steps)
    )


def height_bound(instance: AllocationInstance) -> float:
    """Return mean work / rate(w_max): no job is faster alone."""
    return _safe(math.fsum(_Arrays(instance).height) / len(instance.jobs), 0.0)


def squashed_area_bound(instance: AllocationInstance) -> float:
    """Return the optimum on one machine that is as fast as all GPUs together.

    With preemption and releases, shortest remaining area first is optimal there. Complexity
    O(n log n).
    """
    data = _Arrays(instance)
    area = data.work * data.gpus_per_work / instance.gpus
    order = np.argsort(data.release, kind="stable")
    waiting: list[float] = []
    now, completions, following = 0.0, [], 0
    while waiting or following < len(order):
        if not waiting:
            now = max(now, float(data.release[order[following]]))
        while following < len(order) and data.release[order[following]] <= now:
            heapq.heappush(waiting, float(area[order[following]]))
            following += 1
        until = float(data.release[order[following]]) if following < len(order) else math.inf
        left = heapq.heappop(waiting)
        if now + left <= until:
            now += left
            completions.append(now)
        else:
            heapq.heappush(waiting, left - (until - now))
            now = until
    total = math.fsum(completions)
    return _safe(total, math.fsum(data.release)) / len(instance.jobs)


def mean_busy_time_bound(instance: AllocationInstance, steps: int = ASCENT_STEPS) -> float:
    """Return the bound of mean busy times, C_j >= M_j + h_j / 2.

    The least sum of M_j is a transportation problem of work to time. Its dual in one multiplier a
    job is concave and evaluated from above in continuous time, so any multipliers give a bound;
    L-BFGS finds good ones on coarse nodes, from those of a greedy schedule, and the value is then
    taken on fine ones. Complexity O(steps * (nodes + n) * n log n).

    Parameters
    ----------
    steps
        Evaluations of the dual; fewer give a weaker bound.
    """
    multipliers = _MeanBusyTimes(instance, COARSE_NODES).ascent(steps)
    return _MeanBusyTimes(instance, FINE_NODES).bound(multipliers)


def _safe(total: float, less: float) -> float:
    return max(0.0, total - less - MARGIN * (abs(total) + abs(less)))


class _Arrays:
    def __init__(self, instance: AllocationInstance) -> None:
        jobs = instance.jobs
        self.gpus = float(instance.gpus)
        self.release = np.array([job.release_s for job in jobs], dtype=float)
        self.work = np.array([job.work_worker_s for job in jobs], dtype=float)
        self.gpus_per_work = np.array([job.gpus_per_worker for job in jobs], dtype=float)
        least = np.array([job.min_workers for job in jobs], dtype=float)
        most = np.array([job.max_workers for job in jobs], dtype=float)
        most = np.minimum(most, self.gpus / self.gpus_per_work)
        efficiency = np.array([1 - job.scaling_loss for job in jobs], dtype=float)
        self.base_rate = least
        self.efficiency = efficiency
        self.base = least * self.gpus_per_work
        self.extra = (most - least) * self.gpus_per_work
        self.top_rate = least + (most - least) * efficiency
        self.height = self.work / self.top_rate


class _MeanBusyTimes:
    """The dual of the least sum of mean busy times, on nodes of time."""

    def __init__(self, instance: AllocationInstance, nodes: int) -> None:
        data = _Arrays(instance)
        self.data = data
        self.nodes = nodes
        self.jobs = len(instance.jobs)
        gpu_s = data.work * data.gpus_per_work
        worst = gpu_s / np.where(data.efficiency > 0, data.efficiency, 1.0)
        base_only = data.efficiency <= 0
        # No multiplier of use reaches beyond this time.
        self.horizon = float(
            data.release.max() + worst.sum() / data.gpus + (data.work / data.base_rate).max()
        )
        self.times, self.weights, self.from_release = self._nodes(gpu_s)
        # Segments: the base demand, then the workers beyond, which do less for a GPU.
        owner = np.arange(self.jobs)
        keep = (data.extra > 0) & ~base_only
        linear = keep & (data.efficiency == 1)
        capacity = np.where(linear, data.base + data.extra, data.base)
        per_work = data.gpus_per_work
        second = np.flatnonzero(keep & ~linear)
        self.owner = np.concatenate((owner, owner[second]))
        self.capacity = np.concatenate((capacity, data.extra[second]))
        self.per_work = np.concatenate((per_work, per_work[second] / data.efficiency[second]))
        self.available = self.from_release[:, None] >= data.release[self.owner][None, :]

    def _nodes(self, gpu_s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return times, weights of the trapezoidal rule, and the last release before each.

        Between releases the value of the cluster's time is convex in time, so that the rule never
        counts it too low. Nodes are dense where much is done.
        """
        releases = np.unique(np.concatenate(([0.0], self.data.release)))
        busy = releases[-1] + gpu_s.sum() / self.data.gpus
        ends = np.concatenate((releases[1:], [busy]))
        step = max(busy, 1e-300) / self.nodes
        times, weights, origin = [], [], []

        def add(points: FloatArray, release: float) -> None:
            half = np.diff(points) / 2
            weight = np.zeros(len(points))
            weight[:-1] += half
            weight[1:] += half
            times.append(points)
            weights.append(weight)
            origin.append(np.full(len(points), release))

        for begin, end in zip(releases[:-1], ends[:-1], strict=True):
            add(np.linspace(begin, end, 1 + max(1, math.ceil((end - begin) / step))), begin)
        begin = releases[-1]
        points = np.linspace(begin, busy, 1 + max(8, math.ceil((busy - begin) / step)))
        later, width = [float(busy)], float(points[-1] - points[-2])
        while later[-1] < self.horizon:
            width *= 1.15
            later.append(later[-1] + width)
        add(np.concatenate((points, later[1:])), begin)
        return np.concatenate(times), np.concatenate(weights), np.concatenate(origin)

    def value_and_slope(self, multipliers: FloatArray) -> tuple[float, FloatArray]:
        """Return the dual's value, a sum of mean busy times, and a supergradient.

        Parameters
        ----------
        multipliers
            Seconds of completion that the last bit of each job's work costs, for all its work.
        """
        data = self.data
        # Beyond the last node nothing is counted, so nothing may be worth anything there.
        clipped = multipliers > self.times[-1]
        multipliers = np.minimum(multipliers, self.times[-1])
        # A GPU held by job j at time t earns (multiplier - t) / work per work that it does.
        worth = (multipliers[self.owner][None, :] - self.times[:, None]) / (
            data.work[self.owner] * self.per_work
        )
        worth = np.where(self.available, worth, 0.0)
        order = np.argsort(-worth, axis=1)
        sorted_worth = np.take_along_axis(worth, order, axis=1)
        capacity = self.capacity[order]
        before = np.cumsum(capacity, axis=1) - capacity
        given = np.clip(data.gpus - before, 0.0, capacity)
        given[sorted_worth <= 0] = 0.0
        earned = float(self.weights @ (sorted_worth * given).sum(axis=1))
        use = np.zeros_like(worth)
        np.put_along_axis(use, order, given, axis=1)
        held = self.weights @ (use * self.available)
        done = np.bincount(self.owner, weights=held / self.per_work, minlength=self.jobs)
        slope = np.where(clipped, 0.0, 1.0 - done / data.work)
        return float(multipliers.sum()) - earned, slope

    def start(self) -> FloatArray:
        """Return multipliers of a guess: when smallest area first would be done."""
        data = self.data
        area = data.work * data.gpus_per_work / data.gpus
        order = np.argsort(np.maximum(data.release, 0) + area, kind="stable")
        done = data.release.min()
        multipliers = np.empty(self.jobs)
        for job in order:
            done = max(done, data.release[job]) + area[job]
            multipliers[job] = max(done, data.release[job] + data.height[job])
        return multipliers

    def ascent(self, steps: int) -> FloatArray:
        """Return good multipliers after at most `steps` evaluations."""
        with loading():
            from scipy.optimize import minimize

        scale = max(float(self.times.max()) / 4, 1e-300)
        best_value, best = -math.inf, self.start()

        def negative(scaled: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best_value, best
            value, slope = self.value_and_slope(scaled * scale)
            if value > best_value:
                best_value, best = value, scaled * scale
            return -value / scale, -slope

        minimize(
            negative,
            best / scale,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxfun": steps, "maxcor": 20},
        )
        return best

    def bound(self, multipliers: FloatArray) -> float:
        """Return the bound on mean JCT that the multipliers give."""
        data = self.data
        value, _ = self.value_and_slope(multipliers)
        rounding = MARGIN * (float(np.abs(multipliers).sum()) + abs(value))
        total = value - rounding + math.fsum(data.height) / 2
        return _safe(total, math.fsum(data.release)) / self.jobs
