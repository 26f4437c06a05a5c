"""The number of free GPUs over time, for a schedule whose jobs move one by one.

The profile is a step function. Its breakpoints are stored in buckets, each for a fixed stretch of
time. A bucket knows its least and its greatest number of free GPUs. So a search for room skips
whole buckets, and a long job changes one number in each bucket that it covers.
"""

from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.arrays import IntArray
from lyra_opt.core.kernels import kernel

FILL, ROOM = 24, 96
"""Breakpoints per bucket at first, and the most that a bucket holds."""
BREAKPOINTS = 2
"""Most breakpoints that one change adds to a bucket."""
NOWHERE = -1


class Profile(NamedTuple):
    """The free GPUs over time, as arrays by breakpoint and by bucket.

    ``since`` and ``free`` (buckets * `ROOM`): begin of each step, and its free GPUs less the
    ``shift`` of its bucket. By bucket: ``border``, its begin, which is always a breakpoint;
    ``count``, its breakpoints; ``least`` and ``most``, its least and greatest ``free``.
    """

    since: Any
    free: Any
    border: Any
    count: Any
    least: Any
    most: Any
    shift: Any


def profile_of(
    start_us: IntArray, run_us: IntArray, gpus: IntArray, since_us: IntArray, capacity: IntArray
) -> Profile:
    """Return the profile of a schedule.

    Parameters
    ----------
    start_us, run_us, gpus : array of jobs
        Start, run time and number of GPUs of each job; times are in microseconds.
    since_us, capacity : array of steps
        Begin of each step of the capacity, and its number of GPUs.
    """
    moments = np.concatenate((since_us, start_us, start_us + run_us))
    changes = np.concatenate((np.diff(capacity, prepend=0), -gpus, gpus))
    moment, place = np.unique(moments, return_inverse=True)
    free = np.cumsum(np.bincount(place, changes)).astype(np.int64)
    buckets = -(-len(moment) // FILL)
    bucket, within = np.divmod(np.arange(len(moment)), FILL)
    slot = bucket * ROOM + within
    since, frees = np.zeros((2, buckets * ROOM), dtype=np.int64)
    since[slot], frees[slot] = moment, free
    first = np.arange(buckets) * FILL
    return Profile(
        since=since,
        free=frees,
        border=moment[first],
        count=np.bincount(bucket),
        least=np.minimum.reduceat(free, first),
        most=np.maximum.reduceat(free, first),
        shift=np.zeros(buckets, dtype=np.int64),
    )


@kernel
def bucket_at(profile: Any, now: int) -> Any:
    """Return the bucket that contains a moment."""
    border = profile.border
    low = 0
    high = len(border) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if border[middle] <= now:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def has_room(profile: Any, moment: int) -> Any:
    """Return whether `add` may add two breakpoints at a moment and, later, be undone."""
    return profile.count[bucket_at(profile, moment)] + 2 * BREAKPOINTS <= ROOM


@kernel
def add_part(profile: Any, bucket: int, since: int, until: int, gpus: int) -> Any:
    """Add free GPUs from `since` to `until` to a bucket that contains one of the two moments.

    Breakpoints at which nothing changes any more are removed, except the first of the bucket.
    Returns the number of breakpoints.
    """
    times = profile.since
    free = profile.free
    first = bucket * ROOM
    end = first + profile.count[bucket]
    is_last = bucket + 1 == len(profile.border)
    for moment in (since, until):
        if moment < profile.border[bucket] or (
            not is_last and moment >= profile.border[bucket + 1]
        ):
            continue
        place = end
        while times[place - 1] > moment:
            place -= 1
        if times[place - 1] < moment:
            for later in range(end, place, -1):
                times[later] = times[later - 1]
                free[later] = free[later - 1]
            times[place] = moment
            free[place] = free[place - 1]
            end += 1
    kept = first
    least = profile.most[bucket] + abs(gpus)
    most = profile.least[bucket] - abs(gpus)
    for place in range(first, end):
        here = free[place]
        if since <= times[place] < until:
            here += gpus
        if kept > first and free[kept - 1] == here:
            continue
        times[kept] = times[place]
        free[kept] = here
        kept += 1
        least = min(least, here)
        most = max(most, here)
    profile.count[bucket] = kept - first
    profile.least[bucket] = least
    profile.most[bucket] = most
    return kept - first


@kernel
def add(profile: Any, since: int, until: int, gpus: int) -> Any:
    """Add free GPUs from `since` to `until`, in buckets with room; return the last bucket."""
    first = bucket_at(profile, since)
    last = bucket_at(profile, until)
    add_part(profile, first, since, until, gpus)
    for bucket in range(first + 1, last):
        profile.shift[bucket] += gpus
    if last > first:
        add_part(profile, last, since, until, gpus)
    return last


@kernel
def earliest(profile: Any, since: int, run: int, gpus: int, limit: int) -> Any:
    """Return the earliest start from `since` to `limit` at which a job fits; `NOWHERE` if none."""
    border = profile.border
    times = profile.since
    free = profile.free
    buckets = len(border)
    bucket = bucket_at(profile, since)
    start = since
    fits = 1
    place = bucket * ROOM
    after = place + profile.count[bucket]
    while place + 1 < after and times[place + 1] <= since:
        place += 1
    while True:
        needed = gpus - profile.shift[bucket]
        if not (profile.least[bucket] >= needed if fits else profile.most[bucket] < needed):
            while place < after:
                if free[place] < needed:
                    if fits and times[place] >= start + run:
                        return start
                    fits = 0
                elif not fits:
                    start = times[place]
                    if start > limit:
                        return NOWHERE
                    fits = 1
                place += 1
        bucket += 1
        if bucket == buckets:
            return start if fits else NOWHERE
        if fits:
            if border[bucket] >= start + run:
                return start
        elif border[bucket] > limit:
            return NOWHERE
        place = bucket * ROOM
        after = place + profile.count[bucket]
