"""Queue orders: which waiting job is tried first, and which jobs may overtake others."""

from collections.abc import Callable, Mapping
from inspect import signature
from numbers import Real
from typing import Any

from lyra_opt.core.errors import FieldError, failure_of
from lyra_opt.core.own_files import load_reference
from lyra_opt.simulation.gittins import GittinsOrder
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.view import View

Order = Callable[[JobRun, View], Any]
"""A function that returns the sort key of a job: a number, or a tuple of numbers."""


FIRST_COME = "first-come"
OVERTAKING = "first-come-overtaking"
GITTINS = "gittins"
"""The order of `lyra_opt.simulation.gittins.GittinsOrder`, which composed schemes also know."""

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


def _by_remaining_time(run: JobRun, view: View) -> tuple[float, ...]:
    return (view.left_gpu_s(run) / run.job.min_gpus,)


def _by_aged_time(run: JobRun, view: View) -> tuple[float, ...]:
    # Remaining time less waiting time; the current time is common to all jobs.
    return (view.left_gpu_s(run) / run.job.min_gpus + run.job.submit_s,)


def _by_priority(run: JobRun, view: View) -> tuple[float, ...]:  # noqa: ARG001
    return (-run.job.priority,)


ORDERS: Mapping[str, Callable[[JobRun, View], tuple[float, ...]]] = {
    FIRST_COME: _by_submission,
    OVERTAKING: _by_submission,
    "shortest": _by_true_duration,
    "shortest-base": _by_shortest_running_time,
    "smallest-work": _by_remaining_work,
    "shortest-left": _by_remaining_time,
    "aged-shortest": _by_aged_time,
    PRIORITY: _by_priority,
}
"""Sort key of each queue order, smallest first.

``first-come`` (no job overtakes the head of the queue), ``first-come-overtaking`` (a job that fits
may overtake jobs that do not fit), ``shortest`` (by true duration), ``shortest-base`` (Lyra's phase
1: by the estimated running time with the most workers), ``smallest-work`` (by estimated remaining
work in GPU-seconds, which is Smith's rule for jobs of equal weight that share the GPUs),
``shortest-left`` (by estimated remaining time with the base demand), ``aged-shortest`` (the same
with ageing: each second since the submission counts as one second less) and ``priority`` (highest
priority, then earliest submission). In all orders but ``first-come``, a job that does not fit is
skipped. It may starve, except with ``aged-shortest``, where a job submitted later than its run
time after it no longer overtakes it in the order.
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
    if queue == GITTINS:
        return GittinsOrder(view)
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
