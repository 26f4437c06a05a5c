"""AlloX: a matching of jobs to the last, the last but one, ... place of each GPU's queue."""

from __future__ import annotations

import math
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.validation import require_number
from lyra_opt.heterogeneous.heuristics.policy import Plan, RoundPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, FreeGpus, RoundState


class AlloX(RoundPolicy):
    """Matches waiting one-GPU jobs to places in queues of least total completion time.

    Source: AlloX (EuroSys 2020) as the baseline of Gavel's code. A job that is p-th from the end
    of a GPU's queue delays p jobs, itself among them, by its own time there, so the completion
    times sum to p steps / speed over all jobs: a matching of least cost of jobs and pairs (GPU,
    p) is a best set of queues for the free GPUs and the jobs that wait. The first job of each
    queue runs, and keeps its GPU until it completes. Matched anew when a job has been submitted or
    completed, always to the GPUs that are free. The time since submission, that the cost in
    the code contains too, is the same wherever a job goes and decides nothing.

    GPUs of a type are alike, so places need to go no further back than all jobs evenly on the
    GPUs of one type: with lower p always cheaper, some best matching fills places p of all GPUs of
    a type before places p + 1. The matching is by SciPy, O(jobs^3 types) at worst.

    Guarantee: where all jobs wait and all GPUs are free, the queues have the least mean
    completion time of schedules without preemption. They are not kept to, though: the next
    matching knows nothing of GPUs that will be free soon.

    Parameters
    ----------
    alpha
        Part of the waiting jobs, those submitted first, that are matched; in (0, 1].
    """

    name = "allox"
    takes_gangs = False

    def __init__(self, alpha: float = 1.0) -> None:
        self._alpha = require_number("alpha", alpha, minimum=0, above=True)
        self._types: list[str] = []

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Keep the names of the types."""
        self._types = [gpu_type.name for gpu_type in state.gpu_types]

    def unchanged_for_s(self, state: RoundState) -> float:  # noqa: ARG002
        """See `RoundPolicy`; only who comes and goes matters."""
        return math.inf

    def decide(self, state: RoundState) -> Decision:
        """Return the running jobs where they run, and the first of each free GPU's queue."""
        plan = Plan(state.servers)
        waiting = [active for active in plan.keep_running(state.jobs) if active.job.gang == 1]
        if not state.is_changed:
            return plan.decision
        considered = waiting[: ceil(min(1.0, self._alpha) * len(waiting))]
        for gpu_type, queue in self.queues(considered, plan.free).items():
            for active in _heads(queue, plan.free.of_type[gpu_type]):
                plan.give(active.job, plan.free.of_one_type(gpu_type, 1))
        return plan.decision

    def queues(
        self, waiting: Sequence[ActiveJob], free: FreeGpus
    ) -> dict[str, list[tuple[int, ActiveJob]]]:
        """Return the best queues of free GPUs, by type: places from the end, and who has them."""
        places = [
            (name, position)
            for name in self._types
            if (gpus := free.of_type.get(name, 0))
            for position in range(1, ceil(len(waiting) / gpus) + 1)
            for _ in range(gpus)
        ]
        of_type = [
            [active.job.throughput.get(name, 0.0) for name in self._types] for active in waiting
        ]
        kinds = [self._types.index(name) for name, _ in places]
        rates = np.array(of_type).reshape(len(waiting), len(self._types))[:, kinds]
        usable = np.flatnonzero(rates.any(axis=1)).tolist()
        if not usable:
            return {}
        from scipy.optimize import linear_sum_assignment

        positions = np.array([position for _, position in places])
        steps = np.array([waiting[place].steps_left for place in usable])
        rates = rates[usable]
        with np.errstate(divide="ignore"):
            costs = positions * (steps[:, None] / rates)
        # No queue of jobs that can run is as dear as one job where it cannot.
        costs[~np.isfinite(costs)] = 2 * len(usable) * costs[np.isfinite(costs)].max()
        queues: dict[str, list[tuple[int, ActiveJob]]] = {}
        for row, column in zip(*linear_sum_assignment(costs), strict=True):
            name, position = places[column]
            if rates[row, column] > 0:
                queues.setdefault(name, []).append((position, waiting[usable[row]]))
        return queues


def _heads(queue: Sequence[tuple[int, ActiveJob]], gpus: int) -> list[ActiveJob]:
    """Return who begins the queues of the GPUs of a type.

    The jobs at place p from the end are on different GPUs. Which of them shares a GPU with which
    at p + 1 does not change the cost, as long as no GPU has a gap: the j-th of each place are put
    on the j-th GPU, and the last place taken of each GPU is its head.
    """
    by_place: dict[int, list[ActiveJob]] = {}
    for position, active in sorted(queue, key=lambda entry: (entry[0], entry[1].order)):
        by_place.setdefault(position, []).append(active)
    heads: dict[int, ActiveJob] = {}
    for position in sorted(by_place):
        heads |= dict(enumerate(by_place[position][:gpus]))
    return list(heads.values())
