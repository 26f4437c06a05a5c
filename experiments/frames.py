"""Load stored runs of any kind as a pandas data frame with one row per run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import InputError, without_inner_frames
from lyra_opt.core.table import flat
from lyra_opt.experiments.proofs import Proofs
from lyra_opt.experiments.records import BESIDE, RunRecord, SolverRecord
from lyra_opt.experiments.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

SPREAD = {"axes": "axis", "figures": "figure", "counters": "counter"}
"""Columns of objects; each entry of an object becomes a column of the frame.

The value is the prefix of the new column, as in ``axis_seed``, if another column with other values
already has the entry's name.
"""

LARGEST_EXACT_FLOAT = 2**53
NUMBERS = ("integer", "floating", "mixed-integer-float")


@without_inner_frames
def load_study(folder: str | Path) -> pd.DataFrame:
    """Return the stored runs of a folder as a data frame, in the order of their study.

    Columns are the fields of the record of their kind (`lyra_opt.experiments.records`), plus one
    column per axis, figure and counter. Entries of an object within a figure are columns
    ``NAME.ENTRY``. Missing values are NaN. In a column with missing values integers become floats,
    or nullable integers on an axis; integers that a float would round stay Python integers.
    ``frame.attrs`` lists the ``axes`` and the ``measures``, which are the measured columns.

    Runs of solvers have four more columns, computed from all runs on the same instance. ``optimum``
    is the proved optimum. ``excess_percent`` is the relative excess of the objective over the
    optimum. ``largest_excess_percent`` is an upper bound on that excess, from the best bound if the
    optimum is not proved. ``excess_over_best_percent`` is the relative excess over the best
    objective of all runs. An excess over 0 is infinite, and the excess of a run without a solution
    is NaN.

    Raises
    ------
    UserError
        If the folder has no store, or the store is damaged, of another version, or empty.

    Examples
    --------
    >>> runs = load_study("results/reclaim-gap")  # doctest: +SKIP
    >>> runs.groupby(["configuration", "servers"]).excess_percent.mean()  # doctest: +SKIP
    """
    runs = stored_runs(Path(folder))
    frame = frame_of(runs)
    if isinstance(runs[0], SolverRecord):
        of_runs = Proofs(runs).columns()
        frame = frame.assign(**{name: _column(values) for name, values in of_runs.items()})
    return frame


def stored_runs(folder: Path) -> list[Any]:
    """Return the run records stored in a folder; raise `InputError` if no run is stored."""
    with ResultStore.open(folder) as store:
        runs = store.runs()
    if not runs:
        raise InputError(str(folder), "the store has no runs yet")
    return runs


def frame_of(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """Return a non-empty list of run records of one kind as a data frame with one row per record.

    The columns are those of `load_study` that one record determines.
    """
    import pandas as pd

    kept = [column.name for column in fields(runs[0]) if column.metadata != BESIDE]
    columns = {
        name: _column([getattr(run, name) for run in runs]) for name in kept if name not in SPREAD
    }
    axes: list[str] = []
    measures = list(runs[0].measures)
    columns["started_at"] = pd.to_datetime(columns["started_at"], format="ISO8601")
    for name in (name for name in kept if name in SPREAD):
        rows = [flat(getattr(run, name) or {}) for run in runs]
        for entry in dict.fromkeys(entry for row in rows for entry in row):
            values = [row.get(entry) for row in rows]
            if entry in columns and list(columns[entry]) == values:  # repeats another column
                axes += [entry] * (name == "axes")
                continue
            free = f"{SPREAD[name]}_{entry}" if entry in columns else entry
            is_whole = name == "axes" and {type(value) for value in values} == {int, type(None)}
            columns[free] = pd.Series(values, dtype="Int64") if is_whole else _column(values)
            (axes if name == "axes" else measures).append(free)
    frame = pd.DataFrame(columns)
    frame.attrs = {
        "axes": axes,
        "measures": [name for name in measures if pd.api.types.infer_dtype(frame[name]) in NUMBERS],
    }
    return frame


def in_order(values: pd.Series) -> pd.Series:
    """Return each value's sort rank: missing values, numbers, then texts by first occurrence."""
    found = sorted(
        values.dropna().unique(), key=lambda value: (1, 0) if isinstance(value, str) else (0, value)
    )
    return values.map({value: place for place, value in enumerate(found)}).fillna(-1)


def _column(values: Sequence[Any]) -> pd.Series:
    import pandas as pd

    is_exact = not any(
        isinstance(value, int) and abs(value) > LARGEST_EXACT_FLOAT for value in values
    )
    if all(value is None for value in values):
        return pd.Series(values, dtype=float)
    return pd.Series(values, dtype=None if is_exact else object)
