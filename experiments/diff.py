"""Compare two folders of results, or two schemes or solvers of one folder, run by run."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.output import print_line, print_table
from lyra_opt.core.csv_text import read_frame
from lyra_opt.core.errors import UserError, counted
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.numbers import count, three_digits
from lyra_opt.core.table import Column, Table
from lyra_opt.core.texts import words
from lyra_opt.experiments.frames import frame_of, in_order, stored_runs
from lyra_opt.experiments.random_inputs import (
    DRAW_AXIS,
    Paired,
    RandomInputs,
    Sample,
    paired_columns,
    paired_table,
    random_inputs,
)
from lyra_opt.experiments.records import ERROR, ReplayRecord, RunRecord
from lyra_opt.experiments.simulation.measuring.comparison import (
    ABOVE_BOUND,
    MAIN_MEASURES,
    shown_as,
)
from lyra_opt.experiments.simulation.measuring.measures import COMPARED, MEASURES
from lyra_opt.experiments.simulation.scenario.documents import CASE
from lyra_opt.experiments.store import ResultStore, table_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import pandas as pd

SHOWN = 10
"""Number of runs, or lines of a file, that the terminal lists."""

MACHINE = ("cpu", "cores", "platform")
COLUMNS = ("axis", "value", "measure", "pairs", "draws", *Paired._fields)

Unequal = dict[str, dict[str, Any]]
"""Values that differ between ``a`` and ``b``, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The differences between two groups of results, A and B.

    Parameters
    ----------
    pairs
        Number of pairs of runs in which neither run failed.
    measures
        Rows for each measure that differs in some pair: overall (``axis`` is empty), then for each
        value of each axis. Pairs of different traces are not pooled in a row. Columns: number of
        ``pairs`` in which both runs have the measure, number of ``draws``, means over the draws,
        B - A with its interval, and the same in % of A.
    unchanged
        Rows as in ``measures`` for the measures that are equal in every pair.
    statuses
        Number of pairs by change of status, such as "feasible -> optimal".
    failed
        Keys of runs that failed in A or B.
    only_a, only_b
        Keys of runs without a matching run in the other group.
    settings
        Settings that differ between the studies, and columns with one value in A and another in B.
    machines
        Versions and machines that differ.
    text
        Lines of a unified diff of the study or scenario files.
    randoms
        For each row of the measures what is random, which decides how its interval is computed,
        and the number of random units.
    a, b
        Names of the two groups: folders, or values of a property.
    """

    pairs: int
    measures: pd.DataFrame
    unchanged: pd.DataFrame
    statuses: Mapping[str, int]
    failed: Sequence[str]
    only_a: Sequence[str]
    only_b: Sequence[str]
    settings: Unequal
    machines: Unequal
    text: Sequence[str]
    randoms: Sequence[tuple[RandomInputs, int]]
    a: str
    b: str

    @property
    def equal(self) -> list[str]:
        """The names of the measures that are equal in every pair."""
        return list(dict.fromkeys(self.unchanged.measure))

    @property
    def method(self) -> str:
        """Sentences on what is random, and how the intervals are computed."""
        counts: dict[RandomInputs, list[int]] = {}
        values: dict[RandomInputs, dict[str, None]] = {}
        for (random, units), value in zip(self.randoms, self.measures.value, strict=True):
            counts.setdefault(random, []).append(units)
            values.setdefault(random, {})[str(value)] = None
        names: dict[str, dict[str, None]] = {}
        for random, found in counts.items():
            names.setdefault(random.method(found), {}).update(values[random])
        if len(names) == 1 or len({*values} - {RandomInputs(Sample.JOBS)}) <= 1:
            return " ".join(names)
        return " ".join(
            f"{', '.join(value or 'all' for value in found)}: {sentence}"
            for sentence, found in names.items()
        )

    def as_json_object(self) -> dict[str, Any]:
        """Return the object that ``diff --format json`` prints."""
        units = dict.fromkeys(str(random.unit) for random, _ in self.randoms)
        return (
            {"method": self.method, "random": ", ".join(units)}
            | {
                field.name: getattr(self, field.name)
                for field in fields(Diff)
                if field.name not in ("measures", "unchanged", "randoms")
            }
            | {"equal": self.equal, "measures": self.table().records()}
        )

    def table(self) -> Table:
        """Return the measures that differ as a table, with the digits of other tables."""
        known = {each.key: each for each in MEASURES}
        keys = list(self.measures.measure)
        largest = self.measures.groupby("measure")[["mean_a", "mean_b"]].max().max(axis=1)
        names, shows = [], []
        for key in keys:
            if key in known:
                own = largest[key]
                name, unit, show = shown_as(known[key], partial(largest.get, default=own))
                names.append(f"{name} ({unit})" if unit else name)
                shows.append(show)
            else:
                written = words(key)
                names.append(written[0].upper() + written[1:])
                shows.append(three_digits)

        rows = [Paired(*row) for row in self.measures[list(Paired._fields)].itertuples(index=False)]
        return Table(
            [
                Column(key="axis", values=list(self.measures.axis)),
                Column(key="value", values=list(self.measures.value)),
                Column(key="measure", values=keys, texts=names),
                Column(key="pairs", values=list(self.measures.pairs), show=count),
                Column(key="draws", values=list(self.measures.draws), show=count),
                *paired_columns(rows, shows, self.headed, names=(self.a, self.b)),
            ]
        )

    @property
    def headed(self) -> RandomInputs:
        """The random inputs that the headings of intervals follow: the first with intervals."""
        random = [random for random, _ in self.randoms] or [RandomInputs()]
        return next((each for each in random if each.has_intervals), random[0])

    def shown(self) -> Table:
        """Return the table for people: without columns that say nothing."""
        table = self.table()
        return table if any(self.measures.axis) else replace(table, columns=table.columns[2:])

    @property
    def main(self) -> Diff:
        """The comparison of the main measures, if they are replays; else the whole comparison."""
        keys = self.measures.measure
        is_main = keys.isin(MAIN_MEASURES) | keys.str.startswith("queue_priority_")
        if not is_main.any():
            return self
        randoms = [each for each, kept in zip(self.randoms, is_main, strict=True) if kept]
        return replace(self, measures=self.measures[is_main], randoms=randoms)

    def for_papers(self) -> list[Table]:
        """Return the rows of the main measures, with the method as title.

        The numbers of pairs and draws are left out if they are the same in all rows. If each row
        belongs to a value of one axis, as with the cases of a scenario, each value has a table.
        """
        main = self.main
        columns = [
            each
            for each in main.shown().columns
            if each.key not in ("pairs", "draws") or len({*each.values}) > 1
        ]
        title = f"{self.b} compared with {self.a}"
        end = f". {main.method}"
        if alone := len(self.failed) + len(self.only_a) + len(self.only_b):
            end += f" Left out: {counted(alone, 'run')} that failed or have no partner."
        axes = set(main.measures.axis) - {""}
        if len(axes) != 1 or "" in set(main.measures.axis):
            return [paired_table(columns, main.headed, f"{title}{end}")]
        (axis,) = axes
        places: dict[Any, list[int]] = {}
        for place, value in enumerate(main.measures.value):
            places.setdefault(value, []).append(place)
        tables = []
        for value, kept in places.items():
            case = str(value) if axis == CASE else f"{axis} = {value}"
            of_case = [each.of_rows(kept) for each in columns[2:]]
            table = paired_table(of_case, main.headed, f"{title}, {case}{end}")
            tables.append(replace(table, case=case))
            end = ""
        return tables


def compare_folders(
    a: Path, b: Path | None = None, *, by: tuple[str, str, str] | None = None
) -> Diff:
    """Compare the runs of two folders, or the runs with two values of a property in one folder.

    Parameters
    ----------
    a, b
        Folders of results. Their runs are paired by their keys. If the folders have no key in
        common, runs are paired by the columns that describe a run, except columns with one value in
        all of A and another in all of B, such as the scheme.
    by
        Instead of ``b``: a property and two of its values, such as ``("scheme", "fifo", "lyra")``.
        The property is "scheme" for replays, "solver" for studies, or an axis. Runs are paired by
        their other properties.

    Raises
    ------
    UserError
        If a folder has no runs, the kinds of runs differ, the property or a value does not exist,
        or no pair exists.
    """
    if (b is None) == (by is None):
        raise UserError("diff: needs a second folder, or --by PROPERTY A B")
    folders = [a] if b is None else [a, b]
    studies = []
    for folder in folders:
        with ResultStore.open(folder) as store:
            studies.append(store.study)
    if studies[0].kind != studies[-1].kind:
        raise UserError(f"{b}: has runs of kind {studies[-1].kind}, but {a} has {studies[0].kind}")
    runs = [stored_runs(folder) for folder in folders]
    frames = [frame_of(of_folder) for of_folder in runs]
    kind, axes, measures = runs[0][0], frames[0].attrs["axes"], frames[0].attrs["measures"]
    named = list(dict.fromkeys((*kind.compared_by, *axes)))
    if by is not None:
        column, frames = _with_values(frames[0], by, axes, kind)
        # The names of an instance and of a workload can contain the values of an axis.
        left_out = {column} if column in kind.compared_by else {column, *kind.drawn_by}
        named = [name for name in named if name not in left_out]
    of_both = frames[0].columns.intersection(frames[-1].columns)
    named = [name for name in named if name in of_both]
    ended = [frame[frame.status != ERROR] for frame in frames]
    settings = {} if by else _constants([*named, "seed"], ended)
    identity = ["key"]
    if by or not frames[0].key.isin(frames[1].key).any():
        identity = [name for name in (*named, "seed") if name not in settings]
    both = _paired(ended, identity)
    if both is None:
        what = f"{a} and {b}" if by is None else f"{a}: {by[1]} and {by[2]}"
        first, other = (frame.key.iloc[0] for frame in frames)
        raise UserError(f"{what} have no runs in common. A has {first}, B has {other}")
    failed = [frame.key[frame.status == ERROR] for frame in frames]
    only = [
        list(own.key[~own.key.isin(both[key]) & ~own.key.isin(theirs)])
        for own, theirs, key in ((ended[0], failed[1], "key_a"), (ended[1], failed[0], "key_b"))
    ]
    measures = [name for name in measures if name in of_both]
    equal = [name for name in measures if _same(both[f"{name}_a"], both[f"{name}_b"])]
    split_by = _that_split(both, [name for name in named if name not in kind.drawn_by], axes)
    changes = (both.status_a + " -> " + both.status_b)[both.status_a != both.status_b]
    texts = [study.text.splitlines() for study in studies]
    unified = difflib.unified_diff(texts[0], texts[-1], str(a), str(b), lineterm="")
    costs = (*RunRecord.measures, "jobs_per_cpu_s") if isinstance(kind, ReplayRecord) else ()
    differing = sorted(set(measures) - {*equal, ABOVE_BOUND}, key=measures.index)
    found, randoms = _differences(
        both,
        [*sorted(differing, key=lambda name: name in costs), *equal],
        kind,
        split_by,
        runs[0],
        [folders[0], folders[-1]],
    )
    is_equal = found.measure.isin(equal)
    described = [{"name": each.name, "runs": each.runs, **each.settings} for each in studies]
    environments = [_environment(of_folder) for of_folder in runs]
    return Diff(
        pairs=len(both),
        measures=found[~is_equal],
        unchanged=found[is_equal],
        statuses={str(change): int(count) for change, count in changes.value_counts().items()},
        failed=list(dict.fromkeys([*failed[0], *failed[1]])),
        only_a=only[0],
        only_b=only[1],
        settings=settings | _unequal(described[0], described[-1]),
        machines=_unequal(environments[0], environments[-1]),
        text=list(unified),
        randoms=randoms[: len(found) - is_equal.sum()],
        a=str(a) if by is None else by[1],
        b=str(b) if by is None else by[2],
    )


def _random_inputs(runs: Sequence[RunRecord]) -> RandomInputs:
    """Return the random unit of the runs of a folder, judged by its largest group of seeds."""
    groups: dict[object, list[ReplayRecord]] = {}
    for run in runs:
        if isinstance(run, ReplayRecord) and run.status != ERROR:
            fixed = [(name, value) for name, value in run.axes.items() if name != DRAW_AXIS]
            groups.setdefault((run.scheme, *fixed), []).append(run)
    if not groups:
        return RandomInputs(Sample.INSTANCES)
    return random_inputs(max(groups.values(), key=len))


def _with_values(
    frame: pd.DataFrame, by: tuple[str, str, str], axes: Sequence[str], kind: RunRecord
) -> tuple[str, list[pd.DataFrame]]:
    """Return the column that a property names, and the rows with each of its two values."""
    names = {"configuration": "solver"}
    columns = {names.get(name, name): name for name in (*kind.compared_by, *axes)}
    varied = [name for name, column in columns.items() if frame[column].nunique() > 1]
    if by[0] not in varied:
        raise UserError(f"by {by[0]}: is not a property that differs; {meant(by[0], varied)}")
    column = columns[by[0]]
    texts = frame[column].astype(str)
    for value in by[1:]:
        if not (texts == value).any():
            raise UserError(f"by {by[0]}: has no value {value}; {meant(value, texts.unique())}")
    if by[1] == by[2]:
        raise UserError(f"by {by[0]}: {by[1]} is named twice; name two values")
    return column, [frame[texts == value] for value in by[1:]]


def _constants(names: Sequence[str], frames: Sequence[pd.DataFrame]) -> Unequal:
    """Return the columns with one value in the whole first frame and another in the second."""
    found = {}
    for name in names:
        a, b = (frame[name].unique().tolist() for frame in frames)
        if len(a) == len(b) == 1 and a != b:
            found[name] = {"a": a[0], "b": b[0]}
    return found


def _paired(frames: Sequence[pd.DataFrame], identity: Sequence[str]) -> pd.DataFrame | None:
    """Return a frame with one row per pair of matching runs; None if no unique pairing exists.

    The columns of the two runs end in ``_a`` and ``_b``.
    """
    if any(frame.duplicated(identity).any() for frame in frames):
        return None
    a, b = (
        frame.add_suffix(suffix).join(frame[list(identity)])
        for frame, suffix in zip(frames, ("_a", "_b"), strict=True)
    )
    both = a.merge(b, on=list(identity))
    return None if both.empty else both


def _that_split(pairs: pd.DataFrame, names: Sequence[str], axes: Sequence[str]) -> list[str]:
    """Return the columns that split the pairs in different ways, preferably axes."""
    found: dict[tuple[int, ...], str] = {}
    for name in sorted(names, key=lambda name: name not in axes):
        split = tuple(pairs[f"{name}_a"].factorize()[0])
        if len(set(split)) > 1:
            found.setdefault(split, name)
    return [name for name in names if name in found.values()]


def _pools(pairs: pd.DataFrame, kind: RunRecord) -> bool:
    """Return whether the pairs replay different jobs although their seeds and draws agree."""
    draw = [name for name in ("seed_a", f"{DRAW_AXIS}_a") if name in pairs]
    return isinstance(kind, ReplayRecord) and bool(
        (pairs.groupby(draw).workload_a.nunique() > 1).any()
    )


def _same(a: pd.Series, b: pd.Series) -> bool:
    return bool(((a == b) | (a.isna() & b.isna())).all())


def _differences(
    pairs: pd.DataFrame,
    measures: Sequence[str],
    kind: RunRecord,
    by: Sequence[str],
    runs: Sequence[RunRecord],
    folders: Sequence[Path],
) -> tuple[pd.DataFrame, list[tuple[RandomInputs, int]]]:
    """Return the rows of `Diff.measures`; for each, what is random and the number of such units.

    Pairs that replay different traces, such as the cases of a scenario, do not form a sample.
    They are not pooled, but compared for each value of an axis that distinguishes them, or else for
    each combination of such values.
    """
    import pandas as pd

    groups: list[tuple[str, Any, pd.DataFrame]] = [("", "", pairs)]
    for name in by:
        of_axis = pairs.dropna(subset=f"{name}_a").groupby(in_order(pairs[f"{name}_a"]))
        groups += [(name, group[f"{name}_a"].iloc[0], group) for _, group in of_axis]
    if by:
        groups = [each for each in groups if not _pools(each[2], kind)] or [
            (", ".join(by), ", ".join(map(str, value)), group)
            for value, group in pairs.groupby([f"{name}_a" for name in by], sort=False)
        ]
    by_key = {run.key: run for run in runs}
    of_group = [_random_inputs([by_key[key] for key in group.key_a]) for *_, group in groups]
    rows, randoms = [], []
    for measure in measures:
        for (name, value, group), random in zip(groups, of_group, strict=True):
            columns = [f"{measure}_a", f"{measure}_b"]
            measured = group.dropna(subset=columns)
            if measured.empty:
                continue
            draws = [measured[f"{each}_a"] for each in kind.drawn_by]
            a, b = measured[columns].astype(float).groupby(draws).mean().to_numpy().T
            units, paired = len(a), random.paired(a, b)
            if len(measured) == 1 and (of_jobs := _jobs_of(folders, measured, measure)):
                random = RandomInputs(Sample.JOBS)
                paired, units = random.paired(*of_jobs), len(of_jobs[0])
            counts = {"pairs": len(measured), "draws": len(a)}
            of_row = {"axis": name, "value": value, "measure": measure}
            rows.append({**of_row, **counts, **paired._asdict()})
            randoms.append((random, units))
    return pd.DataFrame(rows, columns=list(COLUMNS)), randoms


def _jobs_of(
    folders: Sequence[Path], pair: pd.DataFrame, measure: str
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a time of each job in the two replays of a pair; None if they have other jobs."""
    column = {each.key: each.column for each in COMPARED}.get(measure)
    keys = (pair.key_a.iloc[0], pair.key_b.iloc[0])
    paths = [table_path(*each, "jobs") for each in zip(folders, keys, strict=True)]
    if column is None or not all(path.exists() for path in paths):
        return None
    a, b = (read_frame(path, {"job_id": str}).set_index("job_id")[column] for path in paths)
    if len(a) < 2 or not a.index.sort_values().equals(b.index.sort_values()):
        return None
    return a.to_numpy(), b.loc[a.index].to_numpy()


