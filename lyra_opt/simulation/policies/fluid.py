"""Preemption by prices from a fluid model of the waiting jobs, a part of composed schemes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.core.rules import require_number
from lyra_opt.simulation.policies.parts import HOUR_S

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_STOPPED = 60
"""Most jobs that are stopped at one time."""


class Running(NamedTuple):
    """A running job: its remaining seconds, its GPUs, and the seconds of work that a stop loses."""

    left_s: float
    gpus: int
    lost_s: float


def clear_s(
    work_gpu_s: float, free_gpus: int, running: Sequence[Running], without: int = -1
) -> float:
    """Return after how many seconds the GPUs that become free have done an amount of work.

    Parameters
    ----------
    running
        Running jobs by increasing remaining time.
    without
        Position of a running job that gives up its GPUs at once; they count in `free_gpus`.
    """
    now_s, gpus = 0.0, free_gpus
    for place, run in enumerate(running):
        if place != without:
            done_gpu_s = gpus * (run.left_s - now_s)
            if done_gpu_s >= work_gpu_s:
                break
            work_gpu_s -= done_gpu_s
            now_s, gpus = run.left_s, gpus + run.gpus
    return now_s + work_gpu_s / gpus if gpus else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPreemption:
    """Stops a running job if the waiting jobs gain more from its GPUs than it loses.

    The waiting jobs are a fluid that is served in order of remaining work, by the GPUs that become
    free as running jobs complete. More GPUs let each of them complete earlier; the seconds that
    they gain together are the price that a running job must be worth. It is worth
    the time until the smaller jobs have completed, the work that it loses, and `lost_price` seconds
    for each lost GPU-second. Only jobs smaller than the running job count.

    Parameters
    ----------
    area_ratio
        A stopped job has at least this multiple of a counted job's remaining GPU-seconds; at
        least 1.
    least_left_h
        Least remaining run time of a stopped job, in hours; at least 0.
    lost_price
        Seconds of delay of all jobs together that one lost GPU-second costs; at least 0.
    interval_s
        Least time between two rounds of preemptions, in seconds; at least 0.

    Notes
    -----
    Source: this project. The fluid is the model that gives the prices of
    `lyra_opt.pricing.ascent` their start.
    """

    area_ratio: float = 2.0
    least_left_h: float = 2.0
    lost_price: float = 0.1
    interval_s: float = 300.0

    def __post_init__(self) -> None:
        require_number("area_ratio", self.area_ratio, minimum=1)
        for name in ("least_left_h", "lost_price", "interval_s"):
            require_number(name, getattr(self, name), minimum=0)

    def stopped(
        self, running: Sequence[Running], waiting: Sequence[tuple[float, int]], free_gpus: int
    ) -> int | None:
        """Return the position of the running job to stop; None if no stop pays.

        Among running jobs of one size, only the one that loses the least is considered. The gain
        is summed over groups of waiting jobs, each twice as long as all before it, with the mean
        gain of a group taken as half of that of its last job. O(running * log waiting) for each
        size.

        Parameters
        ----------
        running
            Running jobs by increasing remaining time.
        waiting
            Remaining GPU-seconds and GPUs of the waiting jobs, by increasing GPU-seconds.
        """
        if not waiting:
            return None
        least: dict[int, tuple[float, float, int]] = {}
        for place, run in enumerate(running):
            if run.left_s >= self.least_left_h * HOUR_S:
                entry = run.lost_s, -run.left_s, place
                least[run.gpus] = min(least.get(run.gpus, entry), entry)
        groups: list[tuple[int, float, float, float]] = []
        work_gpu_s, size = 0.0, 1
        for number, (left_gpu_s, _) in enumerate(waiting, 1):
            work_gpu_s += left_gpu_s
            if number in (size, len(waiting)):
                after_s = clear_s(work_gpu_s, free_gpus, running)
                groups.append((number, left_gpu_s, work_gpu_s, after_s))
                size = 2 * number
        best, found = 0.0, None
        for gpus, (lost_s, _, place) in least.items():
            if waiting[0][1] > free_gpus + gpus:
                continue
            left_s, gained_s, counted = running[place].left_s, 0.0, 0
            for number, largest_gpu_s, work_gpu_s, after_s in groups:
                sooner_s = clear_s(work_gpu_s, free_gpus + gpus, running, place)
                if largest_gpu_s * self.area_ratio > left_s * gpus or sooner_s > left_s:
                    break
                gained_s += (number - counted) * max(0.0, after_s - sooner_s) / 2
                counted = number
                value_s = gained_s - sooner_s - lost_s - self.lost_price * lost_s * gpus
                if value_s / gpus > best:
                    best, found = value_s / gpus, place
        return found
