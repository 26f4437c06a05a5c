"""Prices to begin with: those of one fast machine, on which jobs run one after the other.

The cluster is taken for one machine, on which job j takes the GPU-seconds a_j of its cheapest way.
In the mean, its work is delayed least by the rule of Smith (1956), the highest w_j / a_j first,
with interruptions. The linear programme of that (Goemans et al. 2002) has prices ::

    price(t) = max over released j of lambda_j - t w_j / a_j,

where the job that runs attains the maximum. So lambda is known of each job once it is known of the
one that is next in line when it completes, and 0 is the price where nobody is.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.fixed_order import product
from lyra_opt.core.stopwatch import within_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.pricing.ascent import Room
    from lyra_opt.pricing.kernel import PricedJobs

    FloatArray = NDArray[np.float64]

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
