"""Improve a schedule by taking out a few jobs near one time and putting them back in another order.

This is a large-neighbourhood search (Shaw 1998). Each job is put back at the earliest time at which
it fits. An order is given up as soon as it cannot be better any more.
"""

from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.arrays import IntArray
from lyra_opt.core.kernels import kernel
from lyra_opt.core.stopwatch import is_out_of_time
from lyra_opt.simulation.clairvoyant.gangs import LATEST_US, Capacity, Gangs
from lyra_opt.simulation.clairvoyant.profile import NOWHERE, add, earliest, has_room, profile_of

MOST = 12
"""Most jobs that are taken out at once."""
SPANS = 5
"""Number of spans: jobs are chosen among the 2, 4, ... times as many that start nearest."""
BLOCK = 20_000
"""Moves between two sorts of the jobs by start, and two looks at the clock."""
NOISE_US = 3_600_000
"""A thousandth of the spread of the random changes of start times in an order."""
STEPS_A_MOVE = 1_000
"""Approximate number of elementary steps per move."""
FIRST_RANDOM, MULTIPLIER, MODULUS = 12_345, 48_271, 2**31 - 1
"""The random numbers of Park and Miller (1988), which compiled and interpreted code share."""


class Jobs(NamedTuple):
    """The jobs of a schedule, as arrays by job, with times in microseconds.

    ``turn`` is the area. ``order`` has the jobs in order of the start that they had at the
    begin of a block of moves, and ``place`` the position of each. ``late`` lists the jobs that
    start after their release.
    """

    release: Any
    run: Any
    gpus: Any
    turn: Any
    order: Any
    place: Any
    late: Any


class Scratch(NamedTuple):
    """Working arrays of a move, by the number of the job within the move.

    ``taken`` has the jobs as they are taken out, ``job`` as they are put back, in order of ``key``.
    ``soonest`` is where each job of ``taken`` could start if it alone were put back, and ``first``
    the same by job of ``job``; ``start`` is its new start.
    """

    taken: Any
    job: Any
    key: Any
    soonest: Any
    first: Any
    start: Any


@kernel
def following(state: int) -> Any:
    """Return the random number that follows another one."""
    return state * MULTIPLIER % MODULUS


@kernel
def choose(jobs: Any, taken: Any, state: int) -> Any:
    """Choose the jobs of a move, a late job first; return their number and the random state."""
    state = following(state)
    late = jobs.late[state % len(jobs.late)]
    state = following(state)
    most = 1 + state % (MOST - 1)
    state = following(state)
    most = 2 + state % most
    state = following(state)
    span = most << (state % SPANS)
    taken[0] = late
    size = 1
    for _ in range(2 * most):
        state = following(state)
        place = jobs.place[late] + state % (2 * span + 1) - span
        if size == most or place < 0 or place >= len(jobs.order):
            continue
        other = jobs.order[place]
        is_new = True
        for number in range(size):
            if taken[number] == other:
                is_new = False
        if is_new:
            taken[size] = other
            size += 1
    return size, state


@kernel
def arrange(jobs: Any, starts: Any, scratch: Any, size: int, state: int) -> Any:
    """Order the jobs of a move by one of four rules with noise; return the random state."""
    job = scratch.job
    key = scratch.key
    first = scratch.first
    state = following(state)
    rule = state % 4
    for number in range(size):
        chosen = scratch.taken[number]
        soonest = scratch.soonest[number]
        state = following(state)
        value = state
        if rule == 1:
            value = int(jobs.turn[chosen] * (500 + state % 1000))
        elif rule == 2:
            value = starts[chosen] + (state % 1000 - 500) * NOISE_US
        elif rule == 3:
            value = soonest + (state % 1000 - 500) * NOISE_US
        place = number
        while place > 0 and key[place - 1] > value:
            key[place] = key[place - 1]
            job[place] = job[place - 1]
            first[place] = first[place - 1]
            place -= 1
        key[place] = value
        job[place] = chosen
        first[place] = soonest
    return state


