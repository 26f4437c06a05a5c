"""Decisions that hand out one worker at a time, on the state of `schedules.kernel`."""

from __future__ import annotations

import heapq
from typing import Any

from lyra_opt.allocation.schedules.kernel import (
    ACTIVE,
    BY_ARRIVAL,
    EFFICIENCY,
    GPUS_PER_WORKER,
    MAX_WORKERS,
    MIN_WORKERS,
    TARGET,
    keep_bases,
    remaining_work,
)
from lyra_opt.core.kernels import kernel, kernel_with_lists


@kernel_with_lists
def add_to_smallest_share(free: int, state: Any) -> Any:
    """Add one worker at a time to the job that holds the fewest GPUs; ties by release and file.

    A job whose next worker does not fit gets no more.
    """
    target = state.held[TARGET]
    size = state.limits[GPUS_PER_WORKER]
    most = state.limits[MAX_WORKERS]
    by_arrival = state.held[BY_ARRIVAL]
    heap = [(0, 0)]
    heap.pop()
    for place in range(state.counts[ACTIVE]):
        job = by_arrival[place]
        if 0 < target[job] < most[job]:
            heap.append((target[job] * size[job], place))
    heapq.heapify(heap)
    while free > 0 and len(heap) > 0:
        _, place = heapq.heappop(heap)
        job = by_arrival[place]
        if size[job] > free:
            continue
        target[job] += 1
        free -= size[job]
        if target[job] < most[job]:
            heapq.heappush(heap, (target[job] * size[job], place))
    return free


@kernel
def share_by_afs(state: Any) -> Any:
    """Give base demands and workers one at a time to the winner of AFS-L's comparisons.

    A step is the base demand of a waiting job, or one more worker. The first job of those whose
    step fits, by release and file, is compared with each later one in turn, the winner going on.
    """
    target = state.held[TARGET]
    least = state.limits[MIN_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    efficiency = state.given[EFFICIENCY]
    free = keep_bases(state)
    most = state.limits[MAX_WORKERS]
    by_arrival = state.held[BY_ARRIVAL]
    while free > 0:
        best = -1
        for place in range(state.counts[ACTIVE]):
            job = by_arrival[place]
            if target[job] == most[job]:
                continue
            step = size[job] if target[job] > 0 else least[job] * size[job]
            if step > free:
                continue
            if best < 0:
                best = job
                continue
            best_left = remaining_work(best, state)
            left = remaining_work(job, state)
            if target[best] == 0 and target[job] == 0:
                if left / least[job] < best_left / least[best]:
                    best = job
                continue
            # The shorter of the two at its own share, and the longer; without workers: endless.
            short = best
            long = job
            if target[best] == 0:
                short = job
                long = best
            elif target[job] > 0:
                rate = least[job] + (target[job] - least[job]) * efficiency[job]
                best_rate = least[best] + (target[best] - least[best]) * efficiency[best]
                if left / rate < best_left / best_rate:
                    short = job
                    long = best
            short_rate = least[short] + (target[short] - least[short]) * efficiency[short]
            short_gain = efficiency[short] / (short_rate * size[short])
            if target[long] > 0:
                rate = least[long] + (target[long] - least[long]) * efficiency[long]
                rate += efficiency[long]
                long_gain = efficiency[long] / (rate * size[long])
            else:
                long_gain = 1.0 / (least[long] * size[long])
            best = long if long_gain > short_gain else short
        if best < 0:
            break
        if target[best] > 0:
            target[best] += 1
            free -= size[best]
        else:
            target[best] = least[best]
            free -= least[best] * size[best]
    return free
