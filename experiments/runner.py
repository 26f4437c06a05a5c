"""Run a study: every solver on every instance, each run stored as it completes."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import complain
from lyra_opt.experiments.contradictions import find_contradictions
from lyra_opt.experiments.executor import EXIT_INTERRUPTED, run_stored
from lyra_opt.experiments.records import SolverRecord, StudyRecord
from lyra_opt.experiments.store import ResultStore
from lyra_opt.experiments.task import SolverTask, end_children

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.study import Study


def run_study(
    study: Study,
    folder: Path,
    *,
    engine: Engine,
    resume: bool = False,
    command: str | None = None,
) -> int:
    """Run what the store in `folder` does not hold yet, and check all results together.

    Parameters
    ----------
    study
        A validated study.
    folder, engine, resume
        As in `lyra_opt.experiments.executor.run_stored`.
    command
        The command line that asked for it, where there was one.

    Returns
    -------
    int
        0; 1 if a run ended in an error or results contradict one another; 130 after Ctrl-C,
        SIGTERM or SIGHUP.

    Raises
    ------
    UserError
        If there is a store and `resume` is false, or it holds another study, or it cannot be
        written.
    """
    tasks = [
        SolverTask(
            study=study.name,
            position=position,
            cell=cell,
            configuration=configuration,
            trace=study.trace,
        )
        for position, (cell, configuration) in enumerate(study.runs())
    ]
    record = StudyRecord(
        name=study.name,
        kind=SolverRecord.kind,
        description=study.description,
        text=study.text,
        meaning_hash=study.meaning_hash(),
        runs=len(tasks),
        settings={"headline": list(study.headline), "command": command},
    )
    turns = list(_taking_turns(tasks))
    try:
        status = run_stored(record, turns, folder, engine=engine, resume=resume)
    finally:
        end_children()  # of tasks that ran here
    if status == EXIT_INTERRUPTED:
        return status
    with ResultStore.open(folder) as store:
        contradictions = find_contradictions(store.runs())
    for contradiction in contradictions:
        complain(f"CONTRADICTION: {contradiction}")
    return 1 if contradictions else status


def _taking_turns(tasks: Sequence[SolverTask]) -> Iterator[SolverTask]:
    """Yield the tasks instance by instance, each time with the next solver first.

    So that no solver always finds the caches as the same other one has left them.
    """
    for number, (_, group) in enumerate(groupby(tasks, key=lambda task: task.cell)):
        of_instance = list(group)
        first = number % len(of_instance)
        yield from of_instance[first:]
        yield from of_instance[:first]
