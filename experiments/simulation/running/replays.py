"""Replay a scenario into a folder, and read the replays of a folder."""

from __future__ import annotations

import math
import weakref
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import say
from lyra_opt.commands.output import output_folder, require_folder_path
from lyra_opt.core.csv_text import read_frame
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.experiments.executor import require_own_store, run_stored
from lyra_opt.experiments.records import ReplayRecord, ReplayStatus
from lyra_opt.experiments.simulation.measuring.demand import say_demand
from lyra_opt.experiments.simulation.measuring.measures import MEASURES
from lyra_opt.experiments.simulation.running.tasks import replay_tasks, study_of
from lyra_opt.experiments.simulation.scenario.loading import absent_cases
from lyra_opt.experiments.store import STORE_FILE, ResultStore, table_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.records import StudyRecord
    from lyra_opt.experiments.simulation.scenario.loading import Scenario

TEXT = {"job_id": str, "model": str, "gpu_types": str}
"""Columns of tables that may look like numbers."""

COLUMNS = {
    "jobs": (
        *("job_id", "submit_s", "start_s", "completion_s", "queued_s", "jct_s", "held_gpu_s"),
    ),
    "series": ("time_s",),
}
"""Columns without which a table cannot be read."""

NUMBER, OPTIONAL_TEXT = (int, float), (str, type(None))
SETTING: Mapping[str, tuple[type, ...]] = {
    "demand": (str,),
    "own_gpus": (dict,),
    "lent_gpus_per_server": (dict,),
    "last_submission_s": NUMBER,
    "summary": (str,),
    "tenure": (str,),
    "reclaimer": OPTIONAL_TEXT,
}
"""Types of the values that `lyra_opt.experiments.simulation.running.tasks.setting_of` returns."""

BY_PARTS = "_by_"
"""In the name of a measure that has a number for each GPU type or tier."""


@dataclass(frozen=True, eq=False)
class Replays:
    """What a folder holds of a scenario.

    Parameters
    ----------
    folder
        Of the store.
    study
        What it belongs to; its text is the scenario.
    runs
        Those that finished, in the order of the scenario.
    failed
        The others.
    captured
        Folder outside the store from which captured decisions may be read; None for no such folder.
    """

    folder: Path
    study: StudyRecord
    runs: tuple[ReplayRecord, ...]
    failed: tuple[ReplayRecord, ...]
    captured: Path | None = None

    def jobs(self, run: ReplayRecord) -> pd.DataFrame:
        """Return what became of each job of a run, a row each."""
        return self._table(run, "jobs")

    def series(self, run: ReplayRecord) -> pd.DataFrame:
        """Return the cluster over time in a run, a row a moment."""
        return self._table(run, "series")

    @property
    def schemes(self) -> list[str]:
        """Labels of the schemes in order, also of those that failed."""
        schemes: list[str] = list(self.study.settings["schemes"])
        return schemes

    def _table(self, run: ReplayRecord, name: str) -> pd.DataFrame:
        import pandas as pd

        path = table_path(self.folder, run.key, name)
        try:
            table = read_frame(path, TEXT)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise InputError(str(path), f"cannot be read: {error}") from None
        for column in COLUMNS[name]:
            if column not in table:
                raise InputError(str(path), f"is damaged: column {column} is missing")
        for column in table.columns.difference(list(TEXT)):
            given = table[column].dropna()
            if given.dtype == object and not given.isin([True, False]).all():
                is_text = pd.to_numeric(given, errors="coerce").isna()
                where = f"line {is_text.idxmax() + 2}: {column}" if is_text.any() else column
                raise InputError(str(path), f"is damaged: {where}: must be a number")
        return table


def _require_readable(run: ReplayRecord) -> None:
    """Raise `FieldError` if setting or figures of a finished run are not what reports read."""
    for name, types in SETTING.items():
        if not isinstance(run.setting.get(name), types):
            raise FieldError(f"setting.{name}", run.setting.get(name), "has another type")
    counts = {f"setting.{name}": run.setting[name] for name in ("own_gpus", "lent_gpus_per_server")}
    figures = run.figures or {}
    for measure in (measure for measure in MEASURES if figures.get(measure.key) is not None):
        given, path = figures[measure.key], f"figures.{measure.key}"
        counts[path] = given if BY_PARTS in measure.key else {"": given}
    for path, values in counts.items():
        for name, value in values.items() if isinstance(values, dict) else [("", values)]:
            if not isinstance(value, NUMBER) or not math.isfinite(value):
                raise FieldError(f"{path}.{name}".removesuffix("."), value, "must be a number")


def load_replays(folder: Path, *, captured: Path | None = None) -> Replays:
    """Return the replays of a store; `UserError` if there is none, or it holds something else."""
    with ResultStore.open(folder) as store:
        study, runs = store.study, store.runs()
    if study.kind != ReplayRecord.kind:
        raise InputError(str(folder), f"holds runs of another kind: {study.kind}")
    finished = [run for run in runs if run.status == ReplayStatus.FINISHED]
    for run in finished:
        try:
            known = study.settings.get("schemes")  # the study of a paper has none
            if known is not None and run.scheme not in known:
                rule = f"must be one of the schemes of the study: {', '.join(known)}"
                raise FieldError("scheme", run.scheme, rule)
            _require_readable(run)
        except FieldError as error:
            raise InputError(
                str(folder / STORE_FILE), f"is damaged: run {run.key}: {error}"
            ) from None
    failed = [run for run in runs if run.status != ReplayStatus.FINISHED]
    return Replays(folder, study, tuple(finished), tuple(failed), captured)


def run_scenario(
    scenario: Scenario,
    schemes: Sequence[str] = (),
    *,
    out: Path | None = None,
    resume: bool = False,
    engine: Engine,
    capture: Path | None = None,
    command: str | None = None,
) -> tuple[int, Replays]:
    """Replay what a scenario asks for, and return how it ended with what came of it.

    All that can be wrong is found out before the first replay.

    Parameters
    ----------
    scenario, schemes, capture
        As of `lyra_opt.experiments.simulation.running.tasks.replay_tasks`.
    out
        Folder that keeps the replays; None keeps them as long as the object that is returned.
    resume
        Whether to go on with the replays that the folder holds.
    engine
        Where replays run.
    command
        The command line that asked for it, where there was one.

    Returns
    -------
    tuple of int and Replays
        The status of `lyra_opt.experiments.executor.run_stored`.

    Raises
    ------
    UserError
        If something that the scenario names is wrong, or a folder cannot be written to.
    """
    folders = {"--out": out, "--capture": capture}
    for option, folder in folders.items():
        if folder is not None:
            require_folder_path(option, folder)
    tasks = replay_tasks(scenario, schemes, capture=capture)
    study = study_of(scenario, tasks, command=command)
    if out is not None:
        require_own_store(study, out, resume=resume)
    setup = tasks[0].setup()
    with ExitStack() as stack:
        for option, folder in folders.items():
            stack.enter_context(output_folder(option, folder))
        with ExitStack() as unless_done:
            kept = out or unless_done.enter_context(TemporaryFolder())
            for name, trace in absent_cases(scenario).items():
                say(f"case {name} is left out: {trace} is not there")
            say_demand(setup)
            status = run_stored(
                study, tasks, kept, engine=engine, resume=resume, is_kept=out is not None
            )
            replays = load_replays(kept, captured=capture)
            weakref.finalize(replays, unless_done.pop_all().close)
    return status, replays
