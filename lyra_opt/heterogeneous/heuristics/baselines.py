"""Baseline policies: Tiresias's service queues, YARN-CS's single queue and AlloX's matching."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import ceil

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number
from lyra_opt.heterogeneous.heuristics.policy import (
    NEVER,
    ActiveJob,
    Decision,
    FreeGpus,
    GangPlacer,
    RoundDraft,
    RoundPolicy,
    RoundState,
)

DEFAULT_THRESHOLDS_GPU_S = (3_600.0,)
"""Two queues, as in the paper; the threshold is the one in the README of its simulator."""


class Tiresias(RoundPolicy):
    """Tiresias's discretised 2D-LAS: first-come, first-served queues by attained service.

    Source: Tiresias (NSDI 2019) and its simulator (SymbioticLab/Tiresias). A job begins in the
    first queue and is demoted when its attained service, GPUs times time, reaches a threshold.
    Queues are served in turn. Within a queue, jobs are sorted by first start, with unstarted jobs
    last, then by submission. A job runs if its gang still fits; all other jobs are preempted. A
    gang takes GPUs of the single type with the most free GPUs, because the rule knows no speeds.
    Running jobs keep their GPUs unless another chosen job would then not fit.

    Parameters
    ----------
    thresholds_gpu_s
        Increasing thresholds between the queues. The simulator's demonstration has 3250, 7200 and
        18000.
    promote_knob
        A waiting job returns to the first queue, with its service reset to 0, after waiting this
        many times as long as it has run since its last reset. None means that jobs are never
        promoted. A third-party implementation has 8.

    Notes
    -----
    Complexity of a decision: O(jobs (log jobs + types + servers log servers)). Guarantee: none.
    """

    name = "tiresias"

    def __init__(
        self,
        thresholds_gpu_s: Sequence[float] = DEFAULT_THRESHOLDS_GPU_S,
        promote_knob: float | None = None,
    ) -> None:
        self._thresholds = [
            require_number(f"thresholds_gpu_s[{place}]", threshold, minimum=0, above=True)
            for place, threshold in enumerate(thresholds_gpu_s)
        ]
        if any(low >= high for low, high in pairwise(self._thresholds)):
            raise FieldError(
                "thresholds_gpu_s", list(thresholds_gpu_s), "must be in increasing order"
            )
        if promote_knob is not None:
            promote_knob = require_number("promote_knob", promote_knob, minimum=0, above=True)
        self._promote_knob = promote_knob
        self._forgiven: dict[str, tuple[float, float]] = {}

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Store the capacity of the cluster."""
        self._placer = GangPlacer(state.servers)

    def unchanged_for_s(self, state: RoundState) -> float:
        """Return the seconds until a running job is demoted; 0 if waiting jobs may be promoted."""
        if self._promote_knob is not None:
            return 0.0
        least_s = math.inf
        for active in state.jobs:
            queue = self.queue_of(active)
            if active.placements and queue < len(self._thresholds):
                missing_gpu_s = self._thresholds[queue] - active.attained_gpu_s
                least_s = min(least_s, missing_gpu_s / active.job.gang)
        return least_s

    def queue_of(self, active: ActiveJob) -> int:
        """Return the index of a job's queue, from 0."""
        forgiven_gpu_s, _ = self._forgiven.get(active.job.id, (0.0, 0.0))
        return bisect_right(self._thresholds, active.attained_gpu_s - forgiven_gpu_s)

    def decide(self, state: RoundState) -> Decision:
        """Return placements for the jobs that fit, in queue order."""
        self._promote(state)

        def rank(active: ActiveJob) -> tuple[int, float, int]:
            started_s = state.now_s if active.started_s == NEVER else active.started_s
            return self.queue_of(active), started_s, active.order

        anew = RoundDraft(state.servers)
        chosen = [
            active
            for active in sorted(state.jobs, key=rank)
            if anew.give(active.job, self._placer.place(anew.free, active.job))
        ]
        return self._staying(chosen, state) or anew.decision

    def _staying(self, chosen: Sequence[ActiveJob], state: RoundState) -> Decision | None:
        """Return a decision in which no running job moves; None if a chosen job does not fit."""
        draft = RoundDraft(state.servers)
        for active in draft.keep_running(chosen):
            if not draft.give(active.job, self._placer.place(draft.free, active.job)):
                return None
        return draft.decision

    def _promote(self, state: RoundState) -> None:
        if self._promote_knob is None:
            return
        for active in state.jobs:
            if active.waiting_since_s == NEVER or self.queue_of(active) == 0:
                continue
            _, forgiven_s = self._forgiven.get(active.job.id, (0.0, 0.0))
            waited_s = state.now_s - active.waiting_since_s
            if waited_s >= self._promote_knob * (active.executed_s - forgiven_s):
                self._forgiven[active.job.id] = (active.attained_gpu_s, active.executed_s)


