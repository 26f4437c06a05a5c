"""Prices of GPU time that make the bound large: ascent along what is used beyond what there is.

The first prices are those of one fast machine, on which jobs run one after the other.

The cluster is taken for one machine, on which job j takes the GPU-seconds a_j of its cheapest way.
In the mean, its work is delayed least by the rule of Smith (1956), the highest w_j / a_j first,
with interruptions. The linear programme of that (Goemans et al. 2002) has prices ::

    price(t) = max over released j of lambda_j - t w_j / a_j,

where the job that runs attains the maximum. So lambda is known of each job once it is known of the
one that is next in line when it completes, and 0 is the price where nobody is.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.core.run_progress import within_run
from lyra_opt.core.stopwatch import is_out_of_time, within_time
from lyra_opt.pricing.kernel import (
    JCT,
    QUEUE,
    PricedJobs,
    Prices,
    Scratch,
    price_jobs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]


STEP, SLOWER_AFTER = 1.0, 30.0
"""Relative change of a price at a cell whose use is far off, and passes after which it is half."""
MOMENTUM = 0.8
"""Share of the last passes in what a cell is taken to use."""
FLOOR, LEAST_FLOOR = 2.0, 0.01
"""Of prices in a step, beside the mean of first ones, and beside what a job weighs for each GPU."""
MOST_EXCESS = 1.5
"""Beyond what there is, relative to it, that one step answers to."""
MEMORY = 0.9
"""Share of the last passes in the mean of prices."""
FIRST_SCALES = (1.0, 0.5, 0.25, 0.1, 0.0)
"""Of the first prices, which are tried."""
ROUND, PATIENCE = 10, 5
"""Passes after which the mean is tried, and what was gained is looked at; and how many such rounds
without better prices than before end the ascent."""
USUAL_PASSES = 120
"""By which progress is told; Lyra's workloads take 80 to 150 passes."""
LEAST_GAIN, LEAST_GAIN_OF_RUNS = 2e-4, 2e-5
"""Of a round, relative to what prices have gained at all, and to how long jobs run alone, without
which the ascent ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The GPU-seconds that there are, by pool and cell.

    Parameters
    ----------
    border_s : array of cells + 1
        Begins of cells and the horizon, rising; after it GPUs are free of charge.
    gpu_s : array of (pools, cells)
        GPU-seconds of each pool in each cell.
    """

    border_s: FloatArray
    gpu_s: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """The jobs at some prices.

    Parameters
    ----------
    price : array of (pools, cells)
        Of a GPU-second, in weighted seconds.
    value
        What all jobs pay at least less the price of the room, in weighted seconds.
    use_gpu_s : array of (pools, cells)
        What they use at that; zeros where it was not counted.
    start_s : array of jobs
        When each first holds GPUs at that.
    """

    price: FloatArray
    value: float
    use_gpu_s: FloatArray
    start_s: FloatArray


class Pricer:
    """Prices the same jobs again and again.

    Parameters
    ----------
    jobs
        Whose ``cell`` are those of `room`.
    room
        What there is.
    is_queue
        Whether they are to wait little, rather than to complete soon.
    """

    def __init__(self, jobs: PricedJobs, room: Room, *, is_queue: bool = False) -> None:
        self.jobs, self.room = jobs, room
        self._objective = QUEUE if is_queue else JCT
        ways = int((np.diff(jobs.first) * (1 + jobs.adds)).max()) + 1
        pools, cells = room.gpu_s.shape
        parts = 1 if jobs.is_contiguous.all() else (cells + 1) * ways
        count = len(jobs.release_s)
        self.scratch = Scratch(
            unit=np.empty(parts),
            amount=np.empty(parts),
            way=np.zeros(ways, dtype=np.int64),
            until=np.zeros(ways, dtype=np.int64),
            rate=np.empty(ways),
            cost=np.empty(ways),
            use=np.empty((pools, cells + 1)),
            change=np.empty((pools, cells + 1)),
            paid=np.empty(count),
            size=np.empty(count),
            start_s=np.empty(count),
        )
        self._border_s = np.append(room.border_s, np.inf)
        self._length_s = np.diff(room.border_s)

    def prices(self, price: FloatArray) -> Prices:
        """Return prices of (pools, cells) as the kernel takes them."""
        after = np.zeros((len(price), 1))
        paid = np.cumsum(price * self._length_s, axis=1)
        return Prices(self._border_s, np.hstack((price, after)), np.hstack((after, paid)))

    def at(self, price: FloatArray, *, counts: bool = True) -> Priced:
        """Return the jobs at prices of (pools, cells); `counts`: with what they use."""
        scratch = self.scratch
        scratch.use.fill(0.0)
        scratch.change.fill(0.0)
        price_jobs.compiled(self.jobs, self.prices(price), self._objective, int(counts), scratch)
        use = np.cumsum(scratch.change, axis=1)[:, :-1] * self._length_s + scratch.use[:, :-1]
        value = float(scratch.paid.sum() - (price * self.room.gpu_s).sum())
        return Priced(price=price, value=value, use_gpu_s=use, start_s=scratch.start_s.copy())


