"""The bound on mean JCT from mean busy times, for any number of jobs.

C_j >= M_j + h_j / 2, where M_j is the mean time at which the work of job j is done, and h_j its
running time with all its workers. The least sum of M_j is a transportation problem of work to time.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.allocation.bounds.mean_jct.data import BoundData, safe_difference, smallest_area_first
from lyra_opt.allocation.instance import Instance
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.kernels import kernel
from lyra_opt.core.stopwatch import require_time


class Segments(NamedTuple):
    """Job segments, that is, base or extra workers of a job, as flat arrays sorted by release.

    A GPU in a segment is worth ``(reach - time) / cost``. Each segment holds at most its capacity
    of GPUs. ``active`` and ``worth`` are scratch arrays: the segments with positive worth, and
    their worth.
    """

    reach: Any
    cost: Any
    capacity: Any
    active: Any
    worth: Any


@kernel
def gather(known: int, added: int, released: int, time: float, segments: Any) -> Any:
    """List the segments with positive worth at `time`, among known and newly released segments.

    Returns their number and their total capacity.
    """
    active = segments.active
    while added < released:
        active[known] = added
        known += 1
        added += 1
    kept = 0
    wanted = 0.0
    for place in range(known):
        segment = active[place]
        value = (segments.reach[segment] - time) / segments.cost[segment]
        if value > 0.0:  # worth only falls with time
            active[kept] = segment
            segments.worth[kept] = value
            wanted += segments.capacity[segment]
            kept += 1
    return kept, wanted


@kernel
def fill(actives: int, room: float, segments: Any) -> Any:
    """Move the segments of most worth to the front, until they use all GPUs (quickselect).

    Returns ``(full, shares, room, steps)``. The first ``full`` segments get their whole capacity.
    If ``shares``, the following segments have equal worth and share the remaining room.
    """
    active = segments.active
    worth = segments.worth
    capacity = segments.capacity
    steps = 0.0
    low = 0
    high = actives
    while low < high:
        steps += high - low
        first = worth[low]
        middle = worth[(low + high) // 2]
        last = worth[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        above = low  # the order is: worth more than the pivot, equal, unseen, less
        unseen = low
        below = high
        wanted = 0.0
        equal = 0.0
        while unseen < below:
            value = worth[unseen]
            segment = active[unseen]
            if value > pivot:
                wanted += capacity[segment]
                worth[unseen] = worth[above]
                active[unseen] = active[above]
                worth[above] = value
                active[above] = segment
                above += 1
                unseen += 1
            elif value < pivot:
                below -= 1
                worth[unseen] = worth[below]
                active[unseen] = active[below]
                worth[below] = value
                active[below] = segment
            else:
                equal += capacity[segment]
                unseen += 1
        if wanted >= room:
            high = above
        elif wanted + equal >= room:
            return above, True, room - wanted, steps
        else:
            room -= wanted + equal
            low = below
    return low, False, room, steps


@kernel
def fill_nodes(
    first: int,
    most_steps: float,
    times: Any,
    weights: Any,
    released: Any,
    gpus: int,
    segments: Any,
    held: Any,
    totals: Any,
) -> Any:
    """Give the GPUs at each time node to the segments that are worth most at that time.

    It continues at node `first` with the results for the earlier nodes, for about `most_steps`
    steps. At a node, the first `released` segments are released. Times do not decrease.

    Returns ``(node, held, totals)``: the first node that is left; the GPU-seconds held by each
    segment; and the totals, which are the sum of worth times GPU-seconds, the number of steps
    taken, the number of segments with positive worth, and the number of released segments.

    Complexity O(segments with positive worth) expected time per node, by partitioning as in
    quickselect.
    """
    active = segments.active
    worth = segments.worth
    capacity = segments.capacity
    earned = totals[0]
    steps = totals[1]
    actives = int(totals[2])
    added = int(totals[3])
    most_steps += steps
    node = first
    while node < len(times) and steps <= most_steps:
        steps += actives + released[node] - added
        actives, wanted = gather(actives, added, released[node], times[node], segments)
        added = max(added, released[node])
        room = 1.0 * gpus
        full = actives
        shares = False
        if wanted > room:
            full, shares, room, taken = fill(actives, room, segments)
            steps += taken
        here = 0.0
        weight = weights[node]
        for place in range(full):
            segment = active[place]
            here += worth[place] * capacity[segment]
            held[segment] += weight * capacity[segment]
        place = full
        while shares and place < actives and room > 0.0:
            segment = active[place]
            given = min(room, capacity[segment])
            here += worth[place] * given
            held[segment] += weight * given
            room -= given
            place += 1
        steps += full
        earned += weight * here
        node += 1
    totals[0] = earned
    totals[1] = steps
    totals[2] = actives
    totals[3] = added
    return node, held, totals


MEMORY = 20
"""Number of past steps from which L-BFGS estimates the curvature."""
LEAST_SHARE = 1e-4
"""Least share of the rise predicted by the slope that a step must achieve (Armijo rule)."""
LEAST_RISE = 1e-9
"""The ascent ends at a step with a smaller relative rise."""


def ascend(
    value_and_slope: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    scale: FloatArray,
    evaluations: int,
) -> FloatArray:
    """Maximise a concave function with L-BFGS from supergradients, and return the best point.

    This is a separate implementation because SciPy's L-BFGS uses BLAS, whose threads wait for one
    another on a busy machine. For vectors of fifty numbers it then takes a hundred times as long as
    the function itself.

    Parameters
    ----------
    value_and_slope
        The function with its gradient; at a kink, any supergradient.
    start
        The starting point.
    scale
        Typical change of each variable; above 0.
    evaluations
        Most evaluations of the function, at least one.

    Notes
    -----
    Source: Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 3.1. Complexity O(20 n)
    per evaluation, besides the function.
    """
    pairs: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=MEMORY)
    point = start / scale
    value, slope = value_and_slope(start)
    slope = slope * scale
    left = evaluations - 1
    while left > 0:
        direction = _direction(slope, pairs)
        promised = _dot(direction, slope)
        if promised <= 0:
            break
        if not pairs:
            direction, promised = direction / np.abs(slope).max(), promised / np.abs(slope).max()
        step = 1.0
        while True:
            left -= 1
            moved = point + step * direction
            moved_value, moved_slope = value_and_slope(moved * scale)
            if moved_value >= value + LEAST_SHARE * step * promised:
                break
            if left <= 0 or step < 1e-6:
                return point * scale
            # The next step goes to the maximum of the parabola through both values and the slope.
            top = step * step * promised / (2 * (step * promised - (moved_value - value)))
            step = min(0.5 * step, max(0.1 * step, top))
        moved_slope = moved_slope * scale
        change, fall = moved - point, slope - moved_slope
        curvature = _dot(change, fall)
        if curvature > 1e-12 * _dot(fall, fall):
            pairs.append((change, fall, curvature))
        rise = moved_value - value
        point, value, slope = moved, moved_value, moved_slope
        if rise <= LEAST_RISE * abs(value):
            break
    return point * scale


def _direction(slope: FloatArray, pairs: deque[tuple[FloatArray, FloatArray, float]]) -> FloatArray:
    """Return the L-BFGS search direction for a slope, by the two-loop recursion."""
    direction = slope.copy()
    shares = []
    for change, fall, curvature in reversed(pairs):
        share = _dot(change, direction) / curvature
        shares.append(share)
        direction -= share * fall
    if pairs:
        _, fall, curvature = pairs[-1]
        direction *= curvature / _dot(fall, fall)
    for (change, fall, curvature), share in zip(pairs, reversed(shares), strict=True):
        direction += (share - _dot(fall, direction) / curvature) * change
    return direction


def _dot(first: FloatArray, second: FloatArray) -> float:
    return float(np.einsum("i,i->", first, second))  # avoids BLAS, as `ascend` explains


ASCENT_STEPS = 40
COARSE_NODES, MIDDLE_NODES, FINE_NODES = 150, 400, 1200
"""Numbers of time nodes besides the releases: with few jobs, with many, and for the final value."""
COMPILE_FROM_JOBS = 40
"""From this many jobs on, a compiled kernel evaluates the dual."""
ASCENT_WORK = 5e8
"""Most elementary kernel steps of an ascent, about two seconds."""
STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 5e6
LARGEST_PRODUCT = 4e8
"""Largest product of distinct releases and jobs; above it releases are rounded down."""


def mean_busy_time_bound(instance: Instance, steps: int = ASCENT_STEPS) -> float:
    """Return a lower bound on mean JCT, in seconds, from the mean busy times of the jobs.

    Job j completes at C_j >= M_j + h_j / 2, where M_j is the mean time at which its work is done,
    and h_j is its running time with all its workers. The least sum of M_j is a transportation
    problem of work to time. Its dual, with one multiplier per job, is concave. It is evaluated from
    above in continuous time, so any multipliers give a valid bound. L-BFGS finds good multipliers
    on fewer time nodes than the final evaluation uses, starting from those of smallest remaining
    area first. Complexity O(m) expected time for each node and evaluation, with m jobs released and
    not priced out; memory O(nodes + n).

    Parameters
    ----------
    steps
        Evaluations of the dual; fewer give a weaker bound. They are limited by `ASCENT_WORK`.
    """
    data = BoundData(instance)
    nodes = COARSE_NODES if data.jobs < COMPILE_FROM_JOBS else MIDDLE_NODES
    multipliers = MeanBusyTimes(data, nodes).ascent(steps)
    return MeanBusyTimes(data, FINE_NODES).bound(multipliers)


class MeanBusyTimes:
    """The dual problem of minimising the sum of the jobs' mean busy times, on a grid of times.

    Parameters
    ----------
    data
        The jobs.
    nodes
        Number of time nodes besides the releases.
    """

    def __init__(self, data: BoundData, nodes: int) -> None:
        self.data, self.jobs = data, data.jobs
        self.release = rounded_down(data.release, max(2, int(LARGEST_PRODUCT / data.jobs)))
        self.times, self.weights, origin = self._nodes(nodes)
        # Each job has a segment for base demand and a segment for its less efficient extra workers.
        useful = (data.extra > 0) & (data.efficiency > 0)
        linear = useful & (data.efficiency == 1)
        owner = np.concatenate((np.arange(self.jobs), np.flatnonzero(useful & ~linear)))
        capacity = np.concatenate(
            (np.where(linear, data.base + data.extra, data.base), data.extra[useful & ~linear])
        )
        per_work = data.gpus_per_work[owner]
        per_work[self.jobs :] /= data.efficiency[owner[self.jobs :]]
        order = np.argsort(self.release[owner], kind="stable")
        self.owner, self.capacity = owner[order], capacity[order]
        self.per_work = per_work[order]
        self.cost = data.work[self.owner] * self.per_work
        self.available = np.searchsorted(self.release[self.owner], origin, side="right")
        self.steps = 0.0  # kernel steps of the last evaluation

    def _nodes(self, nodes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the node times, their trapezoidal weights, and the last release before each node.

        Between releases the value of the cluster's time is convex in time, so the trapezoidal rule
        never underestimates it. Nodes are dense where much work is done. Each release has two
        nodes, one without and one with the jobs released at that time.
        """
        data = self.data
        gpu_s = data.work * data.gpus_per_work
        worst = gpu_s / np.where(data.efficiency > 0, data.efficiency, 1.0)
        # A multiplier above this horizon cannot improve the bound.
        horizon = float(
            self.release.max() + worst.sum() / data.gpus + (data.work / data.base_rate).max()
        )
        begins = np.unique(np.concatenate(([0.0], self.release)))
        busy = float(begins[-1] + gpu_s.sum() / data.gpus)
        step = max(busy, 1e-300) / nodes
        ends = np.concatenate((begins[1:], [busy]))
        parts = np.maximum(1, np.ceil((ends - begins) / step)).astype(int)
        parts[-1] = max(8, parts[-1])
        count = parts + 1
        part = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        share = part / np.repeat(parts, count)
        times = np.repeat(begins, count) * (1 - share) + np.repeat(ends, count) * share
        origin = np.repeat(begins, count)
        # An interval must be at least as wide as the spacing of floats, or the loop never ends.
        later, width = [busy], max(float(times[-1] - times[-2]), math.ulp(busy))
        while later[-1] < horizon:
            width *= 1.15
            later.append(later[-1] + width)
        times = np.concatenate((times, later[1:]))
        origin = np.concatenate((origin, np.full(len(later) - 1, begins[-1])))
        half = np.where(origin[1:] == origin[:-1], np.diff(times) / 2, 0.0)
        weights = np.concatenate((half, [0.0])) + np.concatenate(([0.0], half))
        return times, weights, origin

    def value_and_slope(self, multipliers: FloatArray) -> tuple[float, FloatArray]:
        """Return the dual value, a lower bound on the sum of mean busy times, and a supergradient.

        Parameters
        ----------
        multipliers
            Shape (jobs,): the dual multipliers in seconds. The work of a job has positive worth
            until this time.
        """
        # The bound ignores time after the last node, so no multiplier may exceed the last node.
        clipped = multipliers > self.times[-1]
        multipliers = np.minimum(multipliers, self.times[-1])
        reach = multipliers[self.owner]
        fill = self.fill_dense if self.jobs < COMPILE_FROM_JOBS else self.fill_compiled
        earned, held = fill(reach)
        done = np.bincount(self.owner, weights=held / self.per_work, minlength=self.jobs)
        slope = np.where(clipped, 0.0, 1.0 - done / self.data.work)
        return math.fsum(multipliers) - earned, slope

    def fill_compiled(self, reach: FloatArray) -> tuple[float, FloatArray]:
        """Return the total worth earned over time, and the GPU-seconds held by each segment.

        Parameters
        ----------
        reach
            The time until which each segment has positive worth: the multiplier of its job.
        """
        segments = Segments(
            reach=reach,
            cost=self.cost,
            capacity=self.capacity,
            active=np.empty(len(reach), dtype=np.int64),
            worth=np.empty(len(reach)),
        )
        node, held, totals = 0, np.zeros(len(reach)), np.zeros(4)
        while node < len(self.times):
            require_time()
            node, held, totals = fill_nodes.compiled(
                node,
                STEPS_BETWEEN_LOOKS_AT_THE_CLOCK,
                self.times,
                self.weights,
                self.available,
                int(self.data.gpus),
                segments,
                held,
                totals,
            )
        self.steps = float(totals[1])
        return float(totals[0]), held

    def fill_dense(self, reach: FloatArray) -> tuple[float, FloatArray]:
        """Compute the result of `fill_compiled` for few jobs without compiled code."""
        # At time t, a unit of work of job j earns (multiplier of j - t) / work of j.
        worth = (reach[None, :] - self.times[:, None]) / self.cost
        worth[np.arange(len(reach))[None, :] >= self.available[:, None]] = 0.0
        order = np.argsort(-worth, axis=1)
        sorted_worth = np.take_along_axis(worth, order, axis=1)
        capacity = self.capacity[order]
        before = np.cumsum(capacity, axis=1) - capacity
        given = np.clip(self.data.gpus - before, 0.0, capacity)
        given[sorted_worth <= 0] = 0.0
        earned = float(self.weights @ (sorted_worth * given).sum(axis=1))
        use = np.zeros_like(worth)
        np.put_along_axis(use, order, given, axis=1)
        held: FloatArray = self.weights @ use
        return earned, held

    def start(self) -> FloatArray:
        """Return starting multipliers, from a one-machine relaxation or from jobs run alone.

        Where smallest area first is optimal, the multiplier of a job is its completion plus its
        area times the number of jobs still waiting then, because the price of a GPU is the jobs
        that it delays.
        """
        data = self.data
        alone = data.release + data.height
        completions, queue = smallest_area_first(data)
        area = data.work * data.gpus_per_work / data.gpus
        queued = np.maximum(alone, completions) + area * queue
        return max(alone, queued, key=lambda guess: self.value_and_slope(guess)[0])

    def ascent(self, steps: int = ASCENT_STEPS) -> FloatArray:
        """Return good multipliers after at most `steps` evaluations of the dual."""
        start = self.start()
        if self.steps > 0:
            steps = min(steps, max(1, int(ASCENT_WORK / self.steps)))
        # The multipliers of longer jobs usually change more, so their steps are larger.
        scale = np.sqrt(self.data.height)
        scale *= self.data.height.mean() / scale.mean()
        return ascend(self.value_and_slope, start, scale, steps)

    def prices(
        self, multipliers: FloatArray, begins: FloatArray, moments: FloatArray
    ) -> FloatArray:
        """Return the worth of one more GPU at each of `moments`, for jobs released by `begins`.

        Time and memory O(moments * n).
        """
        worth = (multipliers[self.owner][None, :] - moments[:, None]) / self.cost
        worth[self.release[self.owner][None, :] > begins[:, None]] = 0.0
        worth = np.maximum(worth, 0.0)
        order = np.argsort(-worth, axis=1)
        held = np.cumsum(self.capacity[order], axis=1)
        last = np.minimum((held < self.data.gpus).sum(axis=1), len(self.owner) - 1)
        rows = np.arange(len(moments))
        full = held[:, -1] >= self.data.gpus
        return np.where(full, worth[rows, order[rows, last]], 0.0)

    def bound(self, multipliers: FloatArray) -> float:
        """Return the lower bound on mean JCT, in seconds, that the multipliers give."""
        data = self.data
        value, _ = self.value_and_slope(multipliers)
        # Each term of the double sum is rounded at most once per node and once per segment.
        terms = len(self.times) + len(self.owner)
        total = safe_difference(value + math.fsum(multipliers), math.fsum(multipliers), terms)
        total += math.fsum(data.height) / 2
        return safe_difference(total, math.fsum(data.release), 1) / self.jobs


def rounded_down(release: FloatArray, most: int) -> FloatArray:
    """Return releases rounded down to at most `most` distinct values."""
    distinct = np.unique(release)
    if len(distinct) <= most:
        return release
    few = distinct[np.linspace(0, len(distinct) - 1, most).astype(int)]
    rounded: FloatArray = few[np.searchsorted(few, release, side="right") - 1]
    return rounded
