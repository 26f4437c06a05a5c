"""The replays of a store: rows, what happened to each job, and the cluster over time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import read_frame
from lyra_opt.core.errors import InputError
from lyra_opt.experiments.records import ReplayRecord, ReplayStatus
from lyra_opt.experiments.store import ResultStore, table_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.experiments.records import StudyRecord

TEXT = {"job_id": str, "model": str, "gpu_types": str}
"""Columns of tables that may look like numbers."""


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
        path = table_path(self.folder, run.key, name)
        try:
            return read_frame(path, TEXT)
        except (OSError, ValueError) as error:
            raise InputError(str(path), f"cannot be read: {error}") from None


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
    failed = [run for run in runs if run.status != ReplayStatus.FINISHED]
    return Replays(folder, study, tuple(finished), tuple(failed), captured)
