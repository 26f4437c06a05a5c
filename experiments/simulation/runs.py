"""The replays of a store: rows, what happened to each job, and the cluster over time."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import read_frame
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.experiments.records import ReplayRecord, ReplayStatus
from lyra_opt.experiments.simulation.measures import MEASURES
from lyra_opt.experiments.store import STORE_FILE, ResultStore, table_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.experiments.records import StudyRecord

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
"""Types of the values that `lyra_opt.experiments.simulation.replays.setting_of` returns."""

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


def variants_of(runs: Sequence[ReplayRecord]) -> list[tuple[str, list[ReplayRecord]]]:
    """Return the runs of each variant of a scenario, and the variant in words; in order."""

    def variant(run: ReplayRecord) -> str:
        return ", ".join(f"{name} = {value}" for name, value in run.point.items())

    return [(name, list(group)) for name, group in groupby(runs, key=variant)]


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
