"""Run tasks in worker processes, and outlive the workers that a task takes down with it."""

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
    """Base of what other machines are sent once, not with every task that holds it."""

    __slots__ = ()


TASKS_AHEAD = 2
"""Tasks handed out for each worker: one that runs, one that waits for it to finish."""

IN_THIS_PROCESS = 0
"""Stands for a number of worker processes where tasks run in turn without any."""

WORKER_DIED = (
    "the worker process died (killed, out of memory, or a crash in native code), "
    "also when it ran nothing else"
)


class Task(Protocol):
    """Something to run, of any kind; a worker process is sent it by pickle.

    Nothing in it may be defined in the program's main module, which workers do not have.
    """

    @property
    def key(self) -> str:
        """What identifies the run in its store: printable words."""

    @property
    def files(self) -> Sequence[Path]:
        """What it reads from disk, for machines that share none."""

    @property
    def documents_folder(self) -> Path | None:
        """Absolute folder that the documents of its row are written to; None if it has none."""

    def run(self) -> RunRecord:
        """Return the row of a run; an exception of any kind makes it a failed one."""

    def failed(self, started_at: datetime, message: str) -> RunRecord:
        """Return the row of a run that ended in an error."""


@dataclass(frozen=True)
class Started:
    """Tasks that run.

    Parameters
    ----------
    records
        Yields the row of each as it completes, what lies beside it written to the folder; closed,
        it ends those that run.
    begun
        Returns how much of them is done that has begun: the sum of their shares.
    """

    records: Generator[RunRecord, None, None]
    begun: Callable[[], float]


class Engine(Protocol):
    """Where tasks run."""

    def start(self, tasks: Sequence[Task], folder: Path) -> Started:
        """Return the tasks as they run, started in order.

        Parameters
        ----------
        folder
            Of the store, which others write.
        """


Shares = Any
"""How far each run is that has been handed out, from 0 to 1: memory that workers share."""


def new_shares(processes: int) -> Shares:
    """Return shares for so many workers, or for `IN_THIS_PROCESS`."""
    return multiprocessing.get_context("spawn").RawArray("d", TASKS_AHEAD * max(1, processes))


def available_processors() -> int:
    """Return how many processors this process may use, which can be less than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class LocalProcesses:
    """Worker processes on this machine, which run tasks.

    Parameters
    ----------
    processes
        How many; `IN_THIS_PROCESS` runs tasks in turn here.
    spares_one
        Whether to run tasks here too where a single worker would do.
    """

    processes: int
    spares_one: bool = False

    def start(self, tasks: Sequence[Task], folder: Path) -> Started:
        """Return the rows of tasks as they complete; see `run_tasks`."""
        is_open = isinstance(tasks, deque)  # more tasks may follow
        count = self.processes if is_open else min(self.processes, len(tasks))
        if self.spares_one and count == 1:
            count = IN_THIS_PROCESS
        shares = new_shares(count)
        return Started(run_tasks(tasks, count, folder, shares), lambda: sum(shares))


def run_tasks(
    tasks: Sequence[Task], processes: int, folder: Path, shares: Shares | None = None
) -> Generator[RunRecord, None, None]:
    """Yield the row of every task as it completes; start them in order.

    When a worker dies, every task that was handed out is under suspicion. Each of them is run
    again on its own: one that kills its worker once more is a row of status error, the others
    are innocent. Closing the iterator kills the workers with all that they have started.

    Parameters
    ----------
    tasks
        A deque may be given more tasks whenever the last row of the tasks so far has been yielded.
    processes
        Workers; with `IN_THIS_PROCESS` a task that kills its process kills this one.
    folder
        Where the tables of a run are written before its row is yielded, without them.
    shares
        `new_shares` of as many processes, to watch runs while they run.
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
    """Yield rows until all tasks are done or a worker dies; return the tasks under suspicion."""
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
                # A set has no order; rows of one worker are to come in the order of their tasks.
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
    # A worker catches what is no `Exception` too: a solver may call `sys.exit`, or be compiled
    # from a language whose panics are of a kind of their own. Ctrl-C does not arrive there.
    with _main_left_out():  # a call may start a worker
        return pool.submit(_run_in_worker, task, folder, place)


@contextmanager
def _main_left_out() -> Iterator[None]:
    """Let processes that start meanwhile begin without the program's main module.

    A new process would run a user's script once more, which would then start processes itself.
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
    """Run a task; whatever fails in it is a row of status error.

    Parameters
    ----------
    keep
        Is given what lies beside the row, as `lyra_opt.experiments.store.files_beside` has it.
    show
        Is told how far the run is, from 0 to 1.
    caught
        What counts as a failure.
    """
    started_at = datetime.now(UTC)
    try:
        with listening(show):
            record = task.run()
        keep(files_beside(record))
    except DiskFullError:  # no run after it could be kept either
        raise
    except caught as error:
        show_traceback(error, task.key)
        return task.failed(started_at, in_words(error))
    return replace(record, tables={}, documents={})


def in_words(error: BaseException) -> str:
    """Return an error as rows name it."""
    return f"{type(error).__name__}: {error}"


def _result(future: Future[RunRecord], task: Task) -> RunRecord:
    """Return the row that a worker sent; raise only if the worker died."""
    try:
        return future.result()
    except (BrokenProcessPool, DiskFullError):
        raise
    except Exception as error:  # the row could not be sent
        return task.failed(datetime.now(UTC), f"no result arrived: {in_words(error)}")


@contextmanager
def worker_pool(processes: int, shares: Shares | None = None) -> Iterator[ProcessPoolExecutor]:
    """Return a pool whose workers are gone afterwards, at once if an error or Ctrl-C ends it.

    They end with this process too, whatever kills it, and write nothing to its output.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        max_workers=processes,
        # Spawned workers share nothing with this process: no threads, locks or loaded solvers.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_prepare_worker,
        initargs=(shares, loudness()),
    )
    try:
        yield pool
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            # A worker leads a process group; before it got that far it has no children.
            with suppress(ProcessLookupError):
                os.killpg(worker.ident or 0, signal.SIGKILL)
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_shares: Shares | None = None
"""Of a worker process."""
_until_the_end = ExitStack()
"""What holds as long as a worker process lives."""


def _prepare_worker(shares: Shares | None, loudness: Loudness) -> None:
    """Set up a worker process: a group of its own, no output, and an end when its parent ends."""
    global _shares
    _shares = shares
    _until_the_end.enter_context(forgiving_stderr())
    _until_the_end.enter_context(as_loud_as(loudness))
    # Ctrl-C in a terminal reaches only the parent, which ends the whole group of a worker, the
    # processes that solvers have started included.
    os.setpgid(0, 0)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123  (native code writes to descriptor 1)
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    parent = multiprocessing.parent_process()
    if parent is not None:

        def end_with_parent() -> None:
            parent.join()
            os.killpg(0, signal.SIGKILL)

        threading.Thread(target=end_with_parent, daemon=True).start()
