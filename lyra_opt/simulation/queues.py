"""Queue orders: which waiting job is tried first, and which jobs may overtake others."""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, failure_of
from lyra_opt.core.own_files import load_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.view import View

    Order = Callable[[JobRun, View], Any]
    """A function that returns the sort key of a job: a number, or a tuple of numbers."""


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


def _by_submission(run: JobRun, view: View) -> tuple[float, ...]:  # noqa: ARG001
    return ()


def _by_true_duration(run: JobRun, view: View) -> tuple[float, ...]:  # noqa: ARG001
    return (run.job.duration_s,)


def _by_shortest_running_time(run: JobRun, view: View) -> tuple[float, ...]:  # noqa: ARG001
    # Jobs that can use own and borrowed GPUs at once are last in the queue (Lyra, section 6).
    return (float(run.job.heterogeneous), run.job.believed_work_worker_s / run.job.max_workers)


def _by_remaining_work(run: JobRun, view: View) -> tuple[float, ...]:
    return (float(run.job.heterogeneous), view.left_gpu_s(run))


def _by_priority(run: JobRun, view: View) -> tuple[float, ...]:  # noqa: ARG001
    return (-run.job.priority,)


ORDERS: Mapping[str, Callable[[JobRun, View], tuple[float, ...]]] = {
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


def own_order(queue: str | Order) -> Order:
    """Return a user's own order, given as a function or as ``my_file.py:NAME``.

    Raises
    ------
    FieldError
        If it is not a function with two parameters, a job and the view.
    InputError
        If the file cannot be loaded, or does not define the name.
    """
    order: Order = load_reference(queue) if isinstance(queue, str) else queue
    try:
        signature(order).bind(None, None)
    except (TypeError, ValueError):
        is_function = False
    else:
        is_function = not isinstance(order, type)
    if not is_function:
        rule = f"must be a function key(run, view), or one of {', '.join(ORDERS)}"
        raise FieldError("queue", queue if isinstance(queue, str) else str(queue), rule)
    return order


def sort_key(queue: str | Order, view: View) -> Callable[[JobRun], tuple[float, ...]]:
    """Return the function that computes the sort key of a job in a run.

    With a user's own order, it raises `lyra_opt.simulation.view.PolicyError` if the order fails or
    does not return numbers.
    """
    if isinstance(queue, str) and queue in ORDERS:
        built_in = ORDERS[queue]
        return lambda run: built_in(run, view)
    order = own_order(queue)

    def key(run: JobRun) -> tuple[float, ...]:
        try:
            found = order(run, view)
        except Exception as error:  # a user's function may raise anything
            raise view.error(run, f"has no sort key: {failure_of(error)}") from error
        numbers = found if isinstance(found, tuple) else (found,)
        if not all(isinstance(each, Real) and each == each for each in numbers):
            rule = f"has the sort key {found!r}, which must be a number or a tuple of numbers"
            raise view.error(run, rule)
        return numbers

    return key
