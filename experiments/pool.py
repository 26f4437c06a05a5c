"""Run tasks in worker processes, and continue if a task kills its worker."""

import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol

from lyra_opt.commands.messages import loudness, show_traceback
from lyra_opt.core.errors import DiskFullError
from lyra_opt.core.isolation.child import Child, ChildDiedError
from lyra_opt.core.run_progress import listening
from lyra_opt.experiments.records import RunRecord
from lyra_opt.experiments.store import files_beside, write_beside


class SentOnce:
    """Base class of objects that are sent to each machine once instead of with every task."""

    __slots__ = ()


SHARE, ROW, FAULT, DISK_FULL, DIED = "share", "row", "fault", "disk full", "died"
"""Kinds of answers of a child process: progress of a task, its row, or why there is no row."""

SECONDS_BETWEEN_LOOKS = 0.5
"""Longest time, in seconds, after which a process that has died without a word is noticed."""

SHORTEST_WAIT_S = 0.001

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

    @property
    def inputs(self) -> Hashable:
        """A value that is equal for tasks that prepare the same data; None if there is no data."""

    def run(self) -> RunRecord:
        """Run the task and return the row with its result; an exception marks the run as failed."""

    def failed(self, started_at: datetime, message: str) -> RunRecord:
        """Return the row of a failed run."""


class Engine(Protocol):
    """A place where tasks run, such as processes of this machine or a Dask cluster."""

    def start(
        self, tasks: Sequence[Task], folder: Path, shares: dict[str, float]
    ) -> Generator[RunRecord, None, None]:
        """Start tasks in order, and yield the row of each task as it completes.

        The files of a task are written before its row is yielded. Closing the iterator ends the
        running tasks.

        Parameters
        ----------
        folder
            Folder of the store; the engine writes only the files of runs, not the store.
        shares
            Receives the progress of each task that runs on this machine, from 0 to 1, by its key.
        """


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

    def start(
        self, tasks: Sequence[Task], folder: Path, shares: dict[str, float]
    ) -> Generator[RunRecord, None, None]:
        """Start the tasks in worker processes; rows and failures are as in `run_tasks`."""
        is_open = isinstance(tasks, deque)  # tasks may be added later
        count = self.processes if is_open else min(self.processes, len(tasks))
        if self.spares_one and count == 1:
            count = IN_THIS_PROCESS
        return run_tasks(tasks, count, folder, shares)


def run_tasks(
    tasks: Sequence[Task], processes: int, folder: Path, shares: dict[str, float]
) -> Generator[RunRecord, None, None]:
    """Start tasks, and yield the row of each task as it completes.

    Tasks start in order, except that a process prefers tasks with the inputs of its last task,
    which it still has, then tasks with inputs that no other process has.

    A task whose process dies runs again after all others, with no other task beside it. If it kills
    that process too, it gets a row of status error. Closing the iterator kills the child processes
    and all processes that they started.

    Parameters
    ----------
    tasks
        Tasks may be appended to a deque whenever the last row so far has been yielded.
    processes
        Number of child processes; with `IN_THIS_PROCESS` a task that kills its process kills this
        process.
    folder
        Folder for the files of a run, which are written before its row is yielded.
    shares
        Receives the progress of each running task, by its key.
    """
    waiting = tasks if isinstance(tasks, deque) else deque(tasks)
    if processes == IN_THIS_PROCESS:
        while waiting:
            task = waiting.popleft()
            show = partial(shares.__setitem__, task.key)
            record = attempt(task, partial(write_beside, folder), show, Exception, SystemExit)
            shares.pop(task.key, None)
            yield record
        return
    children = _Children(folder, shares)
    died: deque[Task] = deque()
    alone: Task | None = None
    try:
        while waiting or children.running or died:
            while waiting and len(children.running) < processes:
                children.prepare(min(processes - len(children.running), len(waiting)))
                yield from children.start(children.next_of(waiting))
            if not children.running and died:
                alone = died.popleft()
                yield from children.start(alone)
            for task, started_at, kind, value in children.ended():
                if kind == DISK_FULL:
                    raise DiskFullError(value)
                if kind == ROW:
                    yield value
                elif kind == FAULT:
                    yield task.failed(started_at, f"no result arrived: {value}")
                elif task is alone:
                    yield task.failed(started_at, WORKER_DIED)
                else:
                    died.append(task)
    finally:
        children.end()


class _Children:
    """Child processes of this process, each of which runs one task at a time."""

    def __init__(self, folder: Path, shares: dict[str, float]) -> None:
        self._folder, self._shares = folder, shares
        self._idle: list[Child] = []
        self._inputs: dict[Child, Hashable] = {}
        self.running: dict[Child, tuple[Task, datetime]] = {}

    def prepare(self, count: int) -> None:
        """Start processes until so many are idle; they load packages at the same time."""
        while len(self._idle) < count:
            child = Child("lyra_opt.experiments.child")
            self._idle.append(child)
            child.connection.send((sys.path, loudness()))

    def next_of(self, waiting: deque[Task]) -> Task:
        """Remove and return the task that suits the process that `start` takes next."""
        if waiting[0].inputs is None:
            return waiting.popleft()
        child = self._idle[-1]
        others = {inputs for other, inputs in self._inputs.items() if other is not child}

        def rank(place_and_task: tuple[int, Task]) -> int:
            inputs = place_and_task[1].inputs
            return 0 if inputs == self._inputs.get(child) else 1 + (inputs in others)

        place, task = min(enumerate(waiting), key=rank)
        del waiting[place]
        return task

    def start(self, task: Task) -> Iterator[RunRecord]:
        """Start a task in an idle process; yield its row if it cannot be sent."""
        started_at = datetime.now(UTC)
        try:
            data = pickle.dumps((task, self._folder))
        except Exception as error:  # an object in the task may raise anything
            yield task.failed(started_at, f"it could not be sent: {in_words(error)}")
            return
        self.prepare(1)
        child = self._idle.pop()
        self.running[child] = task, started_at
        self._inputs[child] = task.inputs
        with suppress(ConnectionError):  # the process has died, which `ended` finds out
            child.connection.send(data)

    def ended(self) -> Iterator[tuple[Task, datetime, str, Any]]:
        """Wait a moment, and yield task, start, kind of answer and answer for each ended task."""
        ready = wait([child.connection for child in self.running], SECONDS_BETWEEN_LOOKS)
        for child, (task, started_at) in list(self.running.items()):
            if ready and child.connection not in ready:
                continue
            try:
                answer = self._answer(child, task)
            except ChildDiedError:
                child.end()
                del self._inputs[child]
                answer = DIED, None
            else:
                if answer is None:
                    continue
                self._idle.append(child)
            del self.running[child]
            self._shares.pop(task.key, None)
            yield task, started_at, *answer

    def _answer(self, child: Child, task: Task) -> tuple[str, Any] | None:
        """Return the answer of a process; None if it has reported no more than progress."""
        while (message := child.receive(time.monotonic() + SHORTEST_WAIT_S)) is not None:
            kind, value = message
            if kind != SHARE:
                return kind, value
            self._shares[task.key] = value
        return None

    def end(self) -> None:
        """Kill all processes."""
        for child in (*self._idle, *self.running):
            child.end()


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
