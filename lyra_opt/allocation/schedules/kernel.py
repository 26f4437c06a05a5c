"""The moves of a schedule in the making, and the rules that are simulated to the end in one go.

Every kernel works on the same flat state, made by `lyra_opt.allocation.schedules.evaluator`; the
constants name its rows. Jobs are file positions. A job's remaining work is kept as of the moment at
which its number of workers last changed, together with when it will complete: while its workers
stay, nothing is rounded, however many events pass.
"""

from __future__ import annotations

import heapq
from typing import Any

from lyra_opt.core.kernels import kernel, kernel_with_lists

# Rows of `limits`, integers by job; the last lists the jobs by release, then in file order.
MIN_WORKERS, MAX_WORKERS, GPUS_PER_WORKER, ARRIVALS = 0, 1, 2, 3
# Rows of `given`, floats by job. The key that orders jobs is SLOPE * remaining work + OFFSET.
RELEASE, EFFICIENCY, SLOPE, OFFSET = 0, 1, 2, 3
# Rows of `held`, integers by job; the last two list the jobs released and not completed.
STARTED, WORKERS, TARGET, BY_ARRIVAL, BY_KEY = 0, 1, 2, 3, 4
# Rows of `moving`, floats by job.
SINCE, REMAINING, FINISH, KEY = 0, 1, 2, 3
# Entries of `counts`; LOGS is whether pieces are written down.
GPUS, ACTIVE, ARRIVED, LOGGED, LOGS = 0, 1, 2, 3, 4
# Entries of `clock`.
NOW, TOTAL_JCT = 0, 1
# Rows of `log_workers`, integers, and of `log_times`, floats: a piece of the schedule a column.
LOG_JOB, LOG_COUNT = 0, 1
LOG_START, LOG_END = 0, 1
# Jobs of at least this key do not start; written out in kernels, whose cache is named by integers.
NEVER = 1e300
# Rules that `run_rule` simulates.
FILL_BASES_FIRST, FILL_ONE_BY_ONE, FILL_IN_TURN, FILL_WITH_FORESIGHT, MARGINAL = 0, 1, 2, 3, 4
# What `targets_fault` finds.
NO_FAULT, OUT_OF_RANGE, STOPS_A_JOB, TOO_MANY_GPUS = 0, 1, 2, 3


@kernel
def advance(
    limits: Any,
    given: Any,
    held: Any,
    moving: Any,
    counts: Any,
    clock: Any,
    log_workers: Any,
    log_times: Any,
) -> Any:
    """Go to the next release or completion; return 0 if there is none.

    Events within 1e-12 of the time of the first count as simultaneous, so that rounding does not
    split what is one decision. It is taken at the last of them; each job completes at its own
    time, and its GPUs idle until then.
    """
    jobs = len(limits[ARRIVALS])
    finish = moving[FINISH]
    workers = held[WORKERS]
    by_arrival = held[BY_ARRIVAL]
    by_key = held[BY_KEY]
    release = given[RELEASE]
    active = counts[ACTIVE]
    first = -1.0
    for place in range(active):
        job = by_arrival[place]
        if workers[job] > 0 and (first < 0.0 or finish[job] < first):
            first = finish[job]
    if counts[ARRIVED] < jobs:
        next_release = release[limits[ARRIVALS][counts[ARRIVED]]]
        if first < 0.0 or next_release < first:
            first = next_release
    if first < 0.0:
        return 0
    last = first * (1.0 + 1e-12)
    now = first
    kept = 0
    for place in range(active):
        job = by_arrival[place]
        if workers[job] > 0 and finish[job] <= last:
            now = max(now, finish[job])
            clock[TOTAL_JCT] += finish[job] - release[job]
            if counts[LOGS]:
                column = counts[LOGGED]
                log_workers[LOG_JOB][column] = job
                log_workers[LOG_COUNT][column] = workers[job]
                log_times[LOG_START][column] = moving[SINCE][job]
                log_times[LOG_END][column] = finish[job]
                counts[LOGGED] = column + 1
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
    while counts[ARRIVED] < jobs:
        job = limits[ARRIVALS][counts[ARRIVED]]
        if release[job] > last:
            break
        now = max(now, release[job])
        by_arrival[kept] = job
        by_key[kept] = job
        kept += 1
        counts[ARRIVED] += 1
    counts[ACTIVE] = kept
    clock[NOW] = now
    return 1


