"""What a composed scheme is put together from, each part by name or by its figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.own_files import is_reference
from lyra_opt.core.validation import require_choice
from lyra_opt.simulation.queues import ORDERS

if TYPE_CHECKING:
    from lyra_opt.core.solver import SolverLike

POLLUX_SCALING = "goodput:pollux"
OF_GOODPUT = (POLLUX_SCALING, "goodput:knapsack")
"""Scalings of jobs that are tuned while they run."""

OF_SOLVERS = ("knapsack:", "policy:")
"""How scalings begin that name a solver."""


@dataclass(frozen=True, kw_only=True)
class Composition:
    """What a scheme is put together from: a queue, elastic scaling and reclaiming.

    Parameters
    ----------
    queue
        One of `lyra_opt.simulation.queues.ORDERS`.
    reclaimer
        Reclaim solver that chooses which servers on loan to give back, by name,
        ``my_file.py:NAME``, object or class; None for a scheme that borrows none.
    weighs_lost_work
        Whether a preemption counts by the work that it loses.
    scaling
        How elastic jobs grow: None (not at all), ``knapsack:SOLVER`` (a solver of the allocation
        problem for jct_reduction), ``policy:POLICY`` (one that decides step by step), either of
        them as an object, a class or ``my_file.py:NAME``; ``goodput:pollux`` or
        ``goodput:knapsack`` (of jobs that are tuned while they run, see
        `lyra_opt.simulation.goodput.tuning.TunedSpeed`).
    grows_only_without_queue
        Whether jobs grow only while none waits.
    confines_fungible
        Whether fungible jobs run on inference servers, and nowhere else, and nobody else does;
        they do not wait for others, nor others for them.
    keeps_groups_apart
        Whether flexible workers on loan have servers of their own.
    """

    queue: str = "first-come"
    reclaimer: SolverLike | None = None
    weighs_lost_work: bool = False
    scaling: SolverLike | None = None
    grows_only_without_queue: bool = False
    confines_fungible: bool = False
    keeps_groups_apart: bool = True

    def __post_init__(self) -> None:
        require_choice("queue", self.queue, list(ORDERS))
        if isinstance(self.scaling, str):
            is_known = self.scaling.startswith(OF_SOLVERS) or is_reference(self.scaling)
            if not is_known and self.scaling not in OF_GOODPUT:
                rule = "must be knapsack:SOLVER, policy:POLICY, goodput:pollux or goodput:knapsack"
                raise FieldError("scaling", self.scaling, rule)
