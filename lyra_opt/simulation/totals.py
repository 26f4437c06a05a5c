"""What is counted while a simulation runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from operator import neg
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    hosted_at_reclaims
        Jobs that held GPUs on loan when servers were called back, added up over the reclaims.
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
    hosted_at_reclaims: int = 0
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