@kernel
def remaining_work(job: int, given: Any, limits: Any, held: Any, moving: Any, clock: Any) -> Any:
    """Return the work that `job` has left now."""
    workers = held[WORKERS][job]
    if workers == 0:
        return moving[REMAINING][job]
    least = limits[MIN_WORKERS][job]
    rate = least + (workers - least) * given[EFFICIENCY][job]
    return moving[REMAINING][job] - rate * (clock[NOW] - moving[SINCE][job])


@kernel
def sort_by_key(limits: Any, given: Any, held: Any, moving: Any, counts: Any, clock: Any) -> Any:
    """Put the active jobs in order of key, ties in file order.

    Keys are rounded to 40 significant bits, so that what is equal but for rounding is a tie; those
    from `NEVER` on are not. Insertion sort from the order of the last decision, which is mostly
    the new one too.
    """
    by_key = held[BY_KEY]
    key = moving[KEY]
    slope = given[SLOPE]
    offset = given[OFFSET]
    for place in range(counts[ACTIVE]):
        job = by_key[place]
        exact = slope[job] * remaining_work(job, given, limits, held, moving, clock) + offset[job]
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
def start_bases(order: Any, limits: Any, held: Any, moving: Any, counts: Any) -> Any:
    """Target the base demands of started jobs, then of waiting ones in `order` where they fit.

    Return the GPUs left.
    """
    started = held[STARTED]
    target = held[TARGET]
    least = limits[MIN_WORKERS]
    size = limits[GPUS_PER_WORKER]
    free = counts[GPUS]
    for place in range(counts[ACTIVE]):
        job = order[place]
        target[job] = 0
        if started[job]:
            target[job] = least[job]
            free -= least[job] * size[job]
    for place in range(counts[ACTIVE]):
        if free == 0:
            break
        job = order[place]
        if moving[KEY][job] >= 1e300:  # NEVER
            continue
        if not started[job] and least[job] * size[job] <= free:
            target[job] = least[job]
            free -= least[job] * size[job]
    return free


