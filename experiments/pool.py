"""Run tasks in worker processes, and continue if a task kills its worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from lyra_opt.commands.messages import (
    Loudness,
    as_loud_as,
    forgiving_stderr,
    loudness,
    show_traceback,
)
from lyra_opt.core.errors import DiskFullError
from lyra_opt.core.run_progress import listening
from lyra_opt.experiments.store import files_beside, write_beside

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from lyra_opt.experiments.records import RunRecord


class SentOnce:
    """Base class of objects that are sent to each machine once instead of with every task."""

    __slots__ = ()


TASKS_AHEAD = 2
"""Tasks submitted per worker: one that runs and one that waits."""

IN_THIS_PROCESS = 0
"""Number of worker processes that means: run the tasks one by one in this process."""

WORKER_DIED = (
    "the worker process died (killed, out of memory, or a crash in native code), "
    "even when it ran only this task"
)


class Task(Protocol):
    """A unit of work that runs in a worker process and returns one row for the result store.

    It must not contain anything that is defined in the program's main module, which workers lack.
    """

    @property
    def key(self) -> str:
        """Printable text that identifies the run in its store."""

    @property
    def files(self) -> Sequence[Path]:
        """Files that the task reads; they are sent to machines without a shared file system."""

    @property
    def documents_folder(self) -> Path | None:
        """Absolute path of the folder for documents that the run writes; None without documents."""

    def run(self) -> RunRecord:
        """Run the task and return the row with its result; an exception marks the run as failed."""

    def failed(self, started_at: datetime, message: str) -> RunRecord:
        """Return the row of a failed run."""


@dataclass(frozen=True)
class Started:
    """Tasks that an engine has started, with an iterator over their rows and with their progress.

    Parameters
    ----------
    records
        Yields the row of each task as it completes, after its files are written. Closing it ends
        the running tasks.
    begun
        Returns the summed progress of all running tasks, where a complete task counts 1.
    """

    records: Generator[RunRecord, None, None]
    begun: Callable[[], float]


class Engine(Protocol):
    """A place where tasks run, such as processes of this machine or a Dask cluster."""

    def start(self, tasks: Sequence[Task], folder: Path) -> Started:
        """Start the tasks in order, and return an object that yields their rows.

        Parameters
        ----------
        folder
            Folder of the store; the engine writes only the files of runs, not the store.
        """


Shares = Any
"""Progress of each submitted run from 0 to 1, in memory that workers share."""


def new_shares(processes: int) -> Shares:
    """Allocate a shared array for the progress of each submitted task, for `processes` workers."""
    return multiprocessing.get_context("spawn").RawArray("d", TASKS_AHEAD * max(1, processes))


def available_processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class LocalProcesses:
    """An engine that runs tasks in worker processes on this machine.

    Parameters
    ----------
    processes
        Number of processes; with `IN_THIS_PROCESS` tasks run one by one in this process.
    spares_one
        Whether to run tasks in this process if a single worker would be enough.
    """

    processes: int
    spares_one: bool = False

    def start(self, tasks: Sequence[Task], folder: Path) -> Started:
        """Start the tasks in worker processes, and return an object that yields their rows.

        Rows and failures are as in `run_tasks`.
        """
        is_open = isinstance(tasks, deque)  # tasks may be added later
        count = self.processes if is_open else min(self.processes, len(tasks))
        if self.spares_one and count == 1:
            count = IN_THIS_PROCESS
        shares = new_shares(count)
        return Started(run_tasks(tasks, count, folder, shares), lambda: sum(shares))


def run_tasks(
    tasks: Sequence[Task], processes: int, folder: Path, shares: Shares | None = None
) -> Generator[RunRecord, None, None]:
    """Start tasks in order, and yield the row of each task as it completes.

    When a worker dies, any submitted task may be the cause. Each of them is run again in a process
    of its own: a task that kills that process too gets a row of status error. Closing the iterator
    kills the workers and all processes that they started.

    Parameters
    ----------
    tasks
        Tasks may be appended to a deque whenever the last row so far has been yielded.
    processes
        Number of workers; with `IN_THIS_PROCESS` a task that kills its process kills this process.
    folder
        Folder for the files of a run, which are written before its row is yielded.
    shares
        Result of `new_shares` for this number of processes, to watch the progress of runs.
    """
    shares = new_shares(processes) if shares is None else shares
    waiting = tasks if isinstance(tasks, deque) else deque(tasks)
    if processes == IN_THIS_PROCESS:
        while waiting:
            show = partial(shares.__setitem__, 0)
            task = waiting.popleft()
            yield attempt(task, partial(write_beside, folder), show, Exception, SystemExit)
            shares[0] = 0.0
        return
    while waiting:
        for suspect in (yield from _run_until_a_worker_dies(waiting, processes, folder, shares)):
            yield _run_alone(suspect, folder)


def _run_until_a_worker_dies(
    waiting: deque[Task], processes: int, folder: Path, shares: Shares
) -> Generator[RunRecord, None, list[Task]]:
    """Yield rows until all tasks end or a worker dies; return the submitted tasks without a row."""
    running: dict[Future[RunRecord], tuple[Task, int]] = {}
    places = list(range(len(shares)))
    with worker_pool(processes, shares) as pool:  # which starts workers as it needs them
        try:
            while waiting or running:
                while waiting and places:
                    place = places.pop()
                    running[_submitted(pool, waiting[0], folder, place)] = waiting[0], place
                    waiting.popleft()
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                # The loop follows the dict, because a set would not keep a worker's rows in order.
                for future in [future for future in running if future in finished]:
                    task, place = running[future]
                    record = _result(future, task)
                    shares[place] = 0.0
                    places.append(place)
                    yield record
                    del running[future]
        except BrokenProcessPool:
            shares[:] = [0.0] * len(shares)
            return [task for task, _ in running.values()]
    return []


def _run_alone(task: Task, folder: Path) -> RunRecord:
    started_at = datetime.now(UTC)
    with worker_pool(1) as pool:
        try:
            return _result(_submitted(pool, task, folder, 0), task)
        except BrokenProcessPool:
            return task.failed(started_at, WORKER_DIED)


def _submitted(
    pool: ProcessPoolExecutor, task: Task, folder: Path, place: int
) -> Future[RunRecord]:
    # A worker catches every `BaseException`, because a solver may call `sys.exit` or panic.
    # Ctrl-C does not reach workers, because each worker has its own process group.
    with _main_left_out():  # submitting may start a worker
        return pool.submit(_run_in_worker, task, folder, place)


@contextmanager
def _main_left_out() -> Iterator[None]:
    """Hide the program's main module, so that processes started in this context do not import it.

    Otherwise a new process would run a user's script again, which would start processes itself.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _run_in_worker(task: Task, folder: Path, place: int) -> RunRecord:
    def show(share: float) -> None:
        if _shares is not None:
            _shares[place] = share

    return attempt(task, partial(write_beside, folder), show, BaseException)


