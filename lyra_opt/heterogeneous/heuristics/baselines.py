"""Baselines: Tiresias's queues by service, YARN-CS's single queue, and AlloX's matching."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import require_number
from lyra_opt.heterogeneous.heuristics.policy import NEVER, GangPlacer, RoundDraft, RoundPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, Decision, FreeGpus, RoundState


DEFAULT_THRESHOLDS_GPU_S = (3_600.0,)
"""Two queues, as in the paper; the limit is that of the README of its simulator."""


class Tiresias(RoundPolicy):
    """Discretised 2D-LAS: queues by attained service, first come, first served in each.

    Source: Tiresias (NSDI 2019) and its simulator (SymbioticLab/Tiresias). A job begins in the
    first queue and is demoted once its attained service, GPUs times time, reaches a threshold.
    Queues are gone through in turn, each by first start (jobs that have not started last), then
    submission; a job runs if its gang still fits, all others are preempted. A gang takes GPUs of
    one type, that of which most are free: the rule knows no speeds. Jobs that run on stay where
    they are unless the others would not fit then.

    Parameters
    ----------
    thresholds_gpu_s
        Increasing limits between the queues; the simulator's demonstration has 3250, 7200 and
        18000.
    promote_knob
        A waiting job goes back to the first queue, and its service counts from 0 again, once it
        has waited this many times as long as it has run since; None never promotes. A third-party
        implementation has 8.

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
            raise FieldError("thresholds_gpu_s", list(thresholds_gpu_s), "must increase")
        if promote_knob is not None:
            promote_knob = require_number("promote_knob", promote_knob, minimum=0, above=True)
        self._promote_knob = promote_knob
        self._forgiven: dict[str, tuple[float, float]] = {}

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Keep what the whole cluster can hold."""
        self._placer = GangPlacer(state.servers)

    def unchanged_for_s(self, state: RoundState) -> float:
        """See `RoundPolicy`; until a running job is demoted, or a waiting one may be promoted."""
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
        """Return the queue that a job is in, from 0."""
        forgiven_gpu_s, _ = self._forgiven.get(active.job.id, (0.0, 0.0))
        return bisect_right(self._thresholds, active.attained_gpu_s - forgiven_gpu_s)

    def decide(self, state: RoundState) -> Decision:
        """Return the first jobs of the queues that fit."""
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
        """Return where all chosen jobs run if none that runs is moved; None if that cannot be."""
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

    Source: the capacity scheduler of YARN with one queue, as Hadar (arXiv 2503.10918) compares
    with it; that the first job that does not fit holds up those behind it is from memory. A gang
    takes GPUs of one type, that of which most are free: the rule knows no speeds. Jobs that even
    the empty cluster cannot hold are passed over.

    Complexity of a decision: O(jobs + started (types + servers log servers)). Guarantee: none; a
    long job in front makes all others wait.
    """

    name = "yarn-cs"

    def prepare(self, state: RoundState, rng: np.random.Generator) -> None:  # noqa: ARG002
        """Keep what the whole cluster can hold."""
        self._placer = GangPlacer(state.servers)

    def unchanged_for_s(self, state: RoundState) -> float:  # noqa: ARG002
        """See `RoundPolicy`; only who comes and goes matters."""
        return math.inf

    def decide(self, state: RoundState) -> Decision:
        """Return the running jobs where they run, and those that start."""
        draft = RoundDraft(state.servers)
        for active in draft.keep_running(state.jobs):
            is_placed = draft.give(active.job, self._placer.place(draft.free, active.job))
            if not is_placed and self._placer.can_ever_run(active.job):
                break
        return draft.decision


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
