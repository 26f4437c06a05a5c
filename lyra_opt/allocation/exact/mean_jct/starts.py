"""Schedules to start the exact search from: priority lists, greedy or patient."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING

from lyra_opt.allocation.exact.mean_jct.orders import OrderData, UnitSchedule, schedule_of
from lyra_opt.allocation.heuristics.policy_solver import quick_schedule
from lyra_opt.core.stopwatch import OutOfTimeError, require_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lyra_opt.allocation.instance import Instance, Schedule

    Key = Callable[[int, float], float]


def priority_schedule(data: OrderData, key: Key, *, patient: bool = False) -> UnitSchedule:
    """Return the schedule of a priority list, decided anew at every release and completion.

    In order of `key` (job, remaining work), ties in file order: started jobs keep their base
    demand, waiting ones get theirs if it fits, then extra workers are filled up. Fractional.

    Raises `OutOfTimeError` once the time limit in force is used up.

    Parameters
    ----------
    patient
        Whether a waiting job starts only once all jobs ahead of it hold w_max, so that it cannot
        slow them down.
    """
    left = [float(work) for work in data.work]
    starts, completions = [-1.0] * data.jobs, [-1.0] * data.jobs
    pieces: list[tuple[int, float, float, float]] = []
    active = [job for job in range(data.jobs) if data.running[job]]
    for job in active:
        starts[job] = 0.0
    now = 0.0
    while min(completions) < 0:
        require_time()
        present = [
            job for job in range(data.jobs) if completions[job] < 0 and data.release[job] <= now
        ]
        present.sort(key=lambda job: key(job, left[job]))
        room = data.gpus - sum(data.base[job] for job in active)
        wanted = 0.0
        for job in present:
            if job in active:
                wanted += data.extra[job]
            elif data.base[job] <= room - (wanted if patient else 0.0):
                active.append(job)
                starts[job] = now
                room -= data.base[job]
                wanted += data.extra[job]
        shares = {}
        for job in present:
            if job in active:
                given = max(0.0, min(data.extra[job], room))
                shares[job] = given / data.extra[job] if data.extra[job] > 0 else 0.0
                room -= given
        ends = {
            job: now + left[job] / (data.base_rate[job] + share * data.extra_rate[job])
            for job, share in shares.items()
        }
        end = min(
            [*ends.values(), *(release for release in data.releases if release > now)],
            default=math.inf,
        )
        for job, share in shares.items():
            pieces.append((job, now, end, share))
            rate = data.base_rate[job] + share * data.extra_rate[job]
            left[job] = max(0.0, left[job] - rate * (end - now))
            if ends[job] <= end:
                completions[job] = end
                active.remove(job)
        now = end
    return UnitSchedule(starts, completions, pieces)


def priority_keys(data: OrderData) -> list[Key]:
    """Return the keys that are tried."""
    spread = data.base / data.base_rate
    return [
        lambda _, left: left,
        lambda job, left: left * spread[job],
        lambda job, left: left / data.top_rate[job],
        lambda job, _: data.work[job] / data.top_rate[job],
        lambda job, left: left / data.base_rate[job],
        lambda job, left: left * spread[job] / data.gpus + left / data.top_rate[job],
        lambda _, left: -left,
    ]


def starting_schedules(data: OrderData) -> Iterator[UnitSchedule]:
    """Yield the schedules of all keys, greedy and patient."""
    for key in priority_keys(data):
        for patient in (False, True):
            yield priority_schedule(data, key, patient=patient)


def listed_schedule(data: OrderData, order: Sequence[int], *, patient: bool) -> UnitSchedule:
    """Return the schedule of a fixed list."""
    rank = {job: place for place, job in enumerate(order)}
    return priority_schedule(data, lambda job, _: rank[job], patient=patient)


def best_priority_schedule(instance: Instance) -> Schedule:
    """Return the best of `starting_schedules`, of those that there is time for, as a schedule.

    Without time for any that of `quick_schedule`.
    """
    quick = quick_schedule(instance)
    data = OrderData(instance)
    best: UnitSchedule | None = None
    with suppress(OutOfTimeError):
        for in_units in starting_schedules(data):
            if best is None or in_units.value < best.value:
                best = in_units
    return quick if best is None else schedule_of(instance, data, best)
