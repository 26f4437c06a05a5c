"""Evaluate a paper's file: compute the numbers of its tables and figures from simulations."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import UserError
from lyra_opt.paper_figures import dally, hadar, lyra
from lyra_opt.paper_figures.comparison import Bound, Comparison, Computed, Entry, Gains, Judged
from lyra_opt.paper_figures.document import (
    BOUNDED,
    MORE,
    MOST,
    OVER,
    RUN,
    SOURCES,
    BoundTable,
    Call,
    ColumnTable,
    Measure,
    PublicationTable,
    RowTable,
    name_of,
)
from lyra_opt.paper_figures.results import NOTES, Part, Results, gains_of, mean_and_spread, pairs_of
from lyra_opt.paper_figures.setting import Draw, PaperRun, Setting, frozen
from lyra_opt.paper_figures.verdicts import Spread, gain

FunctionT = TypeVar("FunctionT")

COMPUTED = {
    name: {**functions, **NOTES}
    for name, functions in (
        ("dally", dally.FUNCTIONS),
        ("hadar", hadar.FUNCTIONS),
        ("lyra", lyra.FUNCTIONS),
    )
}
"""The functions that compute tables and notes, by paper and name."""

TOLERANCE = 1e-9
"""The relative tolerance for rounding when a mean is compared with its bound."""


def runs_of(setting: Setting, publication: PublicationTable) -> Iterator[tuple[PaperRun, Draw]]:
    """Yield the simulations that a table needs, except those whose scheme or trace is missing."""
    for run in _named_runs(setting, publication):
        if setting.is_there(run):
            yield from ((run, draw) for draw in setting.draws(publication))


def missing_traces(setting: Setting, publications: Sequence[PublicationTable]) -> list[str]:
    """Return the names of missing traces that the given tables need, without repetition."""
    scenarios = {run.scenario for each in publications for run in _named_runs(setting, each)}
    return sorted({name for each in scenarios for name in setting.missing_traces(each)})


def _named_runs(setting: Setting, publication: PublicationTable) -> dict[PaperRun, None]:
    part = Part(publication, Results(setting, None))
    runs = [run for row in publication.rows for run in _runs_of_row(part, row)]
    runs += [part.run(name) for name in publication.also]
    runs += [
        PaperRun(scenario=scenario, scheme=scheme, changes=frozen(product.changes))
        for product in publication.products
        for scenario in product.scenarios
        for scheme in product.schemes
    ]
    return dict.fromkeys(runs)


def _runs_of_row(part: Part, row: RowTable) -> Iterator[PaperRun]:
    for column, paper in zip(part.publication.columns, row.paper, strict=True):
        measure = column.measure or row.measure
        if (paper or row.hidden) and measure is not None:
            yield _run(part, row, column)
            if measure.beside:
                yield part.run(measure.beside)
            if (over := _over(part.publication, row, column)) is not None:
                yield part.run(over)


def compared(results: Results, publication: PublicationTable) -> Comparison:
    """Return the comparison of a published table or figure with our simulated numbers."""
    part = Part(publication, results)
    found = Computed()
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
        notes=[
            *(each.in_words() for each in publication.not_modelled),
            *_notes(part),
            *_missing(part),
        ],
    )


def called(part: Part, call: Call) -> Any:
    """Return the result of a function that a paper's file names for a table.

    Raises
    ------
    UserError
        If there is no such function.
    """
    function = function_of(COMPUTED, part.results.paper.name, call.of)
    return function(part, **call.parameters)


def function_of(
    functions: Mapping[str, Mapping[str, FunctionT]], paper: str, name: str
) -> FunctionT:
    """Return a function by the name that a paper's file uses.

    Parameters
    ----------
    functions
        The functions that files may name, by paper and name.

    Raises
    ------
    UserError
        If there is no such function.
    """
    known = functions.get(paper, {})
    if name not in known:
        raise UserError(f"{paper}.toml: function {name!r}: {unknown_key(name, list(known))}")
    return known[name]


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
    """Return notes on runs of a table that failed or whose scheme is missing."""
    setting, publication = part.setting, part.publication
    runs = (run for row in publication.rows for run in _runs_of_row(part, row))
    missing = dict.fromkeys(run.scheme for run in runs if not setting.is_there(run))
    requested = {setting.task(*each).key for each in runs_of(setting, publication)}
    failed = [key for key in part.results.failed if key in requested]
    notes = [f"Not run: the scheme {scheme} is not available." for scheme in missing]
    return notes + [f"Failed: {key}: {part.results.failed[key]}" for key in failed]


def _run(part: Part, row: RowTable, column: ColumnTable) -> PaperRun:
    name = row.run or part.publication.run
    if name is None:
        raise UserError(f"{part.publication.title}: row {row.name!r} must name a run")
    return part.run(name, changes=(*frozen(row.changes), *frozen(column.changes)))


def _over(publication: PublicationTable, row: RowTable, column: ColumnTable) -> str | None:
    return column.over or row.over or publication.over


class _Grid:
    """The entries of a published table, computed row by row."""

    def __init__(self, part: Part, found: Computed) -> None:
        self._part, self._found = part, found
        self._rows = {row.name: row for row in part.publication.rows}

    def entries(self) -> Iterator[Entry]:
        """Yield each number of the paper with our simulated number."""
        for row in self._rows.values():
            if not row.hidden:
                for place, column in enumerate(self._part.publication.columns):
                    if row.paper[place]:
                        yield self._entry(row, column, place)

    def _entry(self, row: RowTable, column: ColumnTable, place: int) -> Entry:
        publication = self._part.publication
        judged = Judged(column.judged or publication.judged)
        measure = column.measure or row.measure
        bound = gains = None
        if measure is None:
            ours, spread = self._found.values.get((row.name, column.name), (None, None))
        elif judged in (Judged.GAIN, Judged.REDUCTION):
            ours, spread, bound = self._printed_gain(row, column, measure)
        else:
            ours, spread = self._part.mean(measure, _run(self._part, row, column))
            gains = self._gains_over_yardstick(row, column, place, measure, ours)
            if column.bound is not None and ours is not None:
                found, _ = self._part.mean(column.bound.measure, _run(self._part, row, column))
                bound = self._bound(row, column.bound, ours, found)
        return Entry(
            row=row.name,
            column=column.name,
            paper=row.paper[place],
            ours=ours,
            judged=judged,
            gains=gains,
            spread=spread if publication.spread else None,
            is_over_seeds=publication.draws is None,
            bound=bound,
            is_modelled=not any(
                each.covers(row.name, column.name) for each in publication.not_modelled
            ),
            source=SOURCES[row.source],
        )

    def _printed_gain(
        self, row: RowTable, column: ColumnTable, measure: Measure
    ) -> tuple[float | None, Spread, Bound | None]:
        publication = self._part.publication
        over = _over(publication, row, column)
        if over is None:
            raise UserError(
                f"{publication.title}: row {row.name!r} is judged as a gain: its key over "
                "must name the run to compare with"
            )
        pair = (self._part.run(over), _run(self._part, row, column))
        gains = self._part.gains(measure, *pair, better=column.better)
        ours, spread = mean_and_spread(gains, publication.mean)
        bound = column.bound
        if bound is None or ours is None:
            return ours, spread, None
        by_place = {
            each: bound.measure if bound.in_place_of == each else measure for each in BOUNDED
        }
        proved = gains_of(
            self._part.values(by_place[OVER], pair[0]),
            self._part.values(by_place[RUN], pair[1]),
            better=column.better,
        )
        if not all(
            0 < each < math.inf for each in proved
        ):  # infinite or zero bounds exclude no gain
            return ours, spread, None
        found, _ = mean_and_spread(proved, publication.mean)
        return ours, spread, self._bound(row, bound, ours, found)

    def _bound(
        self, row: RowTable, bound: BoundTable, ours: float, found: float | None
    ) -> Bound | None:
        """Return the proved bound on our number; None if no bound is known.

        Raises
        ------
        UserError
            If the computed number violates the bound, so that one of them is wrong.
        """
        if found is None:
            return None
        is_most = bound.side == MOST
        if (ours - found) * (1 if is_most else -1) > TOLERANCE * abs(found):
            raise UserError(
                f"{self._part.publication.title}: row {row.name!r} is {ours}, but the proved "
                f"bound is at {bound.side} {found}: one of them is wrong"
            )
        return Bound(value=found, is_most=is_most)

    def _gains_over_yardstick(
        self, row: RowTable, column: ColumnTable, place: int, measure: Measure, ours: float | None
    ) -> Gains | None:
        """Return the gains of a row over its reference row; None without a reference row."""
        publication = self._part.publication
        name = row.yardstick or column.yardstick or publication.yardstick
        # The reference row of a table has no gain; the row is judged by its own value.
        if name is None or row.name in (name, publication.yardstick):
            return None
        reference = self._rows[name]
        run = _run(self._part, reference, column)
        our_reference, _ = self._part.mean(measure, run)
        if not reference.paper[place] or our_reference is None:
            return None
        is_more = column.better == MORE
        paper = gain(float(reference.paper[place]), float(row.paper[place]), more_is_better=is_more)
        if ours is None:
            return Gains(paper=paper, ours=None)
        if measure.over or not (publication.paired or publication.spread):
            found = gain(our_reference, ours, more_is_better=is_more)
            return Gains(paper=paper, ours=found)
        values = (self._part.values(measure, each) for each in (run, _run(self._part, row, column)))
        pairs = pairs_of(*values)
        gains = [gain(*pair, more_is_better=is_more) for pair in pairs]
        found = gain(our_reference, ours, more_is_better=is_more)
        if publication.paired and pairs and min(map(min, pairs)) > 0:  # else no geometric mean
            found = statistics.geometric_mean(gains)
        _, spread = mean_and_spread(gains)
        return Gains(paper=paper, ours=found, spread=spread if publication.spread else None)
