"""What is counted while a simulation runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from operator import neg
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.view import View


@dataclass(slots=True)
class Totals:
    """What is counted while a simulation runs; times are from the first submission on.

    Parameters
    ----------
    held_gpu_s, there_gpu_s
        GPU-seconds that jobs held, and that there were, by pool.
    stranded_gpu_s
        GPU-seconds that were free on hosts that were not wholly free.
    handed_over_gpu_s
        GPU-seconds in which GPUs were neither held nor free.
    partly_free_host_s, busy_server_s
        Host-seconds in which hosts were partly free, and server-seconds in which jobs held any
        GPU of a server.
    distance_gpu_s
        GPU-seconds that jobs held, each counted by what distance takes of its speed.
    serving_gpu_s, on_loan_server_s
        GPU-seconds in which the inference cluster served, and server-seconds on loan.
    waiting_job_s, running_job_s, more_copy_s
        Job-seconds of waiting and of holding GPUs, and those of copies beyond the first.
    loans, reclaims, returned_servers
        How often servers were lent and called back, and how many were called back.
    vacated_gpus, collateral_gpus
        GPUs of the servers given back, and GPUs that were vacated elsewhere for it.
    scaling_operations
        How often a job was resized, to admit another job not counted.
    rounds, merging_s
        Rounds in which jobs were there, and seconds that jobs lost by merging copies.
    decisions, decision_s
        How often a rule of another problem was asked, and the wall time of each answer.
    """

    held_gpu_s: list[float]
    there_gpu_s: list[float]
    stranded_gpu_s: float = 0.0
    handed_over_gpu_s: float = 0.0
    partly_free_host_s: float = 0.0
    busy_server_s: float = 0.0
    distance_gpu_s: float = 0.0
    serving_gpu_s: float = 0.0
    on_loan_server_s: float = 0.0
    waiting_job_s: float = 0.0
    running_job_s: float = 0.0
    more_copy_s: float = 0.0
    loans: int = 0
    reclaims: int = 0
    returned_servers: int = 0
    vacated_gpus: int = 0
    collateral_gpus: int = 0
    scaling_operations: int = 0
    rounds: int = 0
    merging_s: float = 0.0
    decisions: int = 0
    decision_s: list[float] = field(default_factory=list)

    @property
    def free_gpu_s(self) -> float:
        """GPU-seconds that were free, once the simulation has ended."""
        return math.fsum((*self.there_gpu_s, -self.handed_over_gpu_s, *map(neg, self.held_gpu_s)))

    def copy(self) -> Totals:
        """Return what has been counted so far, decision times left out."""
        copied = Totals.__new__(Totals)
        for name in _NUMBERS:
            setattr(copied, name, getattr(self, name))
        copied.held_gpu_s, copied.there_gpu_s = list(self.held_gpu_s), list(self.there_gpu_s)
        copied.decision_s = []
        return copied

    def sums(self, names: Sequence[str]) -> list[float]:
        """Return some of them, and the GPU-seconds held by pool."""
        return [*(getattr(self, name) for name in names), *self.held_gpu_s]


_NUMBERS = tuple(
    each.name
    for each in fields(Totals)
    if each.name not in ("held_gpu_s", "there_gpu_s", "decision_s")
)


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
        totals.handed_over_gpu_s += hosts.handed_over * elapsed_s
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
            view.totals.there_gpu_s[pool] += gpus * elapsed_s

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