@kernel
def put_back(jobs: Any, profile: Any, scratch: Any, size: int, hope: float) -> Any:
    """Put jobs back in order while this can be better; return their number and the gain."""
    gain = hope
    for number in range(size):
        job = scratch.job[number]
        first = scratch.first[number]
        reach = LATEST_US - first
        if gain < reach:
            reach = int(gain)
        start = earliest(profile, first, jobs.run[job], jobs.gpus[job], first + reach)
        if start == NOWHERE:
            return number, gain
        gain -= start - first
        end = start + jobs.run[job]
        if gain < 0.0 or not (has_room(profile, start) and has_room(profile, end)):
            return number, gain
        add(profile, start, end, -jobs.gpus[job])
        scratch.start[number] = start
    return size, gain


@kernel
def reinsert(jobs: Any, profile: Any, starts: Any, scratch: Any, moves: int, random: int) -> Any:
    """Make moves, and keep those that do not increase the sum of starts.

    Returns the starts, the number of moves and the random state. It stops early if a bucket of the
    profile is full.
    """
    done = 0
    state = random
    while done < moves:
        done += 1
        size, state = choose(jobs, scratch.taken, state)
        out = 0
        hope = 0.0
        while out < size:
            job = scratch.taken[out]
            end = starts[job] + jobs.run[job]
            if not (has_room(profile, starts[job]) and has_room(profile, end)):
                break
            add(profile, starts[job], end, jobs.gpus[job])
            out += 1
        is_full = out < size
        is_better = False
        if not is_full:
            for number in range(size):
                job = scratch.taken[number]
                soonest = earliest(
                    profile, jobs.release[job], jobs.run[job], jobs.gpus[job], starts[job]
                )
                scratch.soonest[number] = soonest
                hope += starts[job] - soonest
        if hope > 0.0:
            state = arrange(jobs, starts, scratch, size, state)
            back, gain = put_back(jobs, profile, scratch, size, hope)
            is_better = back == size and gain >= 0.0
            # Changes are undone in reverse order, so that no bucket holds more than before.
            while back > 0 and not is_better:
                back -= 1
                job = scratch.job[back]
                start = scratch.start[back]
                add(profile, start, start + jobs.run[job], jobs.gpus[job])
        if is_better:
            for number in range(size):
                starts[scratch.job[number]] = scratch.start[number]
        while out > 0 and not is_better:
            out -= 1
            job = scratch.taken[out]
            add(profile, starts[job], starts[job] + jobs.run[job], -jobs.gpus[job])
        if is_full:
            break
    return starts, done, state


def reinserted(gangs: Gangs, capacity: Capacity, start_us: IntArray, moves: int) -> IntArray:
    """Return the starts of a schedule after moves that only make it better, in microseconds.

    Parameters
    ----------
    gangs, capacity
        The jobs, and the number of GPUs over time.
    start_us : array of jobs
        Starts of a valid schedule in microseconds.
    moves
        Number of moves; fewer if a time limit is reached.

    Notes
    -----
    Source: large-neighbourhood search (Shaw 1998). Complexity per move: O(`MOST` * (log breakpoints
    + buckets that a job covers)). Guarantee: never worse than `start_us`.
    """
    turn = np.minimum(gangs.area_gpu_s, 1e12)
    scratch = Scratch(*np.zeros((6, MOST), dtype=np.int64))
    found, random = start_us, FIRST_RANDOM
    while moves > 0 and not is_out_of_time():
        late = np.flatnonzero(found > gangs.release_us)
        if len(late) == 0:
            break
        order = np.argsort(found, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        parts = gangs.release_us, gangs.run_us, gangs.gpus, turn, order, place, late
        profile = profile_of(found, gangs.run_us, gangs.gpus, *capacity.steps_us)
        found, done, random = reinsert.run(
            Jobs(*parts),
            profile,
            found.copy(),
            scratch,
            min(moves, BLOCK),
            int(random),
            work=STEPS_A_MOVE * moves,
            largest=LATEST_US,
        )
        found = np.array(found, dtype=np.int64)
        moves -= int(done)
    return found
