"""From a paper's file and its replays to its tables and figures beside ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import UserError
from lyra_opt.paper_figures.comparison import Comparison, Entry
from lyra_opt.paper_figures.document import EXACT, GAIN, MORE, REDUCTION, SOURCES
from lyra_opt.paper_figures.results import Part, Results, mean_and_spread, paired_gain
from lyra_opt.paper_figures.setting import Draw, Run, frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lyra_opt.paper_figures.comparison import Table
    from lyra_opt.paper_figures.document import (
        Call,
        ColumnTable,
        Measure,
        PublicationTable,
        RowTable,
    )
    from lyra_opt.paper_figures.results import Spread
    from lyra_opt.paper_figures.setting import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a function of a paper returns for a table or figure.

    Parameters
    ----------
    values
        Ours by row and column, with the least and the greatest; None for what was not run.
    findings, tables, series
        As `Comparison` has them.
    """

    values: Mapping[tuple[str, str], tuple[float | None, Spread]] = field(default_factory=dict)
    findings: Sequence[str] = ()
    tables: Sequence[Table] = ()
    series: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)


def name_of(paper: str, publication: PublicationTable) -> str:
    """Return the name of the page of a table or figure."""
    return f"{paper}-{publication.kind}-{publication.number}"


def runs_of(setting: Setting, publication: PublicationTable) -> Iterator[tuple[Run, Draw]]:
    """Yield every replay that a table is made of, those that cannot be made left out."""
    part = Part(publication, Results(setting, None))
    runs = [run for row in publication.rows for run in _runs_of_row(part, row)]
    runs += [part.run(name) for name in publication.also]
    runs += [
        Run(scenario=scenario, scheme=scheme, changes=frozen(product.changes))
        for product in publication.products
        for scenario in product.scenarios
        for scheme in product.schemes
    ]
    for run in dict.fromkeys(runs):
        if setting.is_there(run):
            yield from ((run, draw) for draw in setting.draws(publication))


def _runs_of_row(part: Part, row: RowTable) -> Iterator[Run]:
    for column, paper in zip(part.publication.columns, row.paper, strict=True):
        measure = column.measure or row.measure
        if (paper or row.hidden) and measure is not None:
            yield _run(part, row, column)
            if measure.beside:
                yield part.run(measure.beside)
            if (over := _over(part.publication, row, column)) is not None:
                yield part.run(over)


def compared(results: Results, publication: PublicationTable) -> Comparison:
    """Return a table or figure beside ours."""
    part = Part(publication, results)
    found = Found()
    if publication.computed is not None:
        found = called(part, publication.computed)
    grid = _Grid(part, found)
    return Comparison(
        name=name_of(results.paper.name, publication),
        title=publication.title,
        entries=list(grid.entries()),
        is_wide=publication.wide,
        remembered=publication.remembered,
        tables=found.tables,
        findings=found.findings,
        series=found.series,
        notes=[*_notes(part), *_missing(part)],
    )


def called(part: Part, call: Call) -> Any:
    """Return what a function of the paper returns for a table.

    Raises
    ------
    UserError
        If there is no such function.
    """
    function = function_of(part.results.paper.name, "computed", call.of)
    return function(part, **call.parameters)


def function_of(paper: str, module: str, name: str) -> Callable[..., Any]:
    """Return a function that a paper's file names, out of a module of its sub-package."""
    found = import_module(f"paper_figures.{paper}.{module}").FUNCTIONS
    if name not in found:
        raise UserError(f"{paper}.toml: function {name!r}: {unknown_key(name, list(found))}")
    function: Callable[..., Any] = found[name]
    return function


def _notes(part: Part) -> list[str]:
    notes: list[str] = []
    for note in part.publication.notes:
        if isinstance(note, str):
            notes.append(part.setting.filled(note))
        else:
            said = called(part, note)
            notes += [said] if isinstance(said, str) else said
    return notes


