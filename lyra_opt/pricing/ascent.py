"""Ascent of the prices of GPU time: raise prices where use exceeds capacity, lower them elsewhere.

The first prices come from a single fast machine that runs the jobs one after another. On that
machine job j takes the least number of GPU-seconds a_j of its execution modes. The rule of Smith
(1956), highest w_j / a_j first with interruptions, minimises the weighted mean time of the work.
The corresponding linear programme (Goemans et al. 2002) has the prices ::

    price(t) = max over released j of lambda_j - t w_j / a_j,

where the running job attains the maximum. So the lambda of a job follows from that of the job next
in line when it completes, and the price is 0 where no job is next.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.run_progress import within_run
from lyra_opt.core.stopwatch import is_out_of_time, within_time
from lyra_opt.pricing.kernel import JCT, QUEUE, PricedJobs, Prices, Scratch, price_jobs

STEP, SLOWER_AFTER = 1.0, 30.0
"""Largest relative change of a price in a step, and the number of passes after which it halves."""
MOMENTUM = 0.8
"""Weight of earlier passes in the smoothed excess of a time interval."""
FLOOR, LEAST_FLOOR = 2.0, 0.01
"""Floor of prices in a step: relative to the mean first price, and to the mean weight per GPU."""
MOST_EXCESS = 1.5
"""Largest relative excess over the capacity that a step takes into account."""
MEMORY = 0.9
"""Weight of earlier passes in the mean of prices."""
FIRST_SCALES = (1.0, 0.5, 0.25, 0.1, 0.0)
"""Multiples of the first prices that are tried."""
ROUND, PATIENCE = 10, 5
"""Passes per round, after which the mean is tried and progress is checked, and the number of
rounds without better prices that end the ascent."""
USUAL_PASSES = 120
"""Expected number of passes for progress reports; Lyra's workloads take 80 to 150 passes."""
LEAST_GAIN, LEAST_GAIN_OF_RUNS = 2e-4, 2e-5
"""Least gain of a round, relative to the total gain and to the running times of jobs alone; the
ascent ends at a smaller gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The available GPU-seconds by pool and time interval.

    Parameters
    ----------
    border_s : array of cells + 1
        Begins of the time intervals (cells) and the horizon, rising. After the horizon, GPUs cost
        nothing.
    gpu_s : array of (pools, cells)
        GPU-seconds of each pool in each cell.
    """

    border_s: FloatArray
    gpu_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """The evaluation of the bound at given prices: its value and the GPU-seconds used.

    Parameters
    ----------
    price : array of (pools, cells)
        Price of a GPU-second, in weighted seconds.
    value
        The least payments of all jobs minus the price of all GPU-seconds, in weighted seconds.
    use_gpu_s : array of (pools, cells)
        GPU-seconds that the jobs use at these prices; zeros if they were not counted.
    start_s : array of jobs
        When each job first holds GPUs at these prices.
    """

    price: FloatArray
    value: float
    use_gpu_s: FloatArray
    start_s: FloatArray


class Pricer:
    """A Lagrangian bound for a set of jobs that can be evaluated at many GPU prices.

    Parameters
    ----------
    jobs
        The jobs, whose ``cell`` refers to the cells of `room`.
    room
        The available GPU-seconds.
    is_queue
        Whether the objective is the queuing time and not the completion time.
    """

    def __init__(self, jobs: PricedJobs, room: Room, *, is_queue: bool = False) -> None:
        self.jobs, self.room = jobs, room
        self._objective = QUEUE if is_queue else JCT
        modes = int((np.diff(jobs.first) * (1 + jobs.adds)).max()) + 1
        pools, cells = room.gpu_s.shape
        parts = 1 if jobs.is_contiguous.all() else (cells + 1) * modes
        count = len(jobs.release_s)
        self.scratch = Scratch(
            unit=np.empty(parts),
            amount=np.empty(parts),
            mode=np.zeros(modes, dtype=np.int64),
            until=np.zeros(modes, dtype=np.int64),
            rate=np.empty(modes),
            cost=np.empty(modes),
            use=np.empty((pools, cells + 1)),
            change=np.empty((pools, cells + 1)),
            paid=np.empty(count),
            size=np.empty(count),
            start_s=jobs.release_s.copy(),
        )
        self._border_s = np.append(room.border_s, np.inf)
        self._length_s = np.diff(room.border_s)

    def prices(self, price: FloatArray) -> Prices:
        """Convert prices, one per pool and time interval, to the arrays that kernels take."""
        after = np.zeros((len(price), 1))
        paid = np.cumsum(price * self._length_s, axis=1)
        return Prices(self._border_s, np.hstack((price, after)), np.hstack((after, paid)))

    def at(self, price: FloatArray, *, counts: bool = True) -> Priced:
        """Evaluate the Lagrangian bound at GPU prices, one per pool and time interval.

        With `counts`, it also computes the GPU use.
        """
        scratch = self.scratch
        scratch.use.fill(0.0)
        scratch.change.fill(0.0)
        price_jobs.compiled(self.jobs, self.prices(price), self._objective, int(counts), scratch)
        use = np.cumsum(scratch.change, axis=1)[:, :-1] * self._length_s + scratch.use[:, :-1]
        value = float(scratch.paid.sum() - (price * self.room.gpu_s).sum())
        return Priced(price=price, value=value, use_gpu_s=use, start_s=scratch.start_s.copy())


