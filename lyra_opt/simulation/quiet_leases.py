"""Leases of the last job that are all alike, passed over at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.totals import Totals
    from lyra_opt.simulation.view import View

_SUMS_OF_RUN = (
    "queued_s",
    "running_s",
    "paused_s",
    "restarting_s",
    "rated_s",
    "fewer_workers_s",
    "slower_type_s",
    "slower_placement_s",
    "idle_copies_s",
    "held_gpu_s",
    "paused_gpu_s",
    "distance_gpu_s",
    "cost",
    "allocations",
    "losses",
    "preemptions",
    "migrations",
)
_SUMS_OF_TOTALS = (
    "stranded_gpu_s",
    "handed_over_gpu_s",
    "partly_free_host_s",
    "busy_server_s",
    "distance_gpu_s",
    "waiting_job_s",
    "running_job_s",
    "more_copy_s",
    "decisions",
)


class _Mark:
    """What had been counted when a lease began, of its job and of all."""

    def __init__(self, run: Run, totals: Totals, now_s: float) -> None:
        self.gpus, self.began_s, self.left = run.gpus, now_s, run.left
        self._sums = [
            (target, name, getattr(target, name))
            for target, names in ((run, _SUMS_OF_RUN), (totals, _SUMS_OF_TOTALS))
            for name in names
        ]
        lists = (run.allocations_by_tier, run.gpu_s_by_tier, totals.held_gpu_s)
        self._lists: list[tuple[list[Any], list[Any]]] = [(found, list(found)) for found in lists]

    def repeat(self, times: int) -> None:
        """Count so many times again what has been counted since."""
        for target, name, before in self._sums:
            now = getattr(target, name)
            setattr(target, name, now + times * (now - before))
        for values, befores in self._lists:
            values[:] = [
                now + times * (now - before) for now, before in zip(values, befores, strict=True)
            ]


class QuietLeases:
    """Passes over leases of the last job there is that are all like the one before.

    Its lease has just begun, on the same GPUs as the one before, and nothing else is to come. What
    is counted from one such beginning to the next is the same each time, so it is counted at once
    for all but the last leases.

    Parameters
    ----------
    view
        The simulation, whose policy repeats itself.
    passes
        Lets time pass in which the one job there is does what has been counted already: is given
        the job, the seconds, and what had been counted before.
    """

    def __init__(self, view: View, passes: Callable[[Run, float, Totals], None]) -> None:
        self._view = view
        self._passes = passes
        self._previous: _Mark | None = None

    def skip(self) -> None:
        """Pass over what can be passed over now.

        All jobs are submitted, one is left, and nothing but the end of its lease is foreseen.
        """
        view = self._view
        if len(view.running) != 1:
            return
        run = next(iter(view.running.values()))
        if run.began_s < view.now_s:
            return
        previous = self._previous
        self._previous = _Mark(run, view.totals, view.now_s)
        if previous is None or previous.gpus != run.gpus:
            return
        done = previous.left - run.left
        # Nothing is done where the same job was asked about twice at one moment.
        times = math.ceil(run.left / done) - 2 if done > 0 else 0
        if times < 1:
            return
        before = view.totals.copy()
        previous.repeat(times)
        run.left -= times * done
        self._passes(run, times * (view.now_s - previous.began_s), before)
        self._previous = None