def _environment(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return versions and machines by name; several values of a name are joined."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        values = {**run.versions, **{name: getattr(run, name) for name in MACHINE}}
        for name, value in values.items():
            found.setdefault(name, {})[str(value)] = None
    return {name: ", ".join(values) for name, values in found.items()}


def _unequal(a: Mapping[str, Any], b: Mapping[str, Any]) -> Unequal:
    return {
        name: {"a": a.get(name), "b": b.get(name)}
        for name in {**a, **b}
        if a.get(name) != b.get(name)
    }


def print_diff(diff: Diff) -> None:
    """Print the comparison of A and B as readable text."""
    print(f"A: {diff.a}\nB: {diff.b}")
    for line in _lines(diff):
        print_line(line, indent="    ")
    if len(diff.measures):
        print_table(diff.shown(), None)
        print_line(diff.method)
    if diff.equal:
        print_line(f"Equal in all pairs: {', '.join(diff.equal)}", indent="    ")
    elif not len(diff.measures):
        print("No measure has a value in both runs of a pair, so nothing is compared.")


def _lines(diff: Diff) -> Iterator[str]:
    """Yield the lines that `print_diff` prints before the table of measures."""
    yield f"{counted(diff.pairs, 'pair')} of runs."
    lists = (
        ("Failed in A or B", diff.failed),
        ("Only in A", diff.only_a),
        ("Only in B", diff.only_b),
        ("Lines that differ between the files", diff.text),
    )
    for what, entries in lists:
        if entries:
            yield f"{what}: {len(entries)}"
            yield from (f"  {entry}" for entry in entries[:SHOWN])
            if len(entries) > SHOWN:
                yield f"  and {len(entries) - SHOWN} more"
    for name, values in (diff.settings | diff.machines).items():
        yield f"{name}: {values['a']} -> {values['b']}"
    if diff.machines:
        yield "Versions or machines differ, which affects the differences of times."
    for change, pairs in diff.statuses.items():
        yield f"{change}: {pairs} pairs"
