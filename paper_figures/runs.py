"""Run what tables are made of, each case once and several at the same time."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, TypeVar

from experiments.pool import worker_pool
from experiments.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def run_all(
    tasks: Sequence[Task],
    work: Callable[[Task], Outcome],
    *,
    processes: int,
    label: str = "simulations",
) -> dict[Task, Outcome]:
    """Return what comes of each task; they start in order.

    Parameters
    ----------
    tasks
        Each once.
    work
        What is done with one; can be sent to another process, as can what it returns.
    processes
        Tasks at the same time; 1 runs them in this process.
    label
        What they are, for the progress bar.
    """
    if not tasks:
        return {}
    found: dict[Task, Outcome] = {}
    with progress(label, len(tasks)) as advance:
        if processes == 1:
            for task in tasks:
                found[task] = work(task)
                advance()
            return found
        with worker_pool(min(processes, len(tasks))) as pool:
            running: dict[Future[Outcome], Task] = {pool.submit(work, task): task for task in tasks}
            waiting = set(running)
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    found[running[future]] = future.result()
                    advance()
    return found
