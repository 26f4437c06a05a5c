"""The IBM allocator: a dynamic programme for the most throughput in all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.allocation.heuristics.policy_solver import StepPolicy
from lyra_opt.allocation.schedules.kernel import (
    ACTIVE,
    BY_ARRIVAL,
    EFFICIENCY,
    GPUS_PER_WORKER,
    MAX_WORKERS,
    MIN_WORKERS,
    STARTED,
    TARGET,
    keep_bases,
)
from lyra_opt.core.kernels import kernel
from lyra_opt.core.solver import Unsupported
from lyra_opt.core.stopwatch import within_time

if TYPE_CHECKING:
    from lyra_opt.allocation.instance import Instance
    from lyra_opt.allocation.schedules.evaluator import FluidState


class IbmDp(StepPolicy):
    """Admit first come, first served; then the workers with the most sum of scaling factors.

    The scaling factor of a job with w workers is its rate over that of one GPU,
    gpus_per_worker * (w_min + (w - w_min) (1 - scaling_loss)); a dynamic programme over jobs and
    GPUs maximises the sum. Among equal sums it gives the later job, by release and file, the
    fewer workers.

    Source: Saxena et al., *Effective Elastic Scaling of Deep Learning Workloads* (MASCOTS 2020,
    arXiv 2006.13878), its abstract; the programme after the re-implementation in the Voda
    scheduler, the rest from memory: jobs are admitted in order of arrival while all
    fit, the first that does not and those behind it wait. Assumed here: a job needs its base
    demand rather than one GPU, batch sizes are fixed, and jobs wait where the source may reject
    them. Without scaling loss every allocation that leaves no GPU idle is equally good to it, and
    the order of arrival decides.

    Complexity O(A G max(w_max - w_min)) time a decision, O(A G) memory, up to a gibibyte.
    Guarantee: none; it does not look at lengths.
    """

    name = "ibm-dp"

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return that the table would be too large, if it would be."""
        refused = super().supports(instance)
        cells = len(instance.jobs) * (instance.gpus + 1)
        if refused is not None or cells <= MOST_CELLS:
            return refused
        return Unsupported(f"jobs x GPUs is {cells}; the table is made up to {MOST_CELLS}")

    def decide(self, state: FluidState) -> None:
        """Admit jobs, then share out the GPUs left."""
        free = int(state.decide(_admit))
        cells = int(state.arrays.counts[ACTIVE]) * (free + 1)
        best: Any = np.zeros((2, free + 1), dtype=np.float64)
        choice: Any = np.zeros(cells, dtype=np.int64)
        if not state.compiled:
            best, choice = best.tolist(), choice.tolist()
        actives = int(state.arrays.counts[ACTIVE])
        jobs = max(1, CELLS_BETWEEN_LOOKS_AT_THE_CLOCK // (free + 1))
        for first in within_time(range(0, actives, jobs)):
            end = min(first + jobs, actives)
            best = state.decide(_most_throughput, first, end, free, best, choice)
        state.decide(_take, free, choice)


MOST_CELLS = 2**27
CELLS_BETWEEN_LOOKS_AT_THE_CLOCK = 2**20


@kernel
def _admit(state: Any) -> Any:
    """Target base demands up to the first job by release and file that does not fit.

    Returns the GPUs left that those admitted can use.
    """
    free = keep_bases(state)
    for place in range(state.counts[ACTIVE]):
        job = state.held[BY_ARRIVAL][place]
        if not state.held[STARTED][job]:
            base = state.limits[MIN_WORKERS][job] * state.limits[GPUS_PER_WORKER][job]
            if base > free:
                break
            state.held[TARGET][job] = state.limits[MIN_WORKERS][job]
            free -= base
    usable = 0
    for place in range(state.counts[ACTIVE]):
        job = state.held[BY_ARRIVAL][place]
        if state.held[TARGET][job] > 0:
            extra = state.limits[MAX_WORKERS][job] - state.limits[MIN_WORKERS][job]
            usable += extra * state.limits[GPUS_PER_WORKER][job]
    return min(free, usable)


@kernel
def _most_throughput(first: int, end: int, free: int, best: Any, choice: Any, state: Any) -> Any:
    """Go on from active job `first` until `end` with the most sum of scaling factors.

    By GPUs up to `free`. `best` has two rows of that many and one, zeros at first, and so has
    `choice` for each active job: the extra workers that it takes.
    """
    row = first % 2
    for place in range(first, end):
        job = state.held[BY_ARRIVAL][place]
        size = state.limits[GPUS_PER_WORKER][job]
        worth = size * state.given[EFFICIENCY][job]
        most = state.limits[MAX_WORKERS][job] - state.limits[MIN_WORKERS][job]
        if state.held[TARGET][job] == 0:
            most = 0
        before = best[row]
        after = best[1 - row]
        for gpus in range(free + 1):
            value = before[gpus]
            taken = 0
            for extra in range(1, min(most, gpus // size) + 1):
                candidate = before[gpus - extra * size] + extra * worth
                if candidate > value:
                    value = candidate
                    taken = extra
            after[gpus] = value
            choice[place * (free + 1) + gpus] = taken
        row = 1 - row
    return best


@kernel
def _take(free: int, choice: Any, state: Any) -> Any:
    """Add the extra workers that were chosen."""
    gpus = free
    for back in range(state.counts[ACTIVE]):
        place = state.counts[ACTIVE] - 1 - back
        job = state.held[BY_ARRIVAL][place]
        taken = choice[place * (free + 1) + gpus]
        state.held[TARGET][job] += taken
        gpus -= taken * state.limits[GPUS_PER_WORKER][job]
    return gpus
