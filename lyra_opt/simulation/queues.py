"""Queues: in which order jobs are offered to the cluster, and who may overtake whom."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.speed import Speed


class JobQueue:
    """Jobs that wait; a scheduling pass offers them one by one.

    A pass calls `begin`, then takes `first` until that is None: each job is either started
    (`take`) or blocked (`block`), which takes all of its kind out of this pass. So a pass costs
    O(kinds of jobs) for each job that starts, not O(jobs).

    Parameters
    ----------
    key
        What is smallest first; ties go to the earlier submission.
    kind_of
        Jobs of a kind are blocked together: there is room for all of them or for none, or nobody
        of them may overtake another.
    """

    def __init__(
        self, key: Callable[[JobRun], tuple[float, ...]], kind_of: Callable[[JobRun], Any]
    ) -> None:
        self._key, self._kind_of = key, kind_of
        # Key, place in the workload, kind and job; of each kind the first is offered.
        self._heaps: dict[Any, list[tuple[tuple[float, ...], int, Any, JobRun]]] = {}
        self._offered: list[tuple[tuple[float, ...], int, Any, JobRun]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, run: JobRun) -> None:
        """Let a job wait, at the place that its submission or size gives it."""
        kind = self._kind_of(run)
        heappush(self._heaps.setdefault(kind, []), (self._key(run), run.order, kind, run))
        self._length += 1

    def begin(self) -> None:
        """Offer all jobs again."""
        self._offered = [heap[0] for heap in self._heaps.values() if heap]
        heapify(self._offered)

    def first(self) -> JobRun | None:
        """Return the next job to be tried; None if none is left in this pass."""
        return self._offered[0][3] if self._offered else None

    def take(self) -> None:
        """Remove the job that `first` has returned: it starts."""
        heap = self._heaps[self._offered[0][2]]
        heappop(heap)
        self._length -= 1
        if heap:
            heapreplace(self._offered, heap[0])
        else:
            heappop(self._offered)

    def block(self) -> None:
        """Pass over the job that `first` has returned, and all of its kind."""
        heappop(self._offered)


FIRST_COME = "first-come"
OVERTAKING = "first-come-overtaking"


def _by_submission(run: JobRun, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    return ()


def _by_true_duration(run: JobRun, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    return (run.job.duration_s,)


def _by_shortest_running_time(run: JobRun, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    # Jobs on both kinds of GPUs get what all others leave (Lyra, section 6).
    return (float(run.job.heterogeneous), run.job.believed_work_worker_s / run.job.max_workers)


def _by_remaining_work(run: JobRun, speed: Speed) -> tuple[float, ...]:
    work = speed.believed_left_worker_s(run) * run.job.gpus_per_worker
    return (float(run.job.heterogeneous), work)


ORDERS: Mapping[str, Callable[[JobRun, Speed], tuple[float, ...]]] = {
    FIRST_COME: _by_submission,
    OVERTAKING: _by_submission,
    "shortest": _by_true_duration,
    "shortest-base": _by_shortest_running_time,
    "smallest-work": _by_remaining_work,
}
"""Orders of a queue by name, smallest first.

``first-come`` (nobody overtakes the head), ``first-come-overtaking`` (jobs that fit go past those
that do not), ``shortest`` (by true duration), ``shortest-base`` (Lyra's phase 1: by the believed
running time with all workers) and ``smallest-work`` (by believed remaining work). In all but the
first, who does not fit is passed over, and may starve.
"""
