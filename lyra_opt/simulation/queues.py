"""A priority queue of waiting jobs for scheduling passes."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from lyra_opt.simulation.job_run import JobRun


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
        self._smallest: int | None = None

    def __len__(self) -> int:
        return self._length

    def add(self, run: JobRun) -> None:
        """Add a waiting job, at the position that its sort key determines."""
        self._smallest = None
        kind = self._kind_of(run)
        heappush(self._heaps.setdefault(kind, []), (self._key(run), run.order, kind, run))
        self._length += 1

    def smallest_gang(self) -> int:
        """Return the GPUs of the smallest job that a pass could try first of its kind; O(kinds).

        The answer is kept until a job comes or starts.
        """
        if self._smallest is None:
            heads = [heap[0][3].job.min_gpus for heap in self._heaps.values()]
            self._smallest = min(heads)
        return self._smallest

    def begin(self, could_start: Callable[[JobRun], bool] | None = None) -> None:
        """Start a scheduling pass in which every kind of job can be tried.

        Parameters
        ----------
        could_start
            Whether a job might start in this pass; kinds whose first job cannot are skipped. None
            for all jobs.
        """
        heads = (heap[0] for heap in self._heaps.values())
        self._offered = [head for head in heads if could_start is None or could_start(head[3])]
        heapify(self._offered)

    def first(self) -> JobRun | None:
        """Return the next job to try in this pass; None if no job is left."""
        return self._offered[0][3] if self._offered else None

    def take(self) -> None:
        """Remove the job that `first` returned, because it starts."""
        self._smallest = None
        kind = self._offered[0][2]
        heap = self._heaps[kind]
        heappop(heap)
        self._length -= 1
        if heap:
            heapreplace(self._offered, heap[0])
        else:
            del self._heaps[kind]
            heappop(self._offered)

    def remove(self, run: JobRun) -> None:
        """Remove a waiting job outside a pass, because it starts; O(jobs of its kind)."""
        self._smallest = None
        self._length -= 1
        kind = self._kind_of(run)
        heap = [entry for entry in self._heaps.pop(kind) if entry[3] is not run]
        if heap:
            heapify(heap)
            self._heaps[kind] = heap

    def block(self) -> None:
        """Skip the job that `first` returned, and all jobs of its kind, until the next pass."""
        heappop(self._offered)
