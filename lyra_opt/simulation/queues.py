"""Queues: in which order jobs are offered to the cluster, and who may overtake whom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.run import JobRun


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
    def add(self, run: JobRun) -> None:
        """Let a job wait, at the place that its submission or size gives it."""

    @abstractmethod
    def begin(self) -> None:
        """Offer all jobs again."""

    @abstractmethod
    def first(self) -> JobRun | None:
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

    def __init__(self, stands_apart: Callable[[JobRun], bool] | None = None) -> None:
        self._stands_apart = stands_apart
        self._heaps: tuple[list[tuple[int, JobRun]], ...] = ([], [])
        self._offered: list[list[tuple[int, JobRun]]] = []

    def __len__(self) -> int:
        return sum(map(len, self._heaps))

    def add(self, run: JobRun) -> None:
        """See `JobQueue`; a preempted job returns to the place of its submission."""
        apart = self._stands_apart is not None and self._stands_apart(run)
        heappush(self._heaps[apart], (run.order, run))

    def begin(self) -> None:
        """See `JobQueue`."""
        self._offered = [heap for heap in self._heaps if heap]

    def first(self) -> JobRun | None:
        """See `JobQueue`."""
        self._offered = sorted(filter(None, self._offered), key=lambda heap: heap[0][0])
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
    """

    def __init__(self, key: Callable[[JobRun], tuple[float, ...]]) -> None:
        self._key = key
        self._heaps: dict[Any, list[tuple[tuple[float, ...], int, JobRun]]] = {}
        self._offered: list[tuple[tuple[float, ...], int, Any]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, run: JobRun) -> None:
        """See `JobQueue`."""
        job = run.job
        kind = (run.min_gpus, job.gpus_per_worker, job.fungible, job.heterogeneous, job.is_elastic)
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

    def first(self) -> JobRun | None:
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
