"""Run tasks and store a row for each task, including failures; interrupted runs can be resumed."""

import difflib
import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lyra_opt.commands.messages import complain, say
from lyra_opt.commands.progress import progress
from lyra_opt.core.errors import CutShortError, UserError, counted
from lyra_opt.experiments.pool import Engine, Task
from lyra_opt.experiments.records import ERROR, RunRecord, StudyRecord
from lyra_opt.experiments.store import STORE_FILE, ResultStore

LOGGER = logging.getLogger(__name__)

EXIT_INTERRUPTED = 130  # the code that shells use for a program ended by Ctrl-C
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
    """Run the tasks whose results the store in `folder` does not have yet.

    Parameters
    ----------
    study
        Description of the tasks; a store can be continued by a study with the same meaning.
    tasks
        All tasks, in the order in which they start; their keys are unique.
    folder
        Folder of the store, which is created if needed.
    engine
        Where the tasks run. This process writes the store in any case.
    resume
        Whether to continue an existing store. Failed runs are repeated; all other runs are kept.
    is_kept
        Whether the folder remains after the command, so that a message can say how to resume.

    Returns
    -------
    int
        0; 1 if a run failed; `EXIT_INTERRUPTED` after Ctrl-C, SIGTERM or SIGHUP.

    Raises
    ------
    UserError
        If a store exists and `resume` is false, the store belongs to another study, or it cannot be
        written. `CutShortError`, which says how many runs are stored, if the disk is full or the
        scheduler is lost.
    """
    assert len({task.key for task in tasks}) == len(tasks), "task keys are unique"
    with open_store(study, folder, resume=resume) as store:
        statuses = store.statuses()
        waiting = [task for task in tasks if statuses.get(task.key, ERROR) == ERROR]
        stored = len(tasks) - len(waiting)
        say(f"{study.name}: {counted(len(waiting), 'run')} to do, {stored} already stored")
        shares: dict[str, float] = {}
        records = engine.start(waiting, folder, shares)
        showing = progress(study.name, len(waiting), begun=lambda: sum(shares.copy().values()))
        try:
            with terminating_like_ctrl_c(), showing as advance:
                for record in records:
                    store.add(record)
                    LOGGER.info("stored: %s: %s", record.key, record.status)
                    stored += 1
                    advance()
        except KeyboardInterrupt:
            stored = len(store.statuses())  # a run may be stored but not yet counted
            done = f"interrupted: {stored} of {len(tasks)} runs are"
            say(
                f"{done} stored; continue with --resume"
                if is_kept
                else f"{done} done; use --out to keep them"
            )
            return EXIT_INTERRUPTED
        except CutShortError as error:
            kept = f"{stored} of {len(tasks)} runs are stored; continue with --resume"
            raise type(error)(f"{error}; {kept}") from error
        finally:
            records.close()
        return _verdict(study, store)


def require_own_store(study: StudyRecord, folder: Path, *, resume: bool) -> None:
    """Raise `UserError` if the store in a folder must not be continued or belongs to another study.

    `run_stored` makes the same check; call this function to fail before any output. Parameters as
    in `run_stored`.
    """
    path = folder / STORE_FILE
    if not path.exists():
        return
    if not resume:
        raise UserError(
            f"{path}: already exists; add --resume (in Python resume=True) to continue it, or "
            "choose another folder"
        )
    with ResultStore.open(folder) as store:
        if store.study.meaning_hash != study.meaning_hash:
            texts = store.study.text.splitlines(), study.text.splitlines()
            lines = (line for line in difflib.ndiff(*texts) if line.startswith(("- ", "+ ")))
            first = next((f" (the first line that differs: {line})" for line in lines), "")
            raise UserError(
                f"{path}: has results of another study, or of {study.name} before its file or "
                f"trace changed{first}; choose another folder or delete the store"
            )


def open_store(study: StudyRecord, folder: Path, *, resume: bool) -> ResultStore:
    """Open the result store in a folder for writing; create the store if it does not exist."""
    require_own_store(study, folder, resume=resume)
    exists = (folder / STORE_FILE).exists()
    store = ResultStore.open(folder) if exists else ResultStore.create(folder, study)
    return store.start_writing()


@contextmanager
def terminating_like_ctrl_c() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does.

    Batch systems send SIGTERM, and a closed terminal sends SIGHUP. An ignored SIGHUP, as under
    nohup, stays ignored.
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
    """Report the failed runs of the store; return the exit code."""
    runs = store.runs()
    failed = [run for run in runs if run.status == ERROR]
    status = complain_of(failed)
    say(f"{study.name}: {counted(len(runs), 'run')} stored, {len(failed)} failed")
    return status


def complain_of(failed: Sequence[RunRecord]) -> int:
    """Print the first failed runs with their errors; return the exit code: 1 if a run failed."""
    for run in failed[:FAILURES_SHOWN]:
        complain(f"failed: {run.key}: {run.message or ''}")
    return 1 if failed else 0
