"""Counts what holds over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.totals import Totals
    from lyra_opt.simulation.view import View


class Ledger:
    """Counts what holds over time.

    Parameters
    ----------
    view
        The simulation.

    Attributes
    ----------
    skipped
        While time is passed over in which all is alike: what had been counted before, and until
        when that is.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self.skipped: tuple[Totals, float] | None = None
        self._there_since_s = view.now_s
        self._distant_gpus = 0.0
        self._more_copies = 0
        # Where servers are only counted and nothing comes between holding and freeing GPUs, there
        # is nothing more to count.
        self._is_plain = (
            all(view.hosts.is_counted)
            and view.speed.placed is None
            and view.tenure.frees_at_once
            and math.isinf(view.tenure.length_s)
        )

    def holds(self, run: Run, sign: int) -> None:
        """Take note of a job that gets all that it holds, or gives it back where `sign` is -1."""
        self._distant_gpus += sign * run.held_gpus * (1.0 - run.efficiency)
        self._more_copies += sign * run.parts[-1].copy

    def count(self, totals: Totals, elapsed_s: float) -> None:
        """Account for a time in which nothing changes."""
        view = self._view
        hosts = view.hosts
        held = totals.held_gpu_s
        for pool, gpus in enumerate(hosts.held_of_pool):
            held[pool] += gpus * elapsed_s
        running = len(view.running)
        totals.running_job_s += running * elapsed_s
        totals.waiting_job_s += (view.jobs_there - running) * elapsed_s
        if self._is_plain:
            return
        totals.handed_over_gpu_s += (hosts.gpus - hosts.free_gpus - hosts.held_gpus) * elapsed_s
        totals.stranded_gpu_s += hosts.stranded_gpus * elapsed_s
        totals.partly_free_host_s += hosts.partly_free * elapsed_s
        totals.busy_server_s += hosts.busy_servers * elapsed_s
        totals.distance_gpu_s += self._distant_gpus * elapsed_s
        totals.more_copy_s += self._more_copies * elapsed_s
        loans = view.loans
        if loans.is_planned:
            totals.serving_gpu_s += loans.serving_gpus * elapsed_s
            totals.on_loan_server_s += loans.on_loan * elapsed_s

    def close(self) -> None:
        """Account for the GPUs that there were up to now, before they become more or fewer."""
        view = self._view
        elapsed_s = view.now_s - self._there_since_s
        self._there_since_s = view.now_s
        for pool, gpus in enumerate(view.hosts.gpus_of_pool):
            self._view.totals.there_gpu_s[pool] += gpus * elapsed_s

    def sums_at(self, time_s: float, names: Sequence[str]) -> list[float]:
        """Return what some of the `Totals` come to at a moment until which nothing changes.

        Followed by the GPU-seconds held, by pool.
        """
        now_s, totals = self._view.now_s, self._view.totals
        if self.skipped is None:
            if time_s > now_s:
                totals = totals.copy()
                self.count(totals, time_s - now_s)
            return totals.sums(names)
        before, until_s = self.skipped
        part = (time_s - now_s) / (until_s - now_s)
        return [
            low + part * (high - low)
            for low, high in zip(before.sums(names), totals.sums(names), strict=True)
        ]
