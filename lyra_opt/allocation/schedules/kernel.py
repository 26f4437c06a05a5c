"""The inner loops of the schedule evaluator, and the rules that run to the end in one call.

Every kernel works on the state that `lyra_opt.allocation.schedules.evaluator` creates. Jobs are
file positions. The remaining work of a job is stored as of the last change of its workers, with its
completion time. While its workers stay the same nothing is rounded, however many events pass.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel, kernel_with_lists


class Fluid(NamedTuple):
    """The state of a simulated schedule as arrays, indexed by the constants of this module.

    ``limits`` and ``given`` hold constant data of the jobs, as integers and as floats. ``held`` and
    ``moving`` hold their current state. The log has a column for each piece of the schedule.
    """

    limits: Any
    given: Any
    held: Any
    moving: Any
    counts: Any
    clock: Any
    log_workers: Any
    log_times: Any


# Row indices of the array `limits`; ARRIVALS lists the jobs by release, then in file order.
MIN_WORKERS, MAX_WORKERS, GPUS_PER_WORKER, ARRIVALS = 0, 1, 2, 3
# Row indices of the array `given`. Jobs are ordered by SLOPE * remaining work + OFFSET.
RELEASE, EFFICIENCY, SLOPE, OFFSET = 0, 1, 2, 3
# Row indices of the array `held`; BY_ARRIVAL and BY_KEY list the active jobs in two orders.
STARTED, WORKERS, TARGET, BY_ARRIVAL, BY_KEY = 0, 1, 2, 3, 4
# Row indices of the array `moving`.
SINCE, REMAINING, FINISH, KEY = 0, 1, 2, 3
# Indices of the array `counts`; the entry LOGS tells whether schedule pieces are recorded.
GPUS, ACTIVE, ARRIVED, LOGGED, LOGS = 0, 1, 2, 3, 4
# Indices of the array `clock`.
NOW, TOTAL_JCT = 0, 1
# Row indices of the arrays `log_workers` and `log_times`.
LOG_JOB, LOG_COUNT = 0, 1
LOG_START, LOG_END = 0, 1
# A job does not start if its key is at least NEVER.
# Kernels repeat the literal 1e300, because a cached kernel's name covers only integer constants.
NEVER = 1e300
# Allocation rules that `run_rule` can simulate.
FILL_BASES_FIRST, FILL_ONE_BY_ONE, FILL_IN_TURN, FILL_WITH_FORESIGHT, MARGINAL = 0, 1, 2, 3, 4
# Return values of `targets_fault`.
NO_FAULT, OUT_OF_RANGE, STOPS_A_JOB, TOO_MANY_GPUS = 0, 1, 2, 3


@kernel
def log_piece(job: int, end: float, state: Any) -> None:
    """Record that a job has held its workers from their last change until `end`."""
    counts = state.counts
    if counts[LOGS]:
        column = counts[LOGGED]
        state.log_workers[LOG_JOB][column] = job
        state.log_workers[LOG_COUNT][column] = state.held[WORKERS][job]
        state.log_times[LOG_START][column] = state.moving[SINCE][job]
        state.log_times[LOG_END][column] = end
        counts[LOGGED] = column + 1


@kernel
def next_event(state: Any) -> Any:
    """Return the time of the next release or completion, or -1 if no event is left."""
    counts = state.counts
    finish = state.moving[FINISH]
    workers = state.held[WORKERS]
    by_arrival = state.held[BY_ARRIVAL]
    first = -1.0
    for place in range(counts[ACTIVE]):
        job = by_arrival[place]
        if workers[job] > 0 and (first < 0.0 or finish[job] < first):
            first = finish[job]
    arrivals = state.limits[ARRIVALS]
    if counts[ARRIVED] < len(arrivals):
        next_release = state.given[RELEASE][arrivals[counts[ARRIVED]]]
        if first < 0.0 or next_release < first:
            first = next_release
    return first


@kernel
def advance(state: Any) -> Any:
    """Go to the next release or completion; return 0 if no event is left.

    Events within 1e-12 of the time of the first event count as simultaneous, so that rounding does
    not split one decision into two. The decision is taken at the last of these events. Each job
    still completes at its own time, and its GPUs idle until the decision.
    """
    first = next_event(state)
    if first < 0.0:
        return 0
    counts = state.counts
    arrivals = state.limits[ARRIVALS]
    release = state.given[RELEASE]
    finish = state.moving[FINISH]
    workers = state.held[WORKERS]
    by_arrival = state.held[BY_ARRIVAL]
    by_key = state.held[BY_KEY]
    last = first * (1.0 + 1e-12)
    now = first
    active = counts[ACTIVE]
    kept = 0
    for place in range(active):
        job = by_arrival[place]
        if workers[job] > 0 and finish[job] <= last:
            now = max(now, finish[job])
            state.clock[TOTAL_JCT] += finish[job] - release[job]
            log_piece(job, finish[job], state)
        else:
            by_arrival[kept] = job
            kept += 1
    if kept < active:
        kept = 0
        for place in range(active):
            job = by_key[place]
            if not (workers[job] > 0 and finish[job] <= last):
                by_key[kept] = job
                kept += 1
    while counts[ARRIVED] < len(arrivals):
        job = arrivals[counts[ARRIVED]]
        if release[job] > last:
            break
        now = max(now, release[job])
        by_arrival[kept] = job
        by_key[kept] = job
        kept += 1
        counts[ARRIVED] += 1
    counts[ACTIVE] = kept
    state.clock[NOW] = now
    return 1


@kernel
def remaining_work(job: int, state: Any) -> Any:
    """Return the current remaining work of `job`, in worker-seconds."""
    moving = state.moving
    workers = state.held[WORKERS][job]
    if workers == 0:
        return moving[REMAINING][job]
    least = state.limits[MIN_WORKERS][job]
    rate = least + (workers - least) * state.given[EFFICIENCY][job]
    return moving[REMAINING][job] - rate * (state.clock[NOW] - moving[SINCE][job])


@kernel
def sort_by_key(state: Any) -> Any:
    """Sort the active jobs by key, ties in file order.

    Keys are rounded to 40 significant bits, so that keys that differ only by rounding are ties;
    keys from `NEVER` on are not rounded. It is an insertion sort from the order of the last
    decision, which mostly remains the right one.
    """
    by_key = state.held[BY_KEY]
    key = state.moving[KEY]
    slope = state.given[SLOPE]
    offset = state.given[OFFSET]
    for place in range(state.counts[ACTIVE]):
        job = by_key[place]
        exact = slope[job] * remaining_work(job, state) + offset[job]
        job_key = exact
        if exact < 1e300:  # NEVER
            scaled = exact * 8193.0
            job_key = scaled - (scaled - exact)
        key[job] = job_key
        hole = place
        while hole > 0:
            before = by_key[hole - 1]
            if key[before] < job_key or (key[before] == job_key and before < job):
                break
            by_key[hole] = before
            hole -= 1
        by_key[hole] = job
    return 0


@kernel
def keep_bases(state: Any) -> Any:
    """Give started jobs their base demands and other jobs nothing; return the GPUs left."""
    started = state.held[STARTED]
    target = state.held[TARGET]
    least = state.limits[MIN_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    by_arrival = state.held[BY_ARRIVAL]
    free = state.counts[GPUS]
    for place in range(state.counts[ACTIVE]):
        job = by_arrival[place]
        target[job] = 0
        if started[job]:
            target[job] = least[job]
            free -= least[job] * size[job]
    return free


@kernel
def start_bases(order: Any, state: Any) -> Any:
    """Give base demands to started jobs, then to the waiting jobs in `order` that fit.

    Returns the remaining GPUs.
    """
    started = state.held[STARTED]
    target = state.held[TARGET]
    key = state.moving[KEY]
    least = state.limits[MIN_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    free = keep_bases(state)
    for place in range(state.counts[ACTIVE]):
        if free == 0:
            break
        job = order[place]
        if key[job] >= 1e300:  # NEVER
            continue
        if not started[job] and least[job] * size[job] <= free:
            target[job] = least[job]
            free -= least[job] * size[job]
    return free


@kernel
def fill_bases_first(state: Any) -> Any:
    """Give base demands in the order of the key, then extra workers in the order of the key."""
    sort_by_key(state)
    order = state.held[BY_KEY]
    target = state.held[TARGET]
    most = state.limits[MAX_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    free = start_bases(order, state)
    for place in range(state.counts[ACTIVE]):
        if free == 0:
            break
        job = order[place]
        if target[job]:
            extra = min(most[job] - target[job], free // size[job])
            target[job] += extra
            free -= extra * size[job]
    return 0


@kernel
def pays_to_wait(job: int, free: int, unlocked: int, state: Any) -> Any:
    """Return whether starting `job` now would delay some future job more than waiting costs.

    If `job` starts now with the workers that fit into `free` GPUs, it locks its base demand until
    its end e. Take a future job, released at r before e, that runs for d seconds. If it does not
    fit beside `job`, but fits without it into the `unlocked` GPUs that no base demand holds, it
    must wait for e - r. If `job` waits instead, it starts r + d - now later.
    """
    least = state.limits[MIN_WORKERS]
    most = state.limits[MAX_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    release = state.given[RELEASE]
    now = state.clock[NOW]
    workers = min(most[job], free // size[job])
    rate = least[job] + (workers - least[job]) * state.given[EFFICIENCY][job]
    end = now + remaining_work(job, state) / rate
    left = unlocked - least[job] * size[job]
    for place in range(state.counts[ARRIVED], len(release)):
        later = state.limits[ARRIVALS][place]
        if release[later] >= end:
            break
        base = least[later] * size[later]
        if left < base <= unlocked:
            workers = min(most[later], unlocked // size[later])
            rate = least[later] + (workers - least[later]) * state.given[EFFICIENCY][later]
            length = state.moving[REMAINING][later] / rate
            delay = release[later] + length - now
            if delay < (end - release[later]) * (1.0 - 1e-9):  # a tie starts the job
                return 1
    return 0


@kernel
def fill_one_by_one(waits_in_turn: int, foresees: int, state: Any) -> Any:
    """Visit the jobs in key order, and give each job all the workers that it can use.

    Started jobs keep their base demands. With `waits_in_turn` no job starts before a job of smaller
    key that does not fit yet; without it, that job is skipped. With `foresees` no job starts while
    waiting for a future job pays.
    """
    sort_by_key(state)
    order = state.held[BY_KEY]
    started = state.held[STARTED]
    target = state.held[TARGET]
    least = state.limits[MIN_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    blocked = 0
    free = keep_bases(state)
    unlocked = free
    for place in range(state.counts[ACTIVE]):
        if free == 0:
            break
        job = order[place]
        if state.moving[KEY][job] >= 1e300 and not started[job]:  # NEVER
            continue
        if not started[job] and not blocked and least[job] * size[job] <= free:
            if foresees and pays_to_wait(job, free, unlocked, state):
                continue
            unlocked -= least[job] * size[job]
        if started[job] or (not blocked and least[job] * size[job] <= free):
            extra = min(state.limits[MAX_WORKERS][job] - target[job], free // size[job])
            target[job] += extra
            free -= extra * size[job]
        elif waits_in_turn:
            blocked = 1
    return 0


@kernel
def gain_of_worker(job: int, per_gpu: int, state: Any) -> Any:
    """Return the remaining time that one more worker saves, divided by its GPUs if `per_gpu`."""
    least = state.limits[MIN_WORKERS][job]
    efficiency = state.given[EFFICIENCY][job]
    left = remaining_work(job, state)
    rate = least + (state.held[TARGET][job] - least) * efficiency
    gain = left / rate - left / (rate + efficiency)
    if per_gpu:
        gain /= state.limits[GPUS_PER_WORKER][job]
    return gain


@kernel_with_lists
def add_by_gain(free: int, per_gpu: int, state: Any) -> Any:
    """Add one worker at a time where it saves the most remaining time, or the most per GPU.

    Ties are broken by file order. A job whose next worker does not fit gets no more workers.
    """
    target = state.held[TARGET]
    most = state.limits[MAX_WORKERS]
    size = state.limits[GPUS_PER_WORKER]
    heap = [(0.0, -1)]
    heap.pop()
    for place in range(state.counts[ACTIVE]):
        job = state.held[BY_ARRIVAL][place]
        if 0 < target[job] < most[job]:
            heap.append((-gain_of_worker(job, per_gpu, state), job))
    heapq.heapify(heap)
    while free > 0 and len(heap) > 0:
        _, job = heapq.heappop(heap)
        if size[job] > free:
            continue
        target[job] += 1
        free -= size[job]
        if target[job] < most[job]:
            heapq.heappush(heap, (-gain_of_worker(job, per_gpu, state), job))
    return free


@kernel
def base_then_gain(state: Any) -> Any:
    """Give base demands in the order of the key, then single workers by gain per GPU."""
    sort_by_key(state)
    free = start_bases(state.held[BY_KEY], state)
    return add_by_gain(free, 1, state)


@kernel
def decide_by_rule(rule: int, state: Any) -> Any:
    """Set the workers of all active jobs by the allocation rule with number `rule`."""
    if rule == FILL_BASES_FIRST:
        fill_bases_first(state)
    elif rule == FILL_ONE_BY_ONE:
        fill_one_by_one(0, 0, state)
    elif rule == FILL_IN_TURN:
        fill_one_by_one(1, 0, state)
    elif rule == FILL_WITH_FORESIGHT:
        fill_one_by_one(0, 1, state)
    else:
        base_then_gain(state)
    return 0


@kernel
def targets_fault(state: Any) -> Any:
    """Return the code of the first rule that a decision breaks, or `NO_FAULT`."""
    held = state.held
    limits = state.limits
    gpus = 0
    for place in range(state.counts[ACTIVE]):
        job = held[BY_ARRIVAL][place]
        target = held[TARGET][job]
        gpus += target * limits[GPUS_PER_WORKER][job]
        if target == 0:
            if held[STARTED][job]:
                return STOPS_A_JOB
        elif target < limits[MIN_WORKERS][job] or target > limits[MAX_WORKERS][job]:
            return OUT_OF_RANGE
    return TOO_MANY_GPUS if gpus > state.counts[GPUS] else NO_FAULT


@kernel
def apply_targets(state: Any) -> Any:
    """Change active jobs to the workers of the decision; return how many jobs have workers."""
    held = state.held
    moving = state.moving
    now = state.clock[NOW]
    holding = 0
    for place in range(state.counts[ACTIVE]):
        job = held[BY_ARRIVAL][place]
        target = held[TARGET][job]
        workers = held[WORKERS][job]
        if target > 0:
            holding += 1
        if target == workers:
            continue
        moving[REMAINING][job] = remaining_work(job, state)
        if workers > 0:
            log_piece(job, now, state)
        held[STARTED][job] = 1
        held[WORKERS][job] = target
        moving[SINCE][job] = now
        least = state.limits[MIN_WORKERS][job]
        rate = least + (target - least) * state.given[EFFICIENCY][job]
        finish = now + moving[REMAINING][job] / rate
        if finish <= now:  # shorter than one unit in the last place
            finish = now * (1.0 + 2.0**-52) + 5e-324
        moving[FINISH][job] = finish
    return holding


@kernel
def run_rule(rule: int, decides: int, steps: int, state: Any) -> Any:
    """Simulate an allocation rule; return 1 when no event is left, 0 when it pauses before.

    It pauses when the log must be emptied, or when the sum over decisions of the active jobs
    exceeds `steps`. `decides` tells whether the decision of the present moment is still to be
    taken.
    """
    while True:
        if decides:
            if steps <= 0:
                return 0
            steps -= 1 + state.counts[ACTIVE]
            if state.counts[LOGS] and state.counts[LOGGED] + 2 * state.counts[ACTIVE] > len(
                state.log_workers[LOG_JOB]
            ):
                return 0
            decide_by_rule(rule, state)
            apply_targets(state)
        decides = 1
        if advance(state) == 0:
            return 1