def attempt(
    task: Task,
    keep: Callable[[dict[str, bytes]], None],
    show: Callable[[float], None],
    *caught: type[BaseException],
) -> RunRecord:
    """Run a task and return its row, which has status error if the task fails.

    Parameters
    ----------
    keep
        Called with the files of the run, as returned by `lyra_opt.experiments.store.files_beside`.
    show
        Called with the progress of the run, from 0 to 1.
    caught
        Exception classes that count as failures.
    """
    started_at = datetime.now(UTC)
    try:
        with listening(show):
            record = task.run()
        keep(files_beside(record))
    except DiskFullError:  # later runs could not be stored either
        raise
    except caught as error:
        show_traceback(error, task.key)
        return task.failed(started_at, in_words(error))
    return replace(record, tables={}, documents={})


def in_words(error: BaseException) -> str:
    """Return the class and the message of an error as text."""
    return f"{type(error).__name__}: {error}"


def _result(future: Future[RunRecord], task: Task) -> RunRecord:
    """Return the row that a worker sent; raise only if the worker died or the disk is full."""
    try:
        return future.result()
    except (BrokenProcessPool, DiskFullError):
        raise
    except Exception as error:  # the row could not be sent
        return task.failed(datetime.now(UTC), f"the result could not be sent: {in_words(error)}")


@contextmanager
def worker_pool(processes: int, shares: Shares | None = None) -> Iterator[ProcessPoolExecutor]:
    """Provide a pool whose workers end with this context; an error or Ctrl-C kills them at once.

    Workers also end if this process is killed, and write nothing to its output.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        max_workers=processes,
        # Workers are spawned, so they share no threads, locks or loaded solvers with this process.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_prepare_worker,
        initargs=(shares, loudness()),
    )
    try:
        yield pool
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            # A worker without its own process group has not started yet and has no child processes.
            with suppress(ProcessLookupError):
                os.killpg(worker.ident or 0, signal.SIGKILL)
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_shares: Shares | None = None
"""Progress values of this worker process."""
_until_the_end = ExitStack()
"""Contexts that stay open as long as a worker process lives."""


def _prepare_worker(shares: Shares | None, loudness: Loudness) -> None:
    """Give a worker process its own group, discard its output, and end it when its parent ends."""
    global _shares
    _shares = shares
    _until_the_end.enter_context(forgiving_stderr())
    _until_the_end.enter_context(as_loud_as(loudness))
    # A worker with its own process group does not receive Ctrl-C; only its parent does.
    # The parent kills the process group of each worker, including processes started by solvers.
    os.setpgid(0, 0)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123  (native code writes to descriptor 1)
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    parent = multiprocessing.parent_process()
    if parent is not None:

        def end_with_parent() -> None:
            parent.join()
            os.killpg(0, signal.SIGKILL)

        threading.Thread(target=end_with_parent, daemon=True).start()
