"""Two folders of results side by side: paired differences, and what else is not the same."""

from __future__ import annotations

import difflib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.frames import frame_of, in_order, stored_runs
from experiments.records import ERROR
from experiments.store import ResultStore
from lyra_opt.commands.output import print_json, print_table
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pandas as pd

    from experiments.records import RunRecord, StudyRecord

CONFIDENCE = 0.95
METHOD = (
    "95 % intervals are those of the paired t test over draws: runs that share their draws are "
    "averaged first. A single draw has none."
)
SHOWN = 10
"""Runs, and lines of a file, that are listed on the terminal."""

OVERALL = ""
MACHINE = ("cpu", "cores", "platform")
COLUMNS = (
    *("axis", "value", "measure", "pairs", "draws", "mean_a", "mean_b"),
    *("difference", "low", "high", "change_percent"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What tells two folders of results apart.

    Parameters
    ----------
    measures
        Columns `COLUMNS`: for each measure that differs in some pair, means over the draws of the
        pairs in which both runs have it, B - A with its interval, and by how much the mean is
        larger in B: overall (`axis` is empty), then for each value of each axis.
    equal
        Measures that are the same in every pair.
    pairs
        Pairs of runs of which none failed.
    failed
        Keys of the other pairs, as A has them.
    only_a, only_b
        Keys of runs without a pair.
    statuses
        How often runs ended in another way: "optimal -> feasible" by number of pairs.
    settings
        What differs between the studies and between all runs of A and all of B, by name: the
        values of A and of B.
    machines
        The same of versions and machine.
    text
        Lines of a unified diff of the files that say what is run.
    """

    measures: pd.DataFrame
    equal: Sequence[str]
    pairs: int
    failed: Sequence[str]
    only_a: Sequence[str]
    only_b: Sequence[str]
    statuses: dict[str, int]
    settings: dict[str, tuple[Any, Any]]
    machines: dict[str, tuple[Any, Any]]
    text: Sequence[str]


def compare_folders(a: Path, b: Path) -> Diff:
    """Compare the runs of two folders, paired by what was run.

    Runs are a pair if all that says what was run is the same, but for what all runs of A have in
    common and all of B too, with another value: a scheme, say, which is then a setting.

    Raises
    ------
    UserError
        If a folder has no runs, the kinds differ, or there is no pair.
    """
    studies = [_study(folder) for folder in (a, b)]
    if studies[0].kind != studies[1].kind:
        raise UserError(f"{b}: holds runs of kind {studies[1].kind}, but {a} of {studies[0].kind}")
    runs = [stored_runs(folder) for folder in (a, b)]
    frames = [frame_of(of_folder) for of_folder in runs]
    axes = list(dict.fromkeys(name for frame in frames for name in frame.attrs["axes"]))
    names = dict.fromkeys((*runs[0][0].compared_by, *axes, "seed"))
    named = [name for name in names if _is_in(name, frames)]
    differing = {name: pair for name in named if (pair := _constants(name, frames)) is not None}
    identity = [name for name in named if name not in differing]
    if any(frame.duplicated(identity).any() for frame in frames):
        identity, differing = ["key"], {}
    both, only_a, only_b = _paired(frames, identity)
    if both.empty:
        keys = ", ".join(frame.key[0] for frame in frames)
        raise UserError(f"{a} and {b} have no run in common: the first are {keys}")
    ended = both[(both.status_a != ERROR) & (both.status_b != ERROR)]
    changes = (ended.status_a + " -> " + ended.status_b)[ended.status_a != ended.status_b]
    measures = [
        name
        for name in dict.fromkeys(name for frame in frames for name in frame.attrs["measures"])
        if _is_in(name, frames)
    ]
    equal = [name for name in measures if _same(ended[f"{name}_a"], ended[f"{name}_b"])]
    unequal = [name for name in measures if name not in equal]
    drawn_by = runs[0][0].drawn_by
    by = [
        name
        for name in identity
        if name not in (*drawn_by, "seed", "key") and both[name].nunique() > 1
    ]
    return Diff(
        measures=_differences(ended, unequal, drawn_by, by),
        equal=equal,
        pairs=len(ended),
        failed=list(both.key_a.drop(ended.index)),
        only_a=only_a,
        only_b=only_b,
        statuses={str(change): int(count) for change, count in changes.value_counts().items()},
        settings=_settings(*studies) | differing,
        machines=_machines(*runs),
        text=list(
            difflib.unified_diff(
                studies[0].text.splitlines(),
                studies[1].text.splitlines(),
                str(a),
                str(b),
                lineterm="",
            )
        ),
    )


def _study(folder: Path) -> StudyRecord:
    with ResultStore.open(folder) as store:
        return store.study


def _is_in(name: str, frames: Sequence[pd.DataFrame]) -> bool:
    return all(name in frame for frame in frames)


def _constants(name: str, frames: Sequence[pd.DataFrame]) -> tuple[Any, Any] | None:
    """Return the value of A and of B if each has one alone and they differ."""
    values = [list(frame[name].unique()) for frame in frames]
    if [len(found) for found in values] != [1, 1] or values[0] == values[1]:
        return None
    (a,), (b,) = values
    return a, b


def _paired(
    frames: Sequence[pd.DataFrame], identity: Sequence[str]
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Return the pairs, columns of A ending in ``_a``, and the keys without a pair."""
    a, b = (
        frame.add_suffix(suffix).join(frame[list(identity)])
        for frame, suffix in zip(frames, ("_a", "_b"), strict=True)
    )
    both = a.merge(b, on=list(identity))
    only_a, only_b = (
        list(frame[key][~frame[key].isin(both[key])]) for frame, key in ((a, "key_a"), (b, "key_b"))
    )
    return both, only_a, only_b


def _same(a: pd.Series, b: pd.Series) -> bool:
    return bool(((a == b) | (a.isna() & b.isna())).all())


def _differences(
    pairs: pd.DataFrame, measures: Sequence[str], draws: Sequence[str], by: Sequence[str]
) -> pd.DataFrame:
    import pandas as pd

    groups = [(OVERALL, OVERALL, pairs)]
    groups += [
        (name, group[name].iloc[0], group)
        for name in by
        for _, group in pairs.dropna(subset=name).groupby(in_order(pairs[name]))
    ]
    rows = [
        {"axis": name, "value": value, "measure": measure, **found}
        for measure in measures
        for name, value, group in groups
        if (found := _difference(group, measure, draws))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _difference(pairs: pd.DataFrame, measure: str, draws: Sequence[str]) -> dict[str, float] | None:
    """Return the row of a measure over some pairs; None if in none of them both runs have it."""
    from scipy.stats import sem, t

    measured = pairs.dropna(subset=[f"{measure}_a", f"{measure}_b"])
    if measured.empty:
        return None
    values = measured[[f"{measure}_a", f"{measure}_b"]].astype(float)
    by_draw = values.groupby([measured[f"{name}_a"] for name in draws]).mean()
    mean_a, mean_b = by_draw.mean()
    differences = by_draw.iloc[:, 1] - by_draw.iloc[:, 0]
    low = high = math.nan
    if differences.nunique() > 1:
        spread = {"loc": differences.mean(), "scale": sem(differences)}
        low, high = map(float, t.interval(CONFIDENCE, len(differences) - 1, **spread))
    elif len(differences) > 1:
        low = high = float(differences.iloc[0])
    return {
        "pairs": len(measured),
        "draws": len(by_draw),
        "mean_a": float(mean_a),
        "mean_b": float(mean_b),
        "difference": float(differences.mean()),
        "low": low,
        "high": high,
        "change_percent": 100 * (mean_b / mean_a - 1) if mean_a else math.nan,
    }


def _settings(a: StudyRecord, b: StudyRecord) -> dict[str, tuple[Any, Any]]:
    both = [{"name": study.name, "runs": study.runs, **study.settings} for study in (a, b)]
    return _unequal(*both)


def _machines(a: Sequence[RunRecord], b: Sequence[RunRecord]) -> dict[str, tuple[Any, Any]]:
    return _unequal(*(_environment(runs) for runs in (a, b)))


def _environment(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return versions and machines by name, several of one name joined."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        values = {**run.versions, **{name: getattr(run, name) for name in MACHINE}}
        for name, value in values.items():
            found.setdefault(name, {})[str(value)] = None
    return {name: ", ".join(values) for name, values in found.items()}


def _unequal(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (a.get(name), b.get(name)) for name in {**a, **b} if a.get(name) != b.get(name)}


def as_json_object(diff: Diff) -> dict[str, Any]:
    """Return the object of ``diff --json``."""
    return {
        "pairs": diff.pairs,
        "method": METHOD,
        "measures": json.loads(diff.measures.to_json(orient="records", double_precision=15)),
        "equal": list(diff.equal),
        "statuses": diff.statuses,
        "failed": list(diff.failed),
        "only_a": list(diff.only_a),
        "only_b": list(diff.only_b),
        "settings": {name: _pair(pair) for name, pair in diff.settings.items()},
        "machines": {name: _pair(pair) for name, pair in diff.machines.items()},
        "text": list(diff.text),
    }


def _pair(pair: tuple[Any, Any]) -> dict[str, Any]:
    a, b = (value.item() if hasattr(value, "item") else value for value in pair)
    return {"a": a, "b": b}


def print_diff(diff: Diff, a: Path, b: Path, form: str) -> None:
    """Print tables (`form` "table"), one JSON object ("json") or the measures alone ("csv")."""
    if form == "json":
        print_json(as_json_object(diff))
    elif form == "csv":
        print(diff.measures.to_csv(index=False, lineterminator="\n"), end="")
    else:
        print(f"A: {a}\nB: {b}")
        for line in _lines(diff):
            print(line)
        if len(diff.measures):
            print_table(
                ("Axis", "", "Measure", *HEADERS),
                [_shown(row) for row in diff.measures.itertuples()],
                right=3,
            )
            print(METHOD)


HEADERS = ("Pairs", "Draws", "Mean A", "Mean B", "B - A", "95 % from", "to", "B - A (%)")


def _shown(row: Any) -> list[str]:
    numbers = (row.mean_a, row.mean_b, row.difference, row.low, row.high)
    change = f"{row.change_percent:+.1f}" if row.change_percent == row.change_percent else "–"
    return [
        *(str(row.axis), str(row.value), row.measure, str(row.pairs), str(row.draws)),
        *(f"{number:.5g}" if number == number else "–" for number in numbers),
        change,
    ]


def _lines(diff: Diff) -> Iterator[str]:
    """Yield all but the table, in words."""
    yield f"{diff.pairs} pairs of runs."
    for what, keys in (
        ("Failed in one or both", diff.failed),
        ("Only in A", diff.only_a),
        ("Only in B", diff.only_b),
    ):
        if keys:
            yield f"{what}: {len(keys)} runs"
            yield from (f"  {key}" for key in keys[:SHOWN])
            if len(keys) > SHOWN:
                yield f"  and {len(keys) - SHOWN} more"
    for name, (of_a, of_b) in {**diff.settings, **diff.machines}.items():
        yield f"{name}: {of_a} -> {of_b}"
    if diff.machines:
        yield "Versions or machines differ: differences of times are those of the machines too."
    if diff.text:
        yield from diff.text[:SHOWN]
        if len(diff.text) > SHOWN:
            yield f"and {len(diff.text) - SHOWN} lines more"
    for change, count in diff.statuses.items():
        yield f"{change}: {count} pairs"
    if diff.equal:
        yield f"Equal in all pairs: {', '.join(diff.equal)}"
