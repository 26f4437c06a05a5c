"""Queue orders: which waiting job is tried first, and which jobs may overtake others."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.speed import Speed


class JobQueue:
    """A priority queue of waiting jobs, from which a scheduling pass tries one job after another.

    A pass calls `begin`, then reads `first` until it returns None. Each job is either started
    (`take`) or blocked (`block`); blocking a job blocks all jobs of its kind for this pass. So a
    pass costs O(kinds of jobs), not O(jobs), for each job that starts.

    Parameters
    ----------
    key
        Sort key, smallest first; ties go to the earlier submission.
    kind_of
        Returns the kind of a job. Jobs of one kind are blocked together: either they have the same
        demand, or none of them may overtake another.
    """

    def __init__(
        self, key: Callable[[JobRun], tuple[float, ...]], kind_of: Callable[[JobRun], Any]
    ) -> None:
        self._key, self._kind_of = key, kind_of
        # Each kind of job has a heap with entries (key, index in the workload, kind, job).
        self._heaps: dict[Any, list[tuple[tuple[float, ...], int, Any, JobRun]]] = {}
        self._offered: list[tuple[tuple[float, ...], int, Any, JobRun]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, run: JobRun) -> None:
        """Add a waiting job, at the position that its sort key determines."""
        kind = self._kind_of(run)
        heappush(self._heaps.setdefault(kind, []), (self._key(run), run.order, kind, run))
        self._length += 1

    def smallest_gang(self) -> int:
        """Return the GPUs of the smallest job that a pass could try first of its kind; O(kinds)."""
        return min(heap[0][3].job.min_gpus for heap in self._heaps.values() if heap)

    def begin(self) -> None:
        """Start a scheduling pass in which every kind of job can be tried."""
        self._offered = [heap[0] for heap in self._heaps.values() if heap]
        heapify(self._offered)

    def first(self) -> JobRun | None:
        """Return the next job to try in this pass; None if no job is left."""
        return self._offered[0][3] if self._offered else None

    def take(self) -> None:
        """Remove the job that `first` returned, because it starts."""
        heap = self._heaps[self._offered[0][2]]
        heappop(heap)
        self._length -= 1
        if heap:
            heapreplace(self._offered, heap[0])
        else:
            heappop(self._offered)

    def block(self) -> None:
        """Skip the job that `first` returned, and all jobs of its kind, until the next pass."""
        heappop(self._offered)


FIRST_COME = "first-come"
OVERTAKING = "first-come-overtaking"
PRIORITY = "priority"


def _by_submission(run: JobRun, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    return ()


def _by_true_duration(run: JobRun, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    return (run.job.duration_s,)


def _by_shortest_running_time(run: JobRun, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    # Jobs that can use own and borrowed GPUs at once are last in the queue (Lyra, section 6).
    return (float(run.job.heterogeneous), run.job.believed_work_worker_s / run.job.max_workers)


def _by_remaining_work(run: JobRun, speed: Speed) -> tuple[float, ...]:
    work = speed.believed_left_worker_s(run) * run.job.gpus_per_worker * run.job.share
    return (float(run.job.heterogeneous), work)


def _by_priority(run: JobRun, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    return (-run.job.priority,)


ORDERS: Mapping[str, Callable[[JobRun, Speed], tuple[float, ...]]] = {
    FIRST_COME: _by_submission,
    OVERTAKING: _by_submission,
    "shortest": _by_true_duration,
    "shortest-base": _by_shortest_running_time,
    "smallest-work": _by_remaining_work,
    PRIORITY: _by_priority,
}
"""Sort key of each queue order, smallest first.

``first-come`` (no job overtakes the head of the queue), ``first-come-overtaking`` (a job that fits
may overtake jobs that do not fit), ``shortest`` (by true duration), ``shortest-base`` (Lyra's phase
1: by the estimated running time with the most workers), ``smallest-work`` (by estimated remaining
work) and ``priority`` (highest priority, then earliest submission). In all orders but
``first-come``, a job that does not fit is skipped and may starve.
"""