def steps(pricer: Pricer, here: Priced, like: FloatArray) -> Iterator[Priced]:
    """Yield the jobs at prices that follow what they use, without end.

    Parameters
    ----------
    pricer
        Of the jobs and the room; the room may be changed between steps.
    here
        The jobs at the prices to begin with.
    like : array of (pools, cells)
        Prices about as large as the best, 0 throughout where nothing is known of these.

    Notes
    -----
    Source: this project; heavy-ball steps (Polyak 1964). A price rises by a share of itself and of
    a little that is the same for all, times the smoothed relative excess of use over room; the
    share falls with the passes. Complexity: a pass a step.
    """
    jobs = pricer.jobs
    by_gpu = jobs.weight.sum() / np.minimum.reduceat(jobs.gpus, jobs.first[:-1]).sum()
    usual = (like * pricer.room.gpu_s).sum() / max(1.0, pricer.room.gpu_s.sum())
    floor = max(FLOOR * usual, LEAST_FLOOR * by_gpu)
    momentum = np.zeros_like(here.price)
    for step in count(1):
        room_gpu_s = pricer.room.gpu_s
        lacking = (here.use_gpu_s - room_gpu_s) / np.maximum(room_gpu_s, 1.0)
        excess = np.clip(lacking, -MOST_EXCESS, MOST_EXCESS)
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * excess
        share = STEP / (1 + step / SLOWER_AFTER)
        here = pricer.at(np.maximum(0.0, here.price + share * (here.price + floor) * momentum))
        yield here


def ascend(pricer: Pricer, first: FloatArray, passes: int) -> Priced:
    """Return the jobs at the best prices found.

    Parameters
    ----------
    pricer
        Of the jobs and the room.
    first : array of (pools, cells)
        Prices to begin with, at least 0.
    passes
        How often all jobs are priced at most, at least 1; fewer where a time limit is in force.

    Notes
    -----
    Source: this project; averages (Polyak and Juditsky 1992) of `steps`. Prices swing about the
    best ones, so that their mean is tried from time to time. The bound is valid whatever this does.
    Complexity: a pass a step.
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
    """Return prices of (pools, cells); O(jobs log jobs + cells)."""
    worth = _worth(jobs, len(room.gpu_s))
    area = np.minimum.reduceat(worth[jobs.pool] * jobs.gpus / jobs.rate, jobs.first[:-1])
    there = product(worth, room.gpu_s)
    found: FloatArray = worth[:, None] * _of_one_machine(
        jobs.release_s, area, jobs.weight, there, room.border_s
    )
    return found


def _worth(jobs: PricedJobs, pools: int) -> FloatArray:
    """Return what a GPU of each pool does beside one of the best, for jobs that can use it."""
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
    """Return the price at the middle of each cell.

    Parameters
    ----------
    release_s, area, weight
        Of each job.
    there
        What the machine does in each cell.
    border_s
        Begins of cells and the horizon.
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
    # What is left at the horizon is taken to be done there.
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
"""Roundings on the way to what one job pays, sums left out; generous."""


def safe_value(pricer: Pricer, price: FloatArray) -> float:
    """Return a number that the bound at these prices is not below.

    Parameters
    ----------
    pricer
        Of the jobs and the room.
    price : array of (pools, cells)
        At least 0.
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
