"""Run tasks on the workers of a Dask scheduler; workers may join, leave and die during a run."""

import asyncio
import logging
import sys
import time
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from queue import Empty, SimpleQueue

from lyra_opt.commands.messages import Loudness, loudness, say
from lyra_opt.core.errors import CutShortError, DiskFullError, UserError
from lyra_opt.experiments.pool import WORKER_DIED, in_words
from lyra_opt.experiments.store import write_beside

try:
    from distributed import Security
except ImportError as missing:
    raise UserError(
        f"other machines require Dask: pip install 'lyra-opt[cluster]' ({missing})"
    ) from None

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

from distributed import Client, Future

from lyra_opt.experiments.machines import worker
from lyra_opt.experiments.machines.answers import WorkerError, read_answer
from lyra_opt.experiments.machines.connection import DataClient, content_of
from lyra_opt.experiments.machines.parcels import Contents, new_errand
from lyra_opt.experiments.pool import Task
from lyra_opt.experiments.records import RunRecord

FIRST_ANSWER_S = 10.0
"""Time limit for a scheduler's first answer, in seconds."""

LONGEST_ABSENCE_S = 600.0
"""How long to wait for a lost scheduler, in seconds."""

SECONDS_BETWEEN_TRIES = 1.0
SECONDS_BETWEEN_COUNTS = 5.0
SECONDS_BETWEEN_LOOKS = 0.5

TASKS_AHEAD = 2
"""Tasks submitted per worker thread."""

LEAST_AHEAD = 32
"""Minimum number of submitted tasks, so that new workers find work at once."""

WRITERS = 8
"""Number of threads that write the files of runs."""

MOST_AT_ONCE = 256
"""Largest number of tasks sent, or rows fetched, in one message."""

LONGEST_FETCH_S = 60.0
"""Time limit for fetching finished rows, in seconds; their worker may be lost meanwhile."""

CANNOT_BE_READ = {
    *("ImportError", "ModuleNotFoundError", "AttributeError", "PickleError", "UnpicklingError"),
    worker.VersionsDifferError.__name__,
}
"""Classes of the errors that a worker with other package versions raises."""
HAS_DIED = {"KilledWorker", worker.TaskKillsError.__name__}
"""Errors of the scheduler for a task on which several workers died, and of a worker for a task that
kills its process."""


class _LostError(Exception):
    """The connection to the scheduler failed."""


class SchedulerLostError(CutShortError):
    """A lost scheduler has not come back within the time limit."""


@dataclass(frozen=True)
class Machines:
    """An engine that runs tasks on the workers of a Dask scheduler.

    Parameters
    ----------
    scheduler
        Address of the scheduler.

    Raises
    ------
    UserError
        If the scheduler does not answer.
    """

    scheduler: str

    def __post_init__(self) -> None:
        if self.scheduler.startswith("tls://") and not Security().tls_ca_file:
            raise UserError(
                f"scheduler {self.scheduler}: tls:// requires certificates: set "
                "distributed.comm.tls.ca-file and the client's cert and key in Dask's "
                "configuration; see https://distributed.dask.org/en/stable/tls.html"
            )
        try:
            _client(self.scheduler, FIRST_ANSWER_S).close()
        except Exception as error:
            raise UserError(f"scheduler {self.scheduler}: cannot be reached: {error}") from None

    def start(
        self, tasks: Sequence[Task], folder: Path, shares: dict[str, float]
    ) -> Generator[RunRecord, None, None]:
        """Start the tasks on the workers of the Dask scheduler, and yield their rows.

        Only this process writes to the folder of the store. Workers do not report the progress of
        a running task.

        Raises
        ------
        UserError
            While rows are read: if a task cannot be sent, or workers have other package versions.
            `SchedulerLostError` if the scheduler is away for longer than `LONGEST_ABSENCE_S`.
        """
        del shares
        return _Run(self.scheduler, tasks, folder).records()