@kernel
def fill_bases_first(
    limits: Any, given: Any, held: Any, moving: Any, counts: Any, clock: Any
) -> Any:
    """Target base demands in order of key, then extra workers in the same order."""
    sort_by_key(limits, given, held, moving, counts, clock)
    order = held[BY_KEY]
    target = held[TARGET]
    size = limits[GPUS_PER_WORKER]
    free = start_bases(order, limits, held, moving, counts)
    for place in range(counts[ACTIVE]):
        if free == 0:
            break
        job = order[place]
        if target[job]:
            extra = min(limits[MAX_WORKERS][job] - target[job], free // size[job])
            target[job] += extra
            free -= extra * size[job]
    return 0


@kernel
def pays_to_wait(
    job: int,
    free: int,
    unlocked: int,
    limits: Any,
    given: Any,
    held: Any,
    moving: Any,
    counts: Any,
    clock: Any,
) -> Any:
    """Return whether a job to come would lose more by the start of `job` than that by waiting.

    If `job` starts now with the workers that `free` GPUs hold, it locks its base demand until its
    end e. A job to come by then, released at r and d long, that does not fit beside it but would
    fit without it, into the `unlocked` GPUs that no base demand holds, waits for e - r. If `job`
    waits instead, it starts r + d - now later.
    """
    least = limits[MIN_WORKERS]
    most = limits[MAX_WORKERS]
    size = limits[GPUS_PER_WORKER]
    release = given[RELEASE]
    now = clock[NOW]
    workers = min(most[job], free // size[job])
    rate = least[job] + (workers - least[job]) * given[EFFICIENCY][job]
    end = now + remaining_work(job, given, limits, held, moving, clock) / rate
    left = unlocked - least[job] * size[job]
    for place in range(counts[ARRIVED], len(release)):
        later = limits[ARRIVALS][place]
        if release[later] >= end:
            break
        base = least[later] * size[later]
        if left < base <= unlocked:
            workers = min(most[later], unlocked // size[later])
            rate = least[later] + (workers - least[later]) * given[EFFICIENCY][later]
            length = moving[REMAINING][later] / rate
            delay = release[later] + length - now
            if delay < (end - release[later]) * (1.0 - 1e-9):  # a tie starts the job
                return 1
    return 0


@kernel
def fill_one_by_one(
    waits_in_turn: int,
    foresees: int,
    limits: Any,
    given: Any,
    held: Any,
    moving: Any,
    counts: Any,
    clock: Any,
) -> Any:
    """Target, in order of key, all workers that each job can use, before the next job starts.

    Started jobs keep their base demands. With `waits_in_turn` no job starts before one of smaller
    key that does not fit yet; else that one is skipped. With `foresees` no job starts while it
    pays to wait for another to come.
    """
    sort_by_key(limits, given, held, moving, counts, clock)
    order = held[BY_KEY]
    started = held[STARTED]
    target = held[TARGET]
    least = limits[MIN_WORKERS]
    size = limits[GPUS_PER_WORKER]
    blocked = 0
    free = counts[GPUS]
    for place in range(counts[ACTIVE]):
        job = order[place]
        target[job] = 0
        if started[job]:
            target[job] = least[job]
            free -= least[job] * size[job]
    unlocked = free
    for place in range(counts[ACTIVE]):
        if free == 0:
            break
        job = order[place]
        if moving[KEY][job] >= 1e300 and not started[job]:  # NEVER
            continue
        if not started[job] and not blocked and least[job] * size[job] <= free:
            if foresees and pays_to_wait(
                job, free, unlocked, limits, given, held, moving, counts, clock
            ):
                continue
            unlocked -= least[job] * size[job]
        if started[job] or (not blocked and least[job] * size[job] <= free):
            extra = min(limits[MAX_WORKERS][job] - target[job], free // size[job])
            target[job] += extra
            free -= extra * size[job]
        elif waits_in_turn:
            blocked = 1
    return 0


@kernel_with_lists
def add_by_gain(
    free: int,
    per_gpu: int,
    limits: Any,
    given: Any,
    held: Any,
    moving: Any,
    counts: Any,
    clock: Any,
) -> Any:
    """Add one worker at a time where it shortens the remaining time most, or most per GPU.

    Ties in file order. A job whose next worker does not fit gets no more.
    """
    target = held[TARGET]
    heap = [(0.0, -1)]
    heap.pop()
    for place in range(counts[ACTIVE]):
        job = held[BY_ARRIVAL][place]
        least = limits[MIN_WORKERS][job]
        if 0 < target[job] < limits[MAX_WORKERS][job]:
            left = remaining_work(job, given, limits, held, moving, clock)
            rate = least + (target[job] - least) * given[EFFICIENCY][job]
            gain = left / rate - left / (rate + given[EFFICIENCY][job])
            if per_gpu:
                gain /= limits[GPUS_PER_WORKER][job]
            heap.append((-gain, job))
    heapq.heapify(heap)
    while free > 0 and len(heap) > 0:
        _, job = heapq.heappop(heap)
        if limits[GPUS_PER_WORKER][job] > free:
            continue
        target[job] += 1
        free -= limits[GPUS_PER_WORKER][job]
        if target[job] < limits[MAX_WORKERS][job]:
            least = limits[MIN_WORKERS][job]
            left = remaining_work(job, given, limits, held, moving, clock)
            rate = least + (target[job] - least) * given[EFFICIENCY][job]
            gain = left / rate - left / (rate + given[EFFICIENCY][job])
            if per_gpu:
                gain /= limits[GPUS_PER_WORKER][job]
            heapq.heappush(heap, (-gain, job))
    return free


@kernel
def base_then_gain(limits: Any, given: Any, held: Any, moving: Any, counts: Any, clock: Any) -> Any:
    """Target base demands in order of key, then one worker at a time by gain per GPU."""
    sort_by_key(limits, given, held, moving, counts, clock)
    free = start_bases(held[BY_KEY], limits, held, moving, counts)
    return add_by_gain(free, 1, limits, given, held, moving, counts, clock)


@kernel
def decide_by_rule(
    rule: int, limits: Any, given: Any, held: Any, moving: Any, counts: Any, clock: Any
) -> Any:
    """Set the targets by one of the rules named at the top."""
    if rule == FILL_BASES_FIRST:
        fill_bases_first(limits, given, held, moving, counts, clock)
    elif rule == FILL_ONE_BY_ONE:
        fill_one_by_one(0, 0, limits, given, held, moving, counts, clock)
    elif rule == FILL_IN_TURN:
        fill_one_by_one(1, 0, limits, given, held, moving, counts, clock)
    elif rule == FILL_WITH_FORESIGHT:
        fill_one_by_one(0, 1, limits, given, held, moving, counts, clock)
    else:
        base_then_gain(limits, given, held, moving, counts, clock)
    return 0


@kernel
def targets_fault(limits: Any, held: Any, counts: Any) -> Any:
    """Return which rule the targets of the active jobs break."""
    gpus = 0
    for place in range(counts[ACTIVE]):
        job = held[BY_ARRIVAL][place]
        target = held[TARGET][job]
        gpus += target * limits[GPUS_PER_WORKER][job]
        if target == 0:
            if held[STARTED][job]:
                return STOPS_A_JOB
        elif target < limits[MIN_WORKERS][job] or target > limits[MAX_WORKERS][job]:
            return OUT_OF_RANGE
    return TOO_MANY_GPUS if gpus > counts[GPUS] else NO_FAULT


@kernel
def apply_targets(
    limits: Any,
    given: Any,
    held: Any,
    moving: Any,
    counts: Any,
    clock: Any,
    log_workers: Any,
    log_times: Any,
) -> Any:
    """Give every active job the workers that it was targeted; return how many jobs hold some."""
    now = clock[NOW]
    holding = 0
    for place in range(counts[ACTIVE]):
        job = held[BY_ARRIVAL][place]
        target = held[TARGET][job]
        workers = held[WORKERS][job]
        if target > 0:
            holding += 1
        if target == workers:
            continue
        moving[REMAINING][job] = remaining_work(job, given, limits, held, moving, clock)
        if workers > 0 and counts[LOGS]:
            column = counts[LOGGED]
            log_workers[LOG_JOB][column] = job
            log_workers[LOG_COUNT][column] = workers
            log_times[LOG_START][column] = moving[SINCE][job]
            log_times[LOG_END][column] = now
            counts[LOGGED] = column + 1
        held[STARTED][job] = 1
        held[WORKERS][job] = target
        moving[SINCE][job] = now
        least = limits[MIN_WORKERS][job]
        rate = least + (target - least) * given[EFFICIENCY][job]
        finish = now + moving[REMAINING][job] / rate
        if finish <= now:  # too short for the clock: one unit in the last place
            finish = now * (1.0 + 2.0**-52) + 5e-324
        moving[FINISH][job] = finish
    return holding


@kernel
def run_rule(
    rule: int,
    decides: int,
    limits: Any,
    given: Any,
    held: Any,
    moving: Any,
    counts: Any,
    clock: Any,
    log_workers: Any,
    log_times: Any,
) -> Any:
    """Simulate a rule; return 1 when all jobs are complete, 0 when the log must be emptied first.

    `decides` is whether the decision of the present moment is still to be taken.
    """
    while True:
        if decides:
            if counts[LOGS] and counts[LOGGED] + 2 * counts[ACTIVE] > len(log_workers[LOG_JOB]):
                return 0
            decide_by_rule(rule, limits, given, held, moving, counts, clock)
            apply_targets(limits, given, held, moving, counts, clock, log_workers, log_times)
        decides = 1
        if advance(limits, given, held, moving, counts, clock, log_workers, log_times) == 0:
            return 1
