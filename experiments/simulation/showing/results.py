"""The results of replays as printed tables and as data frames."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING

from lyra_opt.commands.output import print_formatted, print_line, print_table
from lyra_opt.core.errors import methods_without_inner_frames, one_line
from lyra_opt.core.numbers import DOWN, alike, three_digits
from lyra_opt.core.plotting import drawn_figure
from lyra_opt.core.table import Column, Table, text_of_tables
from lyra_opt.core.texts import PrintedText
from lyra_opt.experiments.frames import frame_of
from lyra_opt.experiments.random_inputs import random_inputs, require_baseline
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.measuring.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.measuring.comparison import (
    MAIN_MEASURES,
    cell_of,
    differences,
    differences_table,
    known_values,
    main_rows,
    method_in_words,
    rows_of,
    shown_as,
)
from lyra_opt.experiments.simulation.measuring.measures import (
    MEASURES,
    assumptions_of,
    measure_named,
    with_seeds,
)
from lyra_opt.experiments.simulation.showing.figures import figure_of
from lyra_opt.experiments.tables import table_of_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from lyra_opt.experiments.simulation.measuring.comparison import ShownValue
    from lyra_opt.experiments.simulation.measuring.measures import VariantRuns
    from lyra_opt.experiments.simulation.running.replays import Replays
    from lyra_opt.experiments.simulation.scenario.loading import Scenario

COSTS = ("wall_time_s", "cpu_time_s", "peak_memory_mib")
"""Columns with the cost of the replay itself."""


PAPER_MEASURES = (
    *("jct_mean_s", "jct_p95_s", "queue_mean_s", "preemptions"),
    *("training_usage_while_submitting", "gpu_usage"),
)
"""The columns of tables for papers, unless others are chosen; those without values are left out."""


def results_tables(
    replays: Replays, baseline: str | None = None, form: str = "table", measures: Sequence[str] = ()
) -> list[Table]:
    """Return the means of the main measures for each variant, and the differences of its schemes.

    ``baseline`` is the scheme with which the others are compared; None for the first scheme.
    ``measures`` are the keys of the measures to show. Markdown and LaTeX have a row per scheme.
    """
    means = _paper_table if form in ("markdown", "latex") else _means_table
    tables = []
    for variant in replays.variants:
        table = means(replays, variant, measures or None)
        comments = filter(None, [_reading_of_bounds(variant.runs), *assumptions_of([variant])])
        tables.append(replace(table, comments=list(comments)))
        if found := differences(variant, replays.jobs, baseline):
            table = differences_table(found)
            title = f"{table.title}. {method_in_words(found)}"
            note = f"{table.title[0].lower()}{table.title[1:]}"
            case = _name(replays, variant)
            tables.append(replace(table, title=title, note=note, case=case))
    return tables


def _reading_of_bounds(runs: Sequence[ReplayRecord]) -> str:
    """Return a sentence on the reading to which the proved bounds apply; empty without bounds."""
    readings = sorted(
        {each["bound_reading"] for run in runs if MEAN_JCT in (each := run.figures or {})}
    )
    if not readings:
        return ""
    return (
        f"The proved bounds apply to the reading {' or '.join(readings)}, see "
        '"lyra-opt bound --help".'
    )


def _name(replays: Replays, variant: VariantRuns) -> str:
    return variant.name or f"scenario {replays.study.name}"


def _title(replays: Replays, variant: VariantRuns) -> str:
    first, seeds = variant.runs[0], len(variant.seeds)
    where = f"{first.workload} on {first.cluster}"
    if seeds > 1:
        where = f"on {first.cluster}, means over {seeds} seeds (least – greatest)"
    title = ", ".join(filter(None, [f"scenario {replays.study.name}", variant.name, where]))
    return "; ".join(filter(None, [title, variant.lacking_in_words]))


def _paper_table(replays: Replays, variant: VariantRuns, keys: Sequence[str] | None) -> Table:
    """Return a row per scheme and proved bound, and a column per measure, narrow enough to print.

    All values of a column have the same number of decimals.
    """

    def largest(key: str) -> float:
        return max(known_values(key, replays.runs), default=0)

    measures = [
        measure
        for measure in map(measure_named, keys or PAPER_MEASURES)
        if keys is not None or known_values(measure.key, replays.runs)
    ]
    bounds = {each.key: f"{each.key.removesuffix('_s')}_bound_s" for each in measures}
    rows = variant.by_scheme
    by_reading: dict[str, dict[int, ReplayRecord]] = {}
    for run in variant.runs:
        if any(known_values(key, [run]) for key in bounds.values()):
            by_reading.setdefault((run.figures or {})["bound_reading"], {})[run.seed] = run
    columns = []
    for measure in measures:
        name, unit, show = shown_as(measure, largest)
        places = [(measure.key, runs) for runs in rows.values()]
        places += [(bounds[measure.key], [*of_seed.values()]) for of_seed in by_reading.values()]
        known = [value for place in places for value in known_values(*place)]
        if all(isinstance(value, int | float) for value in known):
            means = [cell_of(key, runs, show).value for key, runs in places]
            show = alike(show, [*known, *means])
        shows = [show] * len(rows) + [partial(show, rounding=DOWN)] * len(by_reading)
        cells = [cell_of(*place, each) for place, each in zip(places, shows, strict=True)]
        columns.append(_column(measure.key, name, cells, unit, dash="–"))
    several = len(by_reading) > 1
    last = [f"proved lower bound{f' ({each})' if several else ''}" for each in by_reading]
    counts = map(len, by_reading.values())
    labelled = map(partial(with_seeds, every=variant.every_seed), last, counts)
    texts = [*map(variant.label, rows), *labelled]
    names = Column(key="scheme", values=[*rows, *last], heading="", texts=texts)
    seeds = len(variant.seeds)
    note = f"means and, in brackets, least to greatest of {seeds} seeds" if seeds > 1 else ""
    case = _name(replays, variant)
    return Table([names, *columns], _title(replays, variant), note=note, case=case)


def _means_table(
    replays: Replays, variant: VariantRuns, keys: Sequence[str] | None, *, has_all: bool = False
) -> Table:
    """Return a row per measure and a column per scheme: means over seeds, with their range."""
    rows = rows_of(variant, replays.runs)
    if keys is not None:
        by_key = {row.key: row for row in rows}
        rows = [by_key[key] for key in keys if key in by_key]
    elif not has_all:
        rows = main_rows(rows)
    names = [f"{row.name} ({row.unit})" if row.unit else row.name for row in rows]
    columns = [Column(key="measure", values=names, heading="")]
    for place, scheme in enumerate(variant.by_scheme):
        cells = [row.cells[place] for row in rows]
        columns.append(_column(scheme, variant.label(scheme), cells))
    return Table(columns, _title(replays, variant))


def _column(
    key: str, heading: str, cells: Sequence[ShownValue], unit: str = "", dash: str = " – "
) -> Column:
    """Return cells as a column of a table; ``dash`` stands within their ranges."""
    values = [cell.value for cell in cells]
    texts = [cell.with_spread.replace(" – ", dash) for cell in cells]
    return Column(
        key=key, values=values, show=three_digits, heading=heading, unit=unit, texts=texts
    )


def print_replays(
    replays: Replays, form: str = "table", baseline: str | None = None, measures: Sequence[str] = ()
) -> None:
    """Print the means of all schemes and their differences; JSON and CSV have every replay instead.

    A terminal shows all measures, and what is assumed. ``baseline`` and ``measures`` are those of
    `results_tables`.
    """
    if form == "csv":
        print(table_of_frame(replays_frame(replays)).text(form), end="")
        return
    figures = [
        ({"axes": run.point} if run.point else {}) | dict(run.figures or {}) for run in replays.runs
    ]
    document = figures[0] if replays.study.runs == 1 else figures
    if print_formatted(form, results_tables(replays, baseline, form, measures), document):
        return
    for variant in replays.variants:
        table = _means_table(replays, variant, measures or None, has_all=True)
        print_line(f"{table.title}:")
        print_table(table, None)
        if found := differences(variant, replays.jobs, baseline):
            table = differences_table(found)
            print(f"{table.title}:")
            print_table(table, None)
            print_line(method_in_words(found))
        elif varied := random_inputs(variant.runs).in_words:
            print_line(varied)
    if reading := _reading_of_bounds(replays.runs):
        print_line(reading)
    print("What is assumed:")
    for sentence in assumptions_of(replays.variants):
        print_line(f"- {sentence}", indent="  ")


def replays_frame(replays: Replays) -> pd.DataFrame:
    """Return a data frame with a row per replay; see `Runs.frame`."""
    frame = frame_of(sorted((*replays.runs, *replays.failed), key=lambda run: run.position))
    axes = [name for name in frame.attrs["axes"] if name != "scheme"]
    main = [key for key in MAIN_MEASURES if key in frame]
    first = ["scheme", *axes, "seed", "status", *main]
    measured = [measure.key for measure in MEASURES if measure.key in frame]
    last = [*COSTS, "workload", "cluster", "message"]
    others = {*first, *measured, *last, *(field.name for field in fields(ReplayRecord))}
    figures = [name for name in frame.columns if name not in others]
    return frame[[*dict.fromkeys([*first, *measured, *figures, *last])]]


@methods_without_inner_frames
@dataclass(frozen=True, repr=False, eq=False)
class Runs:
    """The results of `simulate`: data frames, tables for papers, and pictures.

    Printed, it shows the main measures of all schemes side by side, and the failed replays. The
    data frames are ``frame`` (a row per replay), ``jobs`` (per job) and ``series`` (the state of
    the cluster over time). ``summary("latex")`` writes a table, ``differences()`` compares the
    schemes with one of them, and ``plot()`` draws them. `simulate` and `tune` make such objects.

    Parameters
    ----------
    replays
        The rows of the store.
    scenario
        The scenario, with the objects that replace parts of it.
    schemes
        Labels of the scenario's schemes, or names of other schemes, that were replayed; empty for
        all of the scenario's schemes.
    """

    replays: Replays
    scenario: Scenario
    schemes: tuple[str, ...] = ()

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A row per replay, including failed replays, in the order of the scenario.

        Columns: ``scheme``, the axes of the scenario, ``seed`` and ``status``; the main measures,
        such as ``jct_mean_s``, ``queue_mean_s`` and ``preemptions``; all other figures of
        ``simulate --format json`` (docs/formats/simulation.md), with units in their names;
        ``wall_time_s``,
        ``cpu_time_s`` and ``peak_memory_mib`` of the replay itself; ``workload``, ``cluster`` and,
        for failed replays, ``message``. Missing values are NaN.
        """
        return replays_frame(self.replays)

    def summary(
        self,
        format: str = "table",  # noqa: A002 - the name of the option
        measures: Sequence[str] = (),
    ) -> str:
        """Return the main measures of all schemes, side by side, as text.

        Parameters
        ----------
        format
            ``"table"``, ``"markdown"`` or ``"latex"``, with the digits that a paper would print;
            ``"json"`` and ``"csv"`` have a row per replay in full precision, as in `frame`.
        measures
            The measures to show instead of the main ones, as columns of `frame` are named; ``json``
            and ``csv`` have all.

        Raises
        ------
        UserError
            If a format or a measure is unknown.
        """
        if format in ("json", "csv"):
            return PrintedText(table_of_frame(self.frame).text(format))
        tables = results_tables(self.replays, form=format, measures=list(measures))
        failures = self._failures() if format == "table" else []
        return PrintedText("\n".join([text_of_tables(tables, format), *failures]))

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """A row per job and finished replay: the inputs of the job, and its outcome.

        Columns: ``scheme``, the axes and ``seed``; then the columns of ``jobs.csv.gz``
        (docs/formats/results.md): ``job_id``, ``submit_s``, ``start_s``,
        ``completion_s``, ``queued_s``, ``jct_s``, ``preemptions`` and so on.
        """
        return self._of_all(self.replays.jobs)

    @cached_property
    def series(self) -> pd.DataFrame:
        """A data frame of the cluster's mean state from each time to the next, by replay.

        Columns: ``scheme``, the axes and ``seed``; then the columns of ``series.csv.gz``
        (docs/formats/results.md): ``time_s``, ``queued_jobs``, ``running_jobs``,
        ``own_gpus_held`` and so on.
        """
        return self._of_all(self.replays.series)

    def differences(self, baseline: str | None = None) -> pd.DataFrame:
        """Return the differences of the mean JCT and queuing time from a baseline scheme.

        It has a row for each variant, scheme and mean. Columns: the axes; ``scheme``; ``measure``;
        ``seeds``, the number of seeds with which both schemes finished; ``difference_s`` with the
        ends ``low_s`` and ``high_s`` of its 95 % interval; and the same three in % of the baseline.
        The frame's ``attrs["method"]`` says how the intervals are computed.

        Parameters
        ----------
        baseline
            Label of the scheme with which the others are compared; None for the first scheme.

        Raises
        ------
        UserError
            If no scheme has this label.
        """
        import pandas as pd

        require_baseline(baseline, self.replays.schemes)
        tables, methods, ends = [], [], ("low", "high")
        for variant in self.replays.variants:
            if found := differences(variant, self.replays.jobs, baseline):
                table = differences_table(found).frame()
                table.insert(2, "seeds", [each.seeds for each in found])
                for position, (name, value) in enumerate(variant.runs[0].point.items()):
                    table.insert(position, name, value)
                tables.append(table)
                methods.append(method_in_words(found))
                ends = found[0].random.ends_in_words
        frame = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
        frame.attrs |= {"method": " ".join(dict.fromkeys(methods)), "ends": ends}
        return frame

    def plot(
        self, picture: str = "overview", *, style: str = "page", file: str | Path | None = None
    ) -> Figure:
        """Return a picture of the replays, by default the distributions of times and the GPUs held.

        The overview has a row of panels for each of the first variants. The times are those of the
        jobs of all seeds; the GPUs are those of the first seed.

        Parameters
        ----------
        picture
            ``overview``, or a plot of the page: ``time_parts``, ``differences``, ``over_axis_1``,
            ``distributions``, ``over_time``, ``jobs`` or ``decision``.
        style, file
            As for `lyra_opt.plot`.

        Raises
        ------
        UserError
            If no replay finished, these replays have no such picture, or the file cannot be
            written.
        """
        return drawn_figure(lambda: figure_of(self.replays, picture), style, file)

    def __repr__(self) -> str:
        """Return the main measures of all schemes, side by side, as text."""
        tables = results_tables(self.replays)
        return "\n\n".join(
            [*(f"{each.title}\n{each.text()}".rstrip() for each in tables), *self._failures()]
        )

    def _repr_html_(self) -> str:
        tables = results_tables(self.replays)
        return "".join(
            [
                *(each.html() for each in tables),
                *(f"<p>{escape(line)}</p>" for line in self._failures()),
            ]
        )

    def _failures(self) -> list[str]:
        return [f"failed: {run.key}: {one_line(run.message or '')}" for run in self.replays.failed]

    def _of_all(self, table_of: Callable[[ReplayRecord], pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd

        tables = []
        for run in self.replays.runs:
            table = table_of(run)
            keys = {"scheme": run.scheme, **run.point, "seed": run.seed}
            for position, (key, value) in enumerate(keys.items()):
                table.insert(position, key, value)
            tables.append(table)
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
