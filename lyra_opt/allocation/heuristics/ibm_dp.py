"""The IBM allocator: a dynamic programme that maximises the total throughput."""

from typing import Any

import numpy as np

from lyra_opt.allocation.heuristics.policy_solver import StepPolicy
from lyra_opt.allocation.instance import Instance
from lyra_opt.allocation.schedules.evaluator import FluidState
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


class IbmDp(StepPolicy):
    """Admit jobs first come, first served, then maximise the sum of their scaling factors.

    The scaling factor of a job with w workers is its rate relative to one GPU, gpus_per_worker *
    (w_min + (w - w_min) (1 - scaling_loss)). A dynamic programme over jobs and GPUs maximises the
    sum. Among equal sums the later job, by release and file order, gets fewer workers.

    Source: Saxena et al., *Effective Elastic Scaling of Deep Learning Workloads* (MASCOTS 2020,
    arXiv 2006.13878), its abstract; the dynamic programme after the re-implementation in the Voda
    scheduler, the rest from memory. Jobs are admitted in order of arrival while all fit; the first
    job that does not fit and all later jobs wait. Assumptions: a job needs its base demand rather
    than one GPU, batch sizes are fixed, and jobs wait where the source may reject them. Without
    scaling loss every allocation that leaves no GPU idle has the same sum, and the order of arrival
    decides.

    Complexity O(A G max(w_max - w_min)) time per decision, O(A G) memory, up to a gibibyte.
    Guarantee: none; the rule ignores the lengths of jobs.
    """

    name = "ibm-dp"

    def supports(self, instance: Instance) -> Unsupported | None:
        """Return a reason if the dynamic-programming table would be too large, else None."""
        refused = super().supports(instance)
        cells = len(instance.jobs) * (instance.gpus + 1)
        if refused is not None or cells <= MOST_CELLS:
            return refused
        return Unsupported(
            f"ibm-dp supports tables of at most {MOST_CELLS} cells (jobs x GPUs); "
            f"this instance needs {cells}"
        )

    def decide(self, state: FluidState) -> None:
        """Admit jobs, then distribute the remaining GPUs by dynamic programming."""
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
    """Admit jobs by release and file order until the first one that does not fit.

    Returns the remaining GPUs that the admitted jobs can use.
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
    """Extend the dynamic programme from active job `first` to job `end`.

    `best` holds the largest sum of scaling factors by GPUs, in two rows of free + 1 entries, zeros
    at first. `choice` has one row of free + 1 entries for each active job: the extra workers that
    the job takes.
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
    """Add the extra workers that the dynamic programme has chosen to the targets."""
    gpus = free
    for back in range(state.counts[ACTIVE]):
        place = state.counts[ACTIVE] - 1 - back
        job = state.held[BY_ARRIVAL][place]
        taken = choice[place * (free + 1) + gpus]
        state.held[TARGET][job] += taken
        gpus -= taken * state.limits[GPUS_PER_WORKER][job]
    return gpus