class _Run:
    """The state of one run of tasks on a scheduler."""

    def __init__(self, scheduler: str, tasks: Sequence[Task], folder: Path) -> None:
        self._scheduler, self._tasks, self._folder = scheduler, tasks, folder
        self._errand = new_errand()
        self._contents = Contents()
        self._waiting = deque(range(len(tasks)))
        self._sent: dict[int, Future] = {}
        self._finished: SimpleQueue[int] = SimpleQueue()
        self._kept: dict[str, Future] = {}
        self._threads, self._counted_s = 0, float("-inf")
        self._has_workers = True

    def records(self) -> Generator[RunRecord, None, None]:
        """Yield rows as tasks complete, and reconnect whenever the scheduler is lost."""
        while self._waiting:
            with self._connected() as client:
                try:
                    yield from self._served(client)
                except _LostError:
                    say(
                        f"connection to scheduler {self._scheduler} lost; incomplete tasks are "
                        f"sent again if it returns within {LONGEST_ABSENCE_S / 60:.0f} minutes"
                    )
                    self._waiting = deque(sorted({*self._sent, *self._waiting}))
                    self._sent, self._kept = {}, {}
                    self._finished = SimpleQueue()
                    self._counted_s = float("-inf")

    @contextmanager
    def _connected(self) -> Iterator[Client]:
        """Return a client, and cancel its incomplete tasks at the end."""
        client = self._new_client()
        try:
            yield client
        finally:
            sent = list(self._sent.values())
            with suppress(Exception):  # the scheduler may be gone
                client.sync(
                    lambda: client.cancel(sent, asynchronous=True, force=True),
                    callback_timeout=FIRST_ANSWER_S,
                )
            with suppress(Exception):
                client.close(timeout=FIRST_ANSWER_S)

    def _new_client(self) -> Client:
        deadline_s = time.monotonic() + LONGEST_ABSENCE_S
        while True:
            try:
                return _client(self._scheduler, FIRST_ANSWER_S)
            except Exception as error:
                if time.monotonic() > deadline_s:
                    raise SchedulerLostError(
                        f"scheduler {self._scheduler} has been unreachable for "
                        f"{LONGEST_ABSENCE_S / 60:.0f} minutes: {error}"
                    ) from None
            time.sleep(SECONDS_BETWEEN_TRIES)

    def _served(self, client: Client) -> Generator[RunRecord, None, None]:
        """Yield rows until all tasks are done; raise `_LostError` if the scheduler is lost."""
        while self._waiting or self._sent:
            self._count_threads(client)
            with _lost_if_it_fails():
                self._send(client)
            yield from self._received(client, self._next_finished())

    def _count_threads(self, client: Client) -> None:
        """Update the number of worker threads from time to time; report if it is zero."""
        if time.monotonic() - self._counted_s < SECONDS_BETWEEN_COUNTS:
            return
        with _lost_if_it_fails():
            # `client.nthreads()` would wait for ever if the connection breaks during the call.
            threads = client.sync(client.scheduler.ncores, callback_timeout=FIRST_ANSWER_S)
            self._threads = sum(threads.values())
        self._counted_s = time.monotonic()
        if self._has_workers and not self._threads:
            say(f"scheduler {self._scheduler} has no workers; waiting for a worker")
        self._has_workers = bool(self._threads)

    def _send(self, client: Client) -> None:
        """Submit enough tasks to keep every worker busy."""
        room = max(LEAST_AHEAD, TASKS_AHEAD * self._threads) - len(self._sent)
        numbers = list(islice(self._waiting, max(0, room)))
        for start in range(0, len(numbers), MOST_AT_ONCE):
            some = numbers[start : start + MOST_AT_ONCE]
            self._send_some(client, some)
            for _ in some:  # removed only now, as sending may fail
                self._waiting.popleft()

    def _send_some(self, client: Client, numbers: Sequence[int]) -> None:
        parcels = [self._contents.parcel(self._tasks[number]) for number in numbers]
        for sha256 in dict.fromkeys(each for parcel in parcels for each in parcel.contents):
            if sha256 not in self._kept:
                self._kept[sha256] = client.submit(
                    worker.kept, self._contents[sha256], key=f"lyra-opt-{sha256}", pure=False
                )
        contents = [
            {sha256: self._kept[sha256] for sha256 in parcel.contents} for parcel in parcels
        ]
        keys = [f"{self._errand.id}-{number}" for number in numbers]
        futures = client.map(
            worker.carry_out, [self._errand] * len(keys), parcels, contents, key=keys, pure=False
        )
        for number, future in zip(numbers, futures, strict=True):
            self._sent[number] = future
            self._watch(number, future)

    def _watch(self, number: int, future: Future) -> None:
        finished = self._finished  # a new connection has a new queue
        future.add_done_callback(lambda _: finished.put(number))

    def _next_finished(self) -> list[int]:
        """Return the numbers of tasks that finished, or an empty list after a short wait."""
        numbers = []
        with suppress(Empty):
            numbers.append(self._finished.get(timeout=SECONDS_BETWEEN_LOOKS))
            while len(numbers) < MOST_AT_ONCE:
                numbers.append(self._finished.get_nowait())
        return numbers

    def _received(self, client: Client, numbers: Sequence[int]) -> Generator[RunRecord, None, None]:
        """Yield the rows of finished tasks."""
        if client.status != "running":
            raise _LostError
        states = {number: self._sent[number].status for number in numbers}
        there = [number for number in numbers if states[number] == "finished"]
        rows: dict[int, object] = {}
        if there:
            with _lost_if_it_fails(TimeoutError):
                rows = client.sync(
                    client._gather,  # noqa: SLF001 - the public method has no time limit
                    {number: self._sent[number] for number in there},
                    errors="skip",
                    callback_timeout=LONGEST_FETCH_S,
                )
        # Several threads write files, because each file waits for the disk.
        arrived = [number for number in numbers if rows.get(number)]
        with ThreadPoolExecutor(WRITERS) as writers:
            records = list(writers.map(lambda number: self._row(number, rows[number]), arrived))
        kept = dict(zip(arrived, records, strict=True))
        for number in numbers:
            if number in kept:
                yield self._done(number, kept[number])
            elif states[number] == "error":
                with _lost_if_it_fails():
                    error = self._sent[number].exception(timeout=FIRST_ANSWER_S)
                yield self._done(number, self._failed(number, str(error)))
            elif states[number] in ("cancelled", "lost"):
                raise _LostError
            else:  # the row was lost with its worker, so the task runs again
                self._watch(number, self._sent[number])

    def _done(self, number: int, record: RunRecord) -> RunRecord:
        del self._sent[number]
        return record

    def _row(self, number: int, sent: object) -> RunRecord:
        """Write the files in a worker's answer, and return its row; a bad answer fails the run."""
        task = self._tasks[number]
        try:
            record, beside = read_answer(task, content_of(sent))
            write_beside(self._folder, beside)
        except DiskFullError:
            raise
        except WorkerError as error:
            return self._failed(number, str(error))
        except Exception as error:  # workers are not trusted
            return task.failed(datetime.now(UTC), f"no result arrived: {in_words(error)}")
        return record

    def _failed(self, number: int, error: str) -> RunRecord:
        """Return a failed task's row; raise `CutShortError` if a worker could not read the task."""
        kind, _, words = error.partition(": ")
        if kind in CANNOT_BE_READ:
            here = ", ".join(f"{name} {each}" for name, each in self._errand.versions.items())
            raise CutShortError(
                f"scheduler {self._scheduler}: a worker cannot read a task: {words} "
                f"(all machines need the software versions of this machine: {here})"
            )
        said = WORKER_DIED if kind in HAS_DIED else f"no result arrived: {error}"
        return self._tasks[number].failed(datetime.now(UTC), said)


@contextmanager
def _lost_if_it_fails(*passed: type[Exception]) -> Iterator[None]:
    """Turn errors of the Dask client in this context into `_LostError`, except `passed` errors."""
    try:
        yield
    except passed:
        return
    except UserError:
        raise
    except (Exception, asyncio.CancelledError) as error:
        logging.getLogger(__name__).info("lost: %s", in_words(error))
        raise _LostError from error


def _client(scheduler: str, timeout_s: float) -> Client:
    """Return a silent client; raises Dask's own errors if the scheduler does not answer."""
    import dask

    if loudness() < Loudness.VERBOSE:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
    dask.config.set({"distributed.admin.large-graph-warning-threshold": sys.maxsize})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dask's version warnings; workers compare versions
        return DataClient(scheduler, timeout_s)
