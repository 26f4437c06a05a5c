"""The schedule for whoever has no time: every job keeps the workers that it starts with."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from lyra_opt.allocation.schedules.evaluator import FluidState
from lyra_opt.allocation.schedules.kernel import (
    ARRIVALS,
    EFFICIENCY,
    GPUS,
    GPUS_PER_WORKER,
    MAX_WORKERS,
    MIN_WORKERS,
    RELEASE,
    REMAINING,
    SINCE,
    STARTED,
    WORKERS,
    log_piece,
)
from lyra_opt.core.kernels import kernel_with_lists

if TYPE_CHECKING:
    from lyra_opt.allocation.instance import Instance, Schedule


def moldable_schedule(instance: Instance) -> Schedule:
    """Return a schedule in which no job's workers change, made without a look at the clock.

    Of the jobs that wait the one of least work starts next, ties in file order, with as many
    workers as fit; those behind it wait until its w_min do, so that none is passed over for ever.

    Complexity O(jobs log jobs): a third of a second for 50,000. Guarantee: none.
    """
    state = FluidState(instance)
    state.decide(start_for_good)
    return state.schedule()


@kernel_with_lists
def start_for_good(state: Any) -> None:
    """Log one piece a job."""
    limits = state.limits
    given = state.given
    least = limits[MIN_WORKERS]
    size = limits[GPUS_PER_WORKER]
    arrivals = limits[ARRIVALS]
    started = state.held[STARTED]
    waiting = [(0.0, 0)]  # work and jobs
    waiting.pop()
    holding = [(0.0, 0)]  # ends and GPUs
    holding.pop()
    free = state.counts[GPUS]
    kept = 0  # for running jobs that have not had their turn
    for job in range(len(arrivals)):
        if started[job]:
            kept += least[job] * size[job]
    arrived = 0
    while arrived < len(arrivals) or len(holding) > 0:
        if len(holding) == 0 or (
            arrived < len(arrivals) and given[RELEASE][arrivals[arrived]] < holding[0][0]
        ):
            now = given[RELEASE][arrivals[arrived]]
        else:
            now = holding[0][0]
        while len(holding) > 0 and holding[0][0] <= now:
            free += heapq.heappop(holding)[1]
        while arrived < len(arrivals) and given[RELEASE][arrivals[arrived]] <= now:
            job = arrivals[arrived]
            heapq.heappush(waiting, (-1.0 if started[job] else state.moving[REMAINING][job], job))
            arrived += 1
        while len(waiting) > 0 and least[waiting[0][1]] * size[waiting[0][1]] <= free:
            _, job = heapq.heappop(waiting)
            if started[job]:
                kept -= least[job] * size[job]
            workers = min(limits[MAX_WORKERS][job], (free - kept) // size[job])
            rate = least[job] + (workers - least[job]) * given[EFFICIENCY][job]
            end = now + state.moving[REMAINING][job] / rate
            if end <= now:  # too short for the clock: one unit in the last place
                end = now * (1.0 + 2.0**-52) + 5e-324
            free -= workers * size[job]
            heapq.heappush(holding, (end, workers * size[job]))
            state.held[WORKERS][job] = workers
            state.moving[SINCE][job] = now
            log_piece(job, end, state)