class YarnCs(RoundPolicy):
    """Start jobs in order of submission; a job keeps its GPUs until it completes.

    Source: YARN's capacity scheduler with one queue, as Hadar (arXiv 2503.10918) compares with it.
    The first job that does not fit blocks all jobs behind it; this detail is from memory. A gang
    takes GPUs of the single type with the most free GPUs, because the rule knows no speeds. Jobs
    that not even the empty cluster can hold are skipped.

    Complexity of a decision: O(jobs + started (types + servers log servers)). Guarantee: none; a
    long job at the head makes all others wait.
    """

    name = "yarn-cs"

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Store the capacity of the cluster."""
        self._placer = GangPlacer(state.servers)

    def unchanged_for_s(self, state: RoundState) -> float:  # noqa: ARG002
        """Return infinity: a decision changes only when a job arrives or completes."""
        return math.inf

    def decide(self, state: RoundState) -> Decision:
        """Keep running jobs in place, and start waiting jobs in order of submission."""
        draft = RoundDraft(state.servers)
        for active in draft.keep_running(state.jobs):
            is_placed = draft.give(active.job, self._placer.place(draft.free, active.job))
            if not is_placed and self._placer.can_ever_run(active.job):
                break
        return draft.decision


class AlloX(RoundPolicy):
    """Match waiting one-GPU jobs to positions in GPU queues with the least total completion time.

    Source: AlloX (EuroSys 2020), as implemented as a baseline in Gavel's code. A job that is p-th
    from the end of a GPU's queue delays p jobs, itself included, by its own run time there. So the
    completion times sum to p steps / speed over all jobs. A least-cost matching of jobs with pairs
    (GPU, p) gives optimal queues for the free GPUs and the waiting jobs. The first job of each
    queue starts and keeps its GPU until it completes. Jobs are matched again, to the free GPUs,
    whenever a job arrives or completes. The code's cost also contains the time since submission;
    that term is constant for each job and changes no decision.

    GPUs of a type are interchangeable. Lower p is always cheaper, so some optimal matching fills
    position p of all GPUs of a type before position p + 1. Hence positions are needed only up to
    the length of queues that spread all jobs evenly over the type. The matching uses SciPy,
    O(jobs^3 types) at worst.

    Guarantee: if all jobs wait and all GPUs are free, the queues have the least mean completion
    time of all schedules without preemption. The policy does not follow these queues to the end:
    the next matching ignores GPUs that will soon be free.

    Parameters
    ----------
    alpha
        Fraction of the waiting jobs, in order of submission, that is matched; in (0, 1].
    """

    name = "allox"
    takes_gangs = False

    def __init__(self, alpha: float = 1.0) -> None:
        self._alpha = require_number("alpha", alpha, minimum=0, above=True)
        self._types: list[str] = []

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Store the names of the GPU types."""
        self._types = [gpu_type.name for gpu_type in state.gpu_types]

    def unchanged_for_s(self, state: RoundState) -> float:  # noqa: ARG002
        """Return infinity: a decision changes only when a job arrives or completes."""
        return math.inf

    def decide(self, state: RoundState) -> Decision:
        """Keep running jobs in place, and start the first job of each free GPU's queue."""
        draft = RoundDraft(state.servers)
        waiting = [active for active in draft.keep_running(state.jobs) if active.job.gang == 1]
        if not state.is_changed:
            return draft.decision
        considered = waiting[: ceil(min(1.0, self._alpha) * len(waiting))]
        for gpu_type, queue in self.queues(considered, draft.free).items():
            for active in _heads(queue, draft.free.of_type[gpu_type]):
                draft.give(active.job, draft.free.of_one_type(gpu_type, 1))
        return draft.decision

    def queues(
        self, waiting: Sequence[ActiveJob], free: FreeGpus
    ) -> dict[str, list[tuple[int, ActiveJob]]]:
        """Return optimal queues by GPU type, as pairs (position from the end, job)."""
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
        # An impossible assignment costs more than all possible assignments together.
        costs[~np.isfinite(costs)] = 2 * len(usable) * costs[np.isfinite(costs)].max()
        queues: dict[str, list[tuple[int, ActiveJob]]] = {}
        for row, column in zip(*linear_sum_assignment(costs), strict=True):
            name, position = places[column]
            if rates[row, column] > 0:
                queues.setdefault(name, []).append((position, waiting[usable[row]]))
        return queues


def _heads(queue: Sequence[tuple[int, ActiveJob]], gpus: int) -> list[ActiveJob]:
    """Return the first job of each GPU's queue, for the GPUs of one type.

    Jobs at position p from the end are on different GPUs. The cost does not depend on which job at
    position p shares a GPU with which job at p + 1, as long as no queue has a gap. So the j-th job
    of each position goes to the j-th GPU, and the highest position of each GPU is its head.
    """
    by_place: dict[int, list[ActiveJob]] = {}
    for position, active in sorted(queue, key=lambda entry: (entry[0], entry[1].order)):
        by_place.setdefault(position, []).append(active)
    heads: dict[int, ActiveJob] = {}
    for position in sorted(by_place):
        heads |= dict(enumerate(by_place[position][:gpus]))
    return list(heads.values())
