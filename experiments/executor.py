"""Run tasks of any kind into a store: each once, failures as rows, resumed after any end."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import complain, say
from lyra_opt.commands.progress import progress
from lyra_opt.core.errors import CutShortError, UserError, counted
from lyra_opt.experiments.records import ERROR
from lyra_opt.experiments.store import STORE_FILE, ResultStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lyra_opt.experiments.pool import Engine, Task
    from lyra_opt.experiments.records import StudyRecord

LOGGER = logging.getLogger(__name__)

EXIT_INTERRUPTED = 130  # as shells report a program that Ctrl-C ended
FAILURES_SHOWN = 5


def run_stored(
    study: StudyRecord,
    tasks: Sequence[Task],
    folder: Path,
    *,
    engine: Engine,
    resume: bool = False,
    is_kept: bool = True,
) -> int:
    """Run those of the tasks that the store in `folder` does not hold yet.

    Parameters
    ----------
    study
        What the tasks are; two that mean the same share their store.
    tasks
        All of them, in the order in which they start; no two have one key.
    folder
        Where the store is, or is made.
    engine
        Where they run; whatever it is, the store is written here.
    resume
        Whether to go on with a store that is there already. Runs that ended in an error are
        run again, all others are kept.
    is_kept
        Whether the folder stays, so that an interruption can be told how to go on.

    Returns
    -------
    int
        0; 1 if a run ended in an error; `EXIT_INTERRUPTED` after Ctrl-C, SIGTERM or SIGHUP.

    Raises
    ------
    UserError
        If there is a store and `resume` is false, or it holds something else, or it cannot be
        written; `CutShortError`, with what is kept, if the disk is full or the scheduler is lost.
    """
    assert len({task.key for task in tasks}) == len(tasks), "a key is that of one task"
    with open_store(study, folder, resume=resume) as store:
        statuses = store.statuses()
        waiting = [task for task in tasks if statuses.get(task.key, ERROR) == ERROR]
        stored = len(tasks) - len(waiting)
        say(f"{study.name}: {counted(len(waiting), 'run')} to do, {stored} stored already")
        started = engine.start(waiting, folder)
        showing = progress(study.name, len(waiting), begun=started.begun)
        try:
            with terminating_like_ctrl_c(), showing as advance:
                for record in started.records:
                    store.add(record)
                    LOGGER.info("stored: %s: %s", record.key, record.status)
                    stored += 1
                    advance()
        except KeyboardInterrupt:
            stored = len(store.statuses())  # the interrupt may have come just after the last one
            done = f"interrupted: {stored} of {len(tasks)} runs are"
            say(f"{done} stored; --resume goes on" if is_kept else f"{done} done; --out keeps them")
            return EXIT_INTERRUPTED
        except CutShortError as error:
            kept = f"{stored} of {len(tasks)} runs are stored, and --resume goes on with them"
            raise type(error)(f"{error}; {kept}") from error
        finally:
            started.records.close()
        return _verdict(study, store)


def require_own_store(study: StudyRecord, folder: Path, *, resume: bool) -> None:
    """Raise `UserError` if a folder has a store that these runs cannot be added to.

    Parameters as in `run_stored`, which checks it too; for those who say something before.
    """
    path = folder / STORE_FILE
    if not path.exists():
        return
    if not resume:
        raise UserError(f"{path}: exists already; add --resume to go on with it, or change --out")
    with ResultStore.open(folder) as store:
        if store.study.meaning_hash != study.meaning_hash:
            raise UserError(
                f"{path}: holds the results of another study, or of {study.name} before its file "
                "or trace changed; change --out, or delete it"
            )


def open_store(study: StudyRecord, folder: Path, *, resume: bool) -> ResultStore:
    """Return the store of a folder, new or to go on with, for writing; see `run_stored`."""
    require_own_store(study, folder, resume=resume)
    exists = (folder / STORE_FILE).exists()
    store = ResultStore.open(folder) if exists else ResultStore.create(folder, study)
    return store.start_writing()


@contextmanager
def terminating_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt too: batch systems, and terminals that go.

    A SIGHUP that is ignored, as under nohup, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in previous.items():
        if number is signal.SIGTERM or handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _verdict(study: StudyRecord, store: ResultStore) -> int:
    """Report failures among all stored runs; return the exit code."""
    runs = store.runs()
    failed = [run for run in runs if run.status == ERROR]
    for run in failed[:FAILURES_SHOWN]:
        complain(f"failed: {run.key}: {run.message or ''}")
    say(f"{study.name}: {counted(len(runs), 'run')} stored, {len(failed)} failed")
    return 1 if failed else 0
