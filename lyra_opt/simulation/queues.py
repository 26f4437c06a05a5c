"""Queues: in which order jobs are offered to the cluster, and who may overtake whom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.simulation.run import Run
    from lyra_opt.simulation.speed import Speed
    from lyra_opt.simulation.workload import Job


class JobQueue(ABC):
    """Queued jobs; a scheduling pass offers them one by one.

    A pass calls `begin`, then takes `first` until that is None: each job is either started
    (`take`) or blocked (`block`), which takes it, and whoever may not overtake it, out of this
    pass.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return how many jobs wait."""

    @abstractmethod
    def add(self, run: Run) -> None:
        """Let a job wait, at the place that its submission or size gives it."""

    @abstractmethod
    def begin(self) -> None:
        """Offer all jobs again."""

    @abstractmethod
    def first(self) -> Run | None:
        """Return the next job to be tried; None if none is left in this pass."""

    @abstractmethod
    def take(self) -> None:
        """Remove the job that `first` has returned: it starts."""

    @abstractmethod
    def block(self) -> None:
        """Pass over the job that `first` has returned: there is no room for it."""


class FirstComeQueue(JobQueue):
    """Strictly by submission: nobody overtakes the head of the queue.

    Parameters
    ----------
    stands_apart
        Which jobs have a queue of their own, whose head holds up only them, because they wait
        for other GPUs; none by default.
    """

    def __init__(self, stands_apart: Callable[[Job], bool] | None = None) -> None:
        self._stands_apart = stands_apart
        self._heaps: tuple[list[tuple[int, Run]], ...] = ([], [])
        self._offered: list[list[tuple[int, Run]]] = []

    def __len__(self) -> int:
        return sum(map(len, self._heaps))

    def add(self, run: Run) -> None:
        """See `JobQueue`; a preempted job returns to the place of its submission."""
        apart = self._stands_apart is not None and self._stands_apart(run.job)
        heappush(self._heaps[apart], (run.order, run))

    def begin(self) -> None:
        """See `JobQueue`."""
        self._offered = [heap for heap in self._heaps if heap]

    def first(self) -> Run | None:
        """See `JobQueue`."""
        offered = self._offered
        if len(offered) == 1:
            return offered[0][0][1] if offered[0] else None
        self._offered = sorted(filter(None, offered), key=lambda heap: heap[0][0])
        return self._offered[0][0][1] if self._offered else None

    def take(self) -> None:
        """See `JobQueue`."""
        heappop(self._offered[0])

    def block(self) -> None:
        """See `JobQueue`."""
        del self._offered[0]


class SmallestFirstQueue(JobQueue):
    """By a key, smallest first; jobs that do not fit are skipped.

    Jobs that need the same of the cluster are blocked together, since there is room for all of
    them or for none. So a pass costs O(kinds of jobs) for each job that starts, not O(jobs).

    Parameters
    ----------
    key
        What is smallest first; ties go to the earlier submission.
    needs_of
        What a job needs, by its place in the workload: there is room for all jobs with the same
        needs, or for none.
    """

    def __init__(
        self, key: Callable[[Run], tuple[float, ...]], needs_of: Callable[[Job, int], Any]
    ) -> None:
        self._key = key
        self._needs_of = needs_of
        self._heaps: dict[Any, list[tuple[tuple[float, ...], int, Run]]] = {}
        self._offered: list[tuple[tuple[float, ...], int, Any]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, run: Run) -> None:
        """See `JobQueue`."""
        kind = self._needs_of(run.job, run.order)
        heap = self._heaps.setdefault(kind, [])
        heappush(heap, (self._key(run), run.order, run))
        self._length += 1

    def begin(self) -> None:
        """See `JobQueue`."""
        self._offered = []
        for kind, heap in self._heaps.items():
            if heap:
                key, order, _ = heap[0]
                heappush(self._offered, (key, order, kind))

    def first(self) -> Run | None:
        """See `JobQueue`."""
        return self._heaps[self._offered[0][2]][0][2] if self._offered else None

    def take(self) -> None:
        """See `JobQueue`."""
        _, _, kind = heappop(self._offered)
        heap = self._heaps[kind]
        heappop(heap)
        self._length -= 1
        if heap:
            key, order, _ = heap[0]
            heappush(self._offered, (key, order, kind))

    def block(self) -> None:
        """See `JobQueue`."""
        heappop(self._offered)


def _by_true_duration(run: Run, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    return (run.job.duration_s,)


def _by_shortest_running_time(run: Run, speed: Speed) -> tuple[float, ...]:  # noqa: ARG001
    # Jobs on both kinds of GPUs get what all others leave (Lyra, section 6).
    return (float(run.job.heterogeneous), run.job.believed_work_worker_s / run.job.max_workers)


def _by_remaining_work(run: Run, speed: Speed) -> tuple[float, ...]:
    work = speed.believed_left_worker_s(run) * run.job.gpus_per_worker
    return (float(run.job.heterogeneous), work)


ORDERS: Mapping[str, Callable[[Run, Speed], tuple[float, ...]] | None] = {
    "first-come": None,
    "shortest": _by_true_duration,
    "shortest-base": _by_shortest_running_time,
    "smallest-work": _by_remaining_work,
}
"""Orders of a queue by name, smallest first.

``first-come`` (nobody overtakes the head), ``shortest`` (by true duration), ``shortest-base``
(Lyra's phase 1: by the believed running time with all workers) and ``smallest-work`` (by believed
remaining work).
"""


def make_queue(
    order: str,
    speed: Speed,
    *,
    stands_apart: Callable[[Job], bool] | None,
    needs_of: Callable[[Job, int], Any],
) -> JobQueue:
    """Return an empty queue of one of the `ORDERS`; other parameters as of the queues."""
    key = ORDERS[order]
    if key is None:
        return FirstComeQueue(stands_apart)
    return SmallestFirstQueue(lambda run: key(run, speed), needs_of)