def steps(pricer: Pricer, here: Priced, like: FloatArray, *, after: int = 0) -> Iterator[Priced]:
    """Yield bound evaluations without end, raising prices of overused GPU time and lowering others.

    Parameters
    ----------
    pricer
        The pricer of the jobs; its room may be changed between steps.
    here
        The jobs at the starting prices.
    like : array of (pools, cells)
        Prices of about the optimal size; all 0 if nothing is known.
    after
        Number of steps that the starting prices are worth; later steps are smaller.

    Notes
    -----
    Source: this project; heavy-ball steps (Polyak 1964). A price changes by a share of itself plus
    a small constant, times the smoothed relative excess of use over room. The share falls with the
    number of passes. Complexity: one pass per step.
    """
    jobs = pricer.jobs
    by_gpu = jobs.weight.sum() / np.minimum.reduceat(jobs.gpus, jobs.first[:-1]).sum()
    usual = (like * pricer.room.gpu_s).sum() / max(1.0, pricer.room.gpu_s.sum())
    floor = max(FLOOR * usual, LEAST_FLOOR * by_gpu)
    momentum = np.zeros_like(here.price)
    for step in count(after + 1):
        room_gpu_s = pricer.room.gpu_s
        lacking = (here.use_gpu_s - room_gpu_s) / np.maximum(room_gpu_s, 1.0)
        excess = np.clip(lacking, -MOST_EXCESS, MOST_EXCESS)
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * excess
        share = STEP / (1 + step / SLOWER_AFTER)
        here = pricer.at(np.maximum(0.0, here.price + share * (here.price + floor) * momentum))
        yield here


def ascend(pricer: Pricer, first: FloatArray, passes: int) -> Priced:
    """Search for the GPU prices with the best bound, and return the evaluation at these prices.

    Parameters
    ----------
    pricer
        The pricer of the jobs.
    first : array of (pools, cells)
        Starting prices, at least 0.
    passes
        Most passes over all jobs, at least 1; fewer if a time limit is reached.

    Notes
    -----
    Source: this project; averages (Polyak and Juditsky 1992) of `steps`. Prices oscillate around
    the best ones, so their mean is tried from time to time. The bound is valid for any prices.
    Complexity: one pass per step.
    """
    tried = [pricer.at(scale * first) for scale in FIRST_SCALES]
    best = max(tried, key=lambda found: found.value)
    free_value = tried[-1].value
    jobs = pricer.jobs
    alone = (jobs.weight / np.maximum.reduceat(jobs.rate, jobs.first[:-1])).sum()
    before = recent = -math.inf
    last_gain = 0
    mean = best.price
    following = steps(pricer, best, best.price if best.price.any() else tried[-2].price)
    for step in range(1, passes):
        if is_out_of_time():
            break
        within_run(min(step / USUAL_PASSES, 1.0))
        here = next(following)
        mean = MEMORY * mean + (1 - MEMORY) * here.price
        is_last = step % ROUND == 0
        for found in (here, pricer.at(mean)) if is_last else (here,):
            recent = max(recent, found.value)
            if found.value > best.value:
                best, last_gain = found, step
        if is_last:
            least_gain = max(LEAST_GAIN * (best.value - free_value), LEAST_GAIN_OF_RUNS * alone)
            if recent - before <= least_gain or step - last_gain >= PATIENCE * ROUND:
                break
            before, recent = recent, -math.inf
    return best


NOBODY = -1


def first_prices(jobs: PricedJobs, room: Room) -> FloatArray:
    """Return starting prices, one per pool and time interval, in O(jobs log jobs + cells) time."""
    worth = _worth(jobs, len(room.gpu_s))
    area = np.minimum.reduceat(worth[jobs.pool] * jobs.gpus / jobs.rate, jobs.first[:-1])
    there = product(worth, room.gpu_s)
    found: FloatArray = worth[:, None] * _of_one_machine(
        jobs.release_s, area, jobs.weight, there, room.border_s
    )
    return found