def _missing(part: Part) -> list[str]:
    """Return what of a table could not be run, and what failed."""
    asked = set()
    missing = []
    part_runs = Part(part.publication, Results(part.setting, None))
    for row in part.publication.rows:
        for run in _runs_of_row(part_runs, row):
            if not part.setting.is_there(run) and run.scheme not in missing:
                missing.append(run.scheme)
    for run, draw in runs_of(part.setting, part.publication):
        asked.add(part.setting.task(run, draw).key)
    failed = [key for key in part.results.failed if key in asked]
    notes = [f"Not run: there is no scheme {scheme} here." for scheme in missing]
    return notes + [f"Failed: {key}: {part.results.failed[key]}" for key in failed]


def _run(part: Part, row: RowTable, column: ColumnTable) -> Run:
    name = row.run or part.publication.run
    if name is None:
        raise UserError(f"{part.publication.title}: row {row.name!r} names no run")
    return part.run(name, changes=(*frozen(row.changes), *frozen(column.changes)))


def _over(publication: PublicationTable, row: RowTable, column: ColumnTable) -> str | None:
    return column.over or row.over or publication.over


class _Grid:
    """The numbers of a table, row by row."""

    def __init__(self, part: Part, found: Found) -> None:
        self._part, self._found = part, found
        self._rows = {row.name: row for row in part.publication.rows}

    def entries(self) -> Iterator[Entry]:
        """Yield the paper's numbers beside ours."""
        for row in self._rows.values():
            if not row.hidden:
                for place, column in enumerate(self._part.publication.columns):
                    if row.paper[place]:
                        yield self._entry(row, column, place)

    def _entry(self, row: RowTable, column: ColumnTable, place: int) -> Entry:
        publication = self._part.publication
        judged = column.judged or publication.judged
        measure = column.measure or row.measure
        if measure is None:
            ours, spread = self._found.values.get((row.name, column.name), (None, None))
        elif judged in (GAIN, REDUCTION):
            ours, spread = self._gain(row, column, measure)
        else:
            ours, spread = self._part.mean(measure, _run(self._part, row, column))
        if not publication.spread:
            spread = None
        source = SOURCES[row.source]
        make: Callable[..., Entry]
        if judged == EXACT:
            make = partial(Entry.exact, source=source)
        elif judged == GAIN:
            make = partial(Entry.published_gain, source=source, spread=spread)
        elif judged == REDUCTION:
            make = partial(Entry.published_reduction, source=source, spread=spread)
        else:
            make = self._judged_by_value(row, column, place, measure, spread)
        return make(row.name, column.name, row.paper[place], ours)

    def _gain(
        self, row: RowTable, column: ColumnTable, measure: Measure
    ) -> tuple[float | None, Spread]:
        publication = self._part.publication
        over = _over(publication, row, column)
        if over is None:
            raise UserError(
                f"{publication.title}: row {row.name!r} does not say over what it gains"
            )
        run = _run(self._part, row, column)
        gains = self._part.gains(measure, self._part.run(over), run, better=column.better)
        return mean_and_spread(gains, publication.mean)

    def _judged_by_value(
        self,
        row: RowTable,
        column: ColumnTable,
        place: int,
        measure: Measure | None,
        spread: Spread,
    ) -> Callable[..., Entry]:
        publication = self._part.publication
        name = row.yardstick or column.yardstick or publication.yardstick
        plain = partial(Entry.simulated, spread=spread)
        # What all others are compared with is judged by its value in every column.
        if name is None or measure is None or row.name in (name, publication.yardstick):
            return plain
        reference = self._rows[name]
        run = _run(self._part, reference, column)
        our_reference, _ = self._part.mean(measure, run)
        if not reference.paper[place] or our_reference is None:
            return plain
        our_gain = None
        if publication.paired:
            values = (
                self._part.values(measure, each) for each in (run, _run(self._part, row, column))
            )
            pairs = [pair for pair in zip(*values, strict=True) if None not in pair]
            before, after = zip(*pairs, strict=True) if pairs else ((), ())
            our_gain = paired_gain(before, after, better=column.better)
        return partial(
            Entry.compared,
            paper_reference=reference.paper[place],
            our_reference=our_reference,
            our_gain=our_gain,
            more_is_better=column.better == MORE,
            spread=spread,
        )
