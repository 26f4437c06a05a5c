"""The inner loop of list schedules of gangs: by the moment, and by turns.

Jobs of as many GPUs are a *kind*; the waiting ones of each are a heap of ranks, so that the first
in turn among those for which there is room is the least of a few heads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lyra_opt.core.kernels import kernel

ASIDE = 64
"""Jobs that are passed over at a moment, because the capacity falls before they would complete."""


class Work(NamedTuple):
    """What does not change between schedules: arrays by job, by kind (fewest GPUs first), by step.

    ``gpus``, ``run``, ``kind``; ``kind_gpus``, and ``first``, where the heap of each begins;
    ``since`` and ``capacity``, which falls for the last time at ``last_fall``.
    """

    gpus: Any
    run: Any
    kind: Any
    kind_gpus: Any
    first: Any
    since: Any
    capacity: Any
    last_fall: Any


class Turns(NamedTuple):
    """Who goes first, and from when on: arrays by job.

    ``order`` is the jobs in turn and ``rank`` the turn of each; ``earliest``, and ``arrivals``,
    the jobs by that.
    """

    order: Any
    rank: Any
    earliest: Any
    arrivals: Any


class Space(NamedTuple):
    """Space to work in.

    ``heap`` (jobs) and ``size`` (kinds) of who waits; ``end`` and ``freed`` (jobs): a heap of who
    runs; ``held`` (steps): what those that have started hold as a step begins; ``aside``.
    """

    heap: Any
    size: Any
    end: Any
    freed: Any
    held: Any
    aside: Any


@kernel
def push_waiting(heap: Any, first: int, size: int, rank: int) -> Any:
    """Add a rank to a heap of `size`, which begins at `first`; return the new size."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if heap[first + above] <= rank:
            break
        heap[first + place] = heap[first + above]
        place = above
    heap[first + place] = rank
    return size + 1


@kernel
def pop_waiting(heap: Any, first: int, size: int) -> Any:
    """Take the least rank off a heap; return the new size."""
    size -= 1
    rank = heap[first + size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and heap[first + below + 1] < heap[first + below]:
            below += 1
        if rank <= heap[first + below]:
            break
        heap[first + place] = heap[first + below]
        place = below
    heap[first + place] = rank
    return size


@kernel
def push_running(end: Any, freed: Any, size: int, at: int, gpus: int) -> Any:
    """Add a job that frees GPUs at a moment; return the new size."""
    place = size
    while place > 0:
        above = (place - 1) // 2
        if end[above] <= at:
            break
        end[place] = end[above]
        freed[place] = freed[above]
        place = above
    end[place] = at
    freed[place] = gpus
    return size + 1


@kernel
def pop_running(end: Any, freed: Any, size: int) -> Any:
    """Take the job that ends first off; return the new size."""
    size -= 1
    at = end[size]
    gpus = freed[size]
    place = 0
    while True:
        below = 2 * place + 1
        if below >= size:
            break
        if below + 1 < size and end[below + 1] < end[below]:
            below += 1
        if at <= end[below]:
            break
        end[place] = end[below]
        freed[place] = freed[below]
        place = below
    end[place] = at
    freed[place] = gpus
    return size


@kernel
def lasts(work: Any, job: int, now: int, step: int, held: Any) -> Any:
    """Whether there is room for a job in all steps that begin while it runs."""
    until = now + work.run[job]
    later = step + 1
    while later <= work.last_fall and work.since[later] < until:
        if held[later] + work.gpus[job] > work.capacity[later]:
            return False
        later += 1
    return True


@kernel
def start(work: Any, job: int, now: int, step: int, held: Any) -> Any:
    """Hold the GPUs of a job that starts in all steps that begin while it runs; return its end."""
    until = now + work.run[job]
    later = step + 1
    while later <= work.last_fall and work.since[later] < until:
        held[later] += work.gpus[job]
        later += 1
    return until


@kernel
def list_schedule(work: Any, turns: Any, backfills: int, space: Any, starts: Any) -> Any:
    """Start each job as soon as it is its turn; return the starts, -1 of jobs for which never is.

    At each moment jobs start in turn. With `backfills` those for which there is no room are passed
    over; else nobody behind the first of them starts.
    """
    heap = space.heap
    size = space.size
    kinds = len(size)
    steps = len(work.since)
    jobs = len(starts)
    for kind in range(kinds):
        size[kind] = 0
    for later in range(steps):
        space.held[later] = 0
    for job in range(jobs):
        starts[job] = -1
    running = 0
    arrived = 0
    step = 0
    free = work.capacity[0]
    while arrived < jobs or running > 0 or step + 1 < steps:
        now = -1
        if arrived < jobs:
            now = turns.earliest[turns.arrivals[arrived]]
        if running > 0 and (now < 0 or space.end[0] < now):
            now = space.end[0]
        if step + 1 < steps and (now < 0 or work.since[step + 1] < now):
            now = work.since[step + 1]
        while running > 0 and space.end[0] <= now:
            free += space.freed[0]
            running = pop_running(space.end, space.freed, running)
        while step + 1 < steps and work.since[step + 1] <= now:
            step += 1
            free += work.capacity[step] - work.capacity[step - 1]
        while arrived < jobs and turns.earliest[turns.arrivals[arrived]] <= now:
            job = turns.arrivals[arrived]
            kind = work.kind[job]
            size[kind] = push_waiting(heap, work.first[kind], size[kind], turns.rank[job])
            arrived += 1
        aside = 0
        while True:
            rank = jobs
            chosen = -1
            for kind in range(kinds):
                if backfills and work.kind_gpus[kind] > free:
                    break
                if size[kind] > 0 and heap[work.first[kind]] < rank:
                    rank = heap[work.first[kind]]
                    chosen = kind
            if chosen < 0 or work.kind_gpus[chosen] > free:
                break
            job = turns.order[rank]
            if lasts(work, job, now, step, space.held):
                starts[job] = now
                until = start(work, job, now, step, space.held)
                free -= work.gpus[job]
                running = push_running(space.end, space.freed, running, until, work.gpus[job])
            elif backfills and aside < len(space.aside):
                space.aside[aside] = job
                aside += 1
            else:
                break
            size[chosen] = pop_waiting(heap, work.first[chosen], size[chosen])
        for place in range(aside):
            job = space.aside[place]
            kind = work.kind[job]
            size[kind] = push_waiting(heap, work.first[kind], size[kind], turns.rank[job])
    return starts
