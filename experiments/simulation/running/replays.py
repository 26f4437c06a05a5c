"""Run all replays of a scenario into a store, and read the replays of a store."""

from __future__ import annotations

import math
import weakref
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import say
from lyra_opt.commands.output import output_folder, require_folder_path
from lyra_opt.core.csv_text import read_frame
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.nearest_names import one_of
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.experiments.executor import require_own_store, run_stored
from lyra_opt.experiments.random_inputs import resampling_of
from lyra_opt.experiments.records import ReplayRecord, ReplayStatus
from lyra_opt.experiments.simulation.measuring.demand import say_demand
from lyra_opt.experiments.simulation.measuring.measures import MEASURES, variants_of
from lyra_opt.experiments.simulation.running.tasks import replay_tasks, study_of
from lyra_opt.experiments.simulation.scenario.loading import absent_cases
from lyra_opt.experiments.store import STORE_FILE, ResultStore, table_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.records import StudyRecord
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.scenario.loading import Scenario

TEXT = {"job_id": str, "model": str, "gpu_types": str}
"""Text columns of the tables; without a stated type pandas would read some values as numbers."""

COLUMNS = {
    "jobs": (
        *("job_id", "submit_s", "start_s", "completion_s", "queued_s", "jct_s", "held_gpu_s"),
    ),
    "series": ("time_s",),
}
"""Columns that each table must have."""

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
"""Types that the values of `lyra_opt.experiments.simulation.running.tasks.setting_of` must have."""


@dataclass(frozen=True, eq=False)
class Replays:
    """The replays of a scenario that a folder holds.

    Parameters
    ----------
    folder
        Folder of the store.
    study
        Study to which the runs belong; its text is the scenario.
    runs, failed
        Finished and failed runs, in the order of the scenario.
    captured
        Folder outside the store from which captured decisions may be read; None for no such folder.
    """

    folder: Path
    study: StudyRecord
    runs: tuple[ReplayRecord, ...]
    failed: tuple[ReplayRecord, ...]
    captured: Path | None = None

    def jobs(self, run: ReplayRecord) -> pd.DataFrame:
        """Return the inputs and the outcome of each job of a run, a row per job."""
        return self._table(run, "jobs")

    def series(self, run: ReplayRecord) -> pd.DataFrame:
        """Return the state of the cluster during a run, a row per point in time."""
        return self._table(run, "series")

    @cached_property
    def variants(self) -> list[VariantRuns]:
        """The runs of each variant of the scenario that has a finished run."""
        return variants_of(self.runs, self.failed)

    @property
    def schemes(self) -> list[str]:
        """Labels of all schemes, including failed ones, in the order of the scenario."""
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
    """Raise `FieldError` if a setting or a figure that reports read has the wrong type."""
    for name, types in SETTING.items():
        if not isinstance(run.setting.get(name), types):
            raise FieldError(f"setting.{name}", run.setting.get(name), "has the wrong type")
    resampling_of(run.setting)
    numbers = {
        f"setting.{name}": run.setting[name] for name in ("own_gpus", "lent_gpus_per_server")
    }
    figures = run.figures or {}
    keys = [measure.key for measure in MEASURES] + [key for key in figures if "priority_" in key]
    for key in (each for each in keys if figures.get(each) is not None):
        # Only a measure whose key contains "_by_" has one number per GPU type or tier.
        numbers[f"figures.{key}"] = figures[key] if "_by_" in key else {"": figures[key]}
    for path, values in numbers.items():
        for name, value in values.items() if isinstance(values, dict) else [("", values)]:
            if not isinstance(value, NUMBER) or not math.isfinite(value):
                raise FieldError(f"{path}.{name}".removesuffix("."), value, "must be a number")


def load_replays(folder: Path, *, captured: Path | None = None) -> Replays:
    """Read the replays of a store.

    Raises
    ------
    UserError
        If the folder has no store, or a store with runs of another kind or with damaged runs.
    """
    with ResultStore.open(folder) as store:
        study, runs = store.study, store.runs()
    if study.kind != ReplayRecord.kind:
        raise InputError(str(folder), f"holds runs of another kind: {study.kind}")
    finished = [run for run in runs if run.status == ReplayStatus.FINISHED]
    for run in finished:
        try:
            known = study.settings.get("schemes")  # missing in studies of papers
            if known is not None and run.scheme not in known:
                rule = one_of(run.scheme, known, "the schemes of the study")
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
    """Run all replays of a scenario, and return the exit status and the replays.

    All inputs are checked before the first replay.

    Parameters
    ----------
    scenario, schemes, capture
        See `lyra_opt.experiments.simulation.running.tasks.replay_tasks`.
    out
        Folder that keeps the replays; None keeps them as long as the returned `Replays` exist.
    resume
        Whether to continue the replays that the folder already holds.
    engine
        Where replays run: processes of this machine, or workers of a Dask scheduler.
    command
        The command line, if there is one.

    Returns
    -------
    tuple of int and Replays
        The status is that of `lyra_opt.experiments.executor.run_stored`.

    Raises
    ------
    UserError
        If an object that the scenario names is invalid, or a folder cannot be written to.
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
                say(f"case {name} is left out: its trace {trace} does not exist")
            say_demand(setup)
            status = run_stored(
                study, tasks, kept, engine=engine, resume=resume, is_kept=out is not None
            )
            replays = load_replays(kept, captured=capture)
            weakref.finalize(replays, unless_done.pop_all().close)
    return status, replays
