"""Stored runs of any kind as a pandas data frame, one row a run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import InputError
from lyra_opt.experiments.proofs import Proofs
from lyra_opt.experiments.records import BESIDE, RunRecord, SolverRecord
from lyra_opt.experiments.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

SPREAD = {"axes": "axis", "figures": "figure", "counters": "counter"}
"""Columns that hold an object, whose entries are columns of their own in a frame.

Each with what stands before the name of an entry, as ``axis_seed``, where the name alone is that of
another column with other values.
"""

LARGEST_EXACT_FLOAT = 2**53
NUMBERS = ("integer", "floating", "mixed-integer-float")


def load_study(folder: str | Path) -> pd.DataFrame:
    """Return the stored runs of a folder, in the order of their study.

    Columns are the fields of the record of their kind (`lyra_opt.experiments.records`), and one for
    each axis, figure and counter; entries of an object within a figure are ``NAME.ENTRY``. What is
    not there is NaN. Integers are floats in a column where some are missing (nullable integers on
    an axis), and Python's own integers where a float would round one. ``attrs`` of the frame names
    the ``axes``, and the ``measures``, which are the columns that were measured.

    Runs of solvers have four columns beside, of what all runs on an instance prove together:
    ``optimum``, where it is proved; ``excess_percent``, how much worse the objective is than that,
    relative to it; ``largest_excess_percent``, how much worse it is at most, by the best bound
    where no optimum is proved; ``excess_over_best_percent``, how much worse it is than the best
    objective of all runs. They are infinite where the other value is 0, and NaN without a solution.

    Raises
    ------
    UserError
        If the folder has no store, or one that is damaged, of another version, or empty.

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
    """Return the records of a folder, at least one; errors as `load_study`."""
    with ResultStore.open(folder) as store:
        runs = store.runs()
    if not runs:
        raise InputError(str(folder), "its store holds no run yet")
    return runs


def frame_of(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """Return records of one kind, at least one, as `load_study` does."""
    import pandas as pd

    kept = [column.name for column in fields(runs[0]) if column.metadata != BESIDE]
    columns = {
        name: _column([getattr(run, name) for run in runs]) for name in kept if name not in SPREAD
    }
    axes: list[str] = []
    measures = list(runs[0].measures)
    columns["started_at"] = pd.to_datetime(columns["started_at"], format="ISO8601")
    for name in (name for name in kept if name in SPREAD):
        flat = [_flat(getattr(run, name) or {}) for run in runs]
        for entry in dict.fromkeys(entry for row in flat for entry in row):
            values = [row.get(entry) for row in flat]
            if entry in columns and list(columns[entry]) == values:  # says the same again
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
    """Return the place of each value: missing ones, numbers in order, then words as they come."""
    found = sorted(
        values.dropna().unique(),
        key=lambda value: (1, 0) if isinstance(value, str) else (0, value),
    )
    return values.map({value: place for place, value in enumerate(found)}).fillna(-1)


def _flat(entries: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the entries of an object and of those within it, by name.

    >>> _flat({"usage": {"V100": 0.5, "K80": 1.0}, "jobs": 3})
    {'usage.V100': 0.5, 'usage.K80': 1.0, 'jobs': 3}
    """
    flat: dict[str, Any] = {}
    for name, value in entries.items():
        flat |= (
            _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
        )
    return flat


def _column(values: Sequence[Any]) -> pd.Series:
    import pandas as pd

    is_exact = not any(
        isinstance(value, int) and abs(value) > LARGEST_EXACT_FLOAT for value in values
    )
    if all(value is None for value in values):
        return pd.Series(values, dtype=float)
    return pd.Series(values, dtype=None if is_exact else object)