def _worth(jobs: PricedJobs, pools: int) -> FloatArray:
    """Return, for each pool, the median speed of its GPUs relative to each job's fastest GPU."""
    does = jobs.rate / jobs.gpus
    best = np.repeat(np.maximum.reduceat(does, jobs.first[:-1]), np.diff(jobs.first))
    worth = np.zeros(pools)
    for pool in range(pools):
        here = jobs.pool == pool
        worth[pool] = np.median(does[here] / best[here]) if here.any() else 0.0
    return worth


def _of_one_machine(
    release_s: FloatArray,
    area: FloatArray,
    weight: FloatArray,
    there: FloatArray,
    border_s: FloatArray,
) -> FloatArray:
    """Return the optimal price in the middle of each time cell if the cluster is one fast machine.

    Parameters
    ----------
    release_s, area, weight
        Release, machine time and weight of each job.
    there
        The machine time available in each cell.
    border_s
        Begins of the time intervals (cells) and the horizon.
    """
    order = np.argsort(release_s, kind="stable").tolist()
    releases, left = release_s.tolist(), area.tolist()
    slope = (weight / area).tolist()
    queue: list[tuple[float, int]] = []
    runs = [NOBODY] * len(there)
    done: list[tuple[int, float, int]] = []
    following = 0
    for cell, does in enumerate(within_time(there.tolist())):
        begin_s, end_s = float(border_s[cell]), float(border_s[cell + 1])
        middle_s = (begin_s + end_s) / 2
        now_s, a_second = begin_s, does / (end_s - begin_s)
        while now_s < end_s:
            while following < len(order) and releases[order[following]] <= now_s:
                job = order[following]
                if slope[job] > 0:
                    heapq.heappush(queue, (-slope[job], job))
                following += 1
            until_s = end_s
            if following < len(order):
                until_s = min(until_s, releases[order[following]])
            job = queue[0][1] if queue and a_second > 0 else NOBODY
            completes = job != NOBODY and left[job] <= (until_s - now_s) * a_second
            if completes:
                until_s = now_s + left[job] / a_second
                heapq.heappop(queue)
                done.append((job, until_s, queue[0][1] if queue else NOBODY))
            elif job != NOBODY:
                left[job] -= (until_s - now_s) * a_second
            if now_s <= middle_s <= until_s:
                runs[cell] = job
            now_s = until_s
    lines = [0.0] * len(releases)
    # Jobs that have not completed by the horizon count as completed at the horizon.
    while queue:
        _, job = heapq.heappop(queue)
        done.append((job, float(border_s[-1]), queue[0][1] if queue else NOBODY))
    for job, end_s, following in reversed(done):
        later = 0.0 if following == NOBODY else lines[following] - slope[following] * end_s
        lines[job] = slope[job] * end_s + max(0.0, later)
    middles_s = (border_s[:-1] + border_s[1:]) / 2
    found = [
        0.0 if job == NOBODY else max(0.0, lines[job] - slope[job] * middle_s)
        for job, middle_s in zip(runs, middles_s.tolist(), strict=True)
    ]
    return np.array(found)


EPSILON = float(np.finfo(float).eps)
SLACK = 64.0
"""A generous number of roundings in the payment of one job, without those of sums."""


def safe_value(pricer: Pricer, price: FloatArray) -> float:
    """Return a lower bound on the exact Lagrangian value at these prices, safe from rounding.

    Parameters
    ----------
    pricer
        The pricer of the jobs.
    price : array of (pools, cells)
        Prices, at least 0.
    """
    pricer.at(price, counts=False)
    jobs, room, scratch = pricer.jobs, pricer.room, pricer.scratch
    cells = price.shape[1]
    length_s = np.diff(room.border_s)
    most_paid = float((price * length_s).sum(axis=1).max(initial=0.0))
    most_paid += float(price.max(initial=0.0)) * float(room.border_s[-1])
    gpus = np.maximum.reduceat(jobs.gpus, jobs.first[:-1])
    slowest_s = 1.0 / np.minimum.reduceat(jobs.rate, jobs.first[:-1])
    margin = EPSILON * (
        (SLACK + cells) * gpus * most_paid
        + SLACK * jobs.weight * (room.border_s[-1] + jobs.release_s + slowest_s)
        + SLACK * scratch.size
    )
    paid = math.fsum(scratch.paid - margin)
    rent = (price * room.gpu_s).ravel()
    least = math.fsum(-rent * (1 + (SLACK + cells) * EPSILON))
    return paid + least - SLACK * EPSILON * (abs(paid) + abs(least))
