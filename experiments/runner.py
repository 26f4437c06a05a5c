"""Run a study: every solver on every instance, each run stored as it completes."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from experiments.contradictions import find_contradictions
from experiments.pool import run_tasks
from experiments.progress import progress
from experiments.store import STORE_FILE, ResultStore, StudyRecord
from experiments.task import Task
from lyra_opt.errors import UserError, one_line
from lyra_opt.result import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from experiments.store import RunRecord
    from experiments.study import Study

EXIT_INTERRUPTED = 130  # as shells report a program that Ctrl-C ended
FAILURES_SHOWN = 5


def run_study(study: Study, folder: Path, *, processes: int, resume: bool = False) -> int:
    """Run what the store in `folder` does not hold yet, and check all results together.

    Parameters
    ----------
    study
        A validated study.
    folder
        Where the store is, or is made.
    processes
        Worker processes, at least 1.
    resume
        Whether to go on with a store that is there already. Runs that ended in an error are
        run again, all others are kept.

    Returns
    -------
    int
        0; 1 if a run ended in an error or results contradict one another; 130 after Ctrl-C or
        SIGTERM.

    Raises
    ------
    UserError
        If there is a store and `resume` is false, or it holds another study, or it cannot be
        written.
    """
    tasks = [
        Task(
            study=study.name,
            problem=study.problem,
            position=position,
            cell=cell,
            configuration=configuration,
            trace=study.trace,
        )
        for position, (cell, configuration) in enumerate(study.runs())
    ]
    with _open_store(study, folder, runs=len(tasks), resume=resume) as store:
        statuses = store.statuses()
        waiting = [
            task for task in _taking_turns(tasks) if statuses.get(task.key) in (None, Status.ERROR)
        ]
        stored = len(tasks) - len(waiting)
        _say(f"{study.name}: {len(waiting)} runs to do, {stored} stored already")
        records = run_tasks(waiting, processes)
        try:
            with _terminating_like_ctrl_c(), progress(study.name, len(waiting)) as advance:
                for record in records:
                    store.add(record)
                    advance()
        except KeyboardInterrupt:
            stored = len(store.statuses())  # the interrupt may have come just after the last one
            _say(f"interrupted: {stored} of {len(tasks)} runs are stored; --resume goes on")
            return EXIT_INTERRUPTED
        finally:
            records.close()
        return _verdict(study, store.runs())


def _taking_turns(tasks: Sequence[Task]) -> Iterator[Task]:
    """Yield the tasks instance by instance, each time with the next solver first.

    So that no solver always finds the caches as the same other one has left them.
    """
    for number, (_, group) in enumerate(groupby(tasks, key=lambda task: task.cell)):
        of_instance = list(group)
        first = number % len(of_instance)
        yield from of_instance[first:]
        yield from of_instance[:first]


@contextmanager
def _terminating_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt too, so that batch systems end a study as cleanly."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set signal handlers
        return
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _open_store(study: Study, folder: Path, *, runs: int, resume: bool) -> ResultStore:
    record = StudyRecord(
        name=study.name,
        problem=study.problem,
        description=study.description,
        headline=study.headline,
        text=study.text,
        meaning_hash=study.meaning_hash(),
        runs=runs,
    )
    path = folder / STORE_FILE
    if not path.exists():
        return ResultStore.create(folder, record).start_writing()
    if not resume:
        raise UserError(f"{path}: exists already; add --resume to go on with it, or change --out")
    store = ResultStore.open(folder)
    if store.study().meaning_hash != record.meaning_hash:
        raise UserError(
            f"{path}: holds the results of another study, or of {study.name} before its file or "
            "trace changed; change --out, or delete it"
        )
    return store.start_writing()


def _verdict(study: Study, runs: list[RunRecord]) -> int:
    """Report failures and contradictions among all stored runs; return the exit code."""
    failed = [run for run in runs if run.status is Status.ERROR]
    contradictions = find_contradictions(runs)
    for run in failed[:FAILURES_SHOWN]:
        _say(f"failed: {run.cell}, {run.configuration}: {one_line(run.message or '')}")
    for contradiction in contradictions:
        _say(f"CONTRADICTION: {contradiction}")
    _say(
        f"{study.name}: {len(runs)} runs stored, {len(failed)} failed, "
        f"{len(contradictions)} contradictions"
    )
    return 1 if failed or contradictions else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)
