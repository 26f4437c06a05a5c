"""Measures of schemes side by side, as tables of a page show them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.simulation.durations import three_digits, unit_of
from lyra_opt.experiments.simulation.measures import (
    LESS,
    MEASURES,
    MORE,
    TIME_PARTS,
    mean_shown,
    shown_measures,
    spread_shown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measures import Measure

MAIN_MEASURES = (
    *("jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_max_s", "queue_mean_s", "queue_p95_s"),
    *("queue_max_s", "makespan_s"),
    *("fairness_mean", "training_usage_while_submitting", "gpu_usage", "computing_usage"),
    "preemptions",
)
"""Keys of the short table, as far as runs have them."""

ONE_UNIT = ("queue_", "jct_")
"""What begins with one of these is shown in one unit, the mean's; parts of JCTs in that of JCTs."""

OWN_UNIT = frozenset({"wall_time_s", "decision_mean_s", "decision_p99_s", "decision_max_s"})
"""Measures that are no time of the simulated cluster."""


MOST_BEST = 2 / 3
"""Share of the schemes that may be the best of a row; if more of them are, none is marked."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value of a measure under a scheme.

    Parameters
    ----------
    text
        As shown: the mean over seeds.
    value
        To sort by; None where there is none.
    spread
        From the least to the greatest seed; empty with one seed.
    is_best
        Whether no other scheme is better, and enough are worse to say so.
    """

    text: str
    value: float | None
    spread: str = ""
    is_best: bool = False

    @property
    def with_spread(self) -> str:
        """The mean, and behind it the spread in brackets."""
        return f"{self.text} ({self.spread})" if self.spread else self.text


@dataclass(frozen=True, slots=True)
class Line:
    """A measure under each scheme.

    Parameters
    ----------
    key, name, unit
        Of the measure; the unit is empty where there is none.
    cells
        In the order of the schemes.
    """

    key: str
    name: str
    unit: str
    cells: Sequence[Cell]


def lines_of(
    of_scheme: Mapping[str, Sequence[ReplayRecord]], shown: Sequence[ReplayRecord]
) -> list[Line]:
    """Return every measure that says something, under each scheme.

    Parameters
    ----------
    of_scheme
        Runs of each scheme of a variant: one for each seed.
    shown
        All runs of the page, by which units and rows are chosen, so that its tables agree.
    """
    records = [run.figures or {} for run in shown]
    return [
        _line(measure, of_scheme, _shown_as(measure, records))
        for measure in shown_measures(records, MEASURES)
    ]


def main_lines(lines: Sequence[Line]) -> list[Line]:
    """Return those of the short table, in its order."""
    by_key = {line.key: line for line in lines}
    return [by_key[key] for key in MAIN_MEASURES if key in by_key]


@dataclass(frozen=True, slots=True)
class _Shown:
    name: str
    unit: str
    show: Callable[[Any], str]


def _shown_as(measure: Measure, records: Sequence[Mapping[str, Any]]) -> _Shown:
    """Return a measure's name without its unit, and how its values are shown."""
    if measure.key.endswith("_s") and measure.key not in OWN_UNIT and "(s)" in measure.name:
        group = next((start for start in ONE_UNIT if measure.key.startswith(start)), None)
        key = measure.key if group is None else f"{group}mean_s"
        if measure in TIME_PARTS:
            key = "jct_mean_s"
        unit = unit_of(max((record.get(key) or 0 for record in records), default=0))
        return _Shown(
            measure.name.removesuffix(" (s)"),
            unit.name,
            lambda value: three_digits(value / unit.seconds),
        )
    name, bracket, symbol = measure.name.rpartition(" (")
    if bracket and symbol.endswith(")"):
        return _Shown(name, symbol.removesuffix(")"), measure.show)
    return _Shown(measure.name, "", measure.show)


def _line(measure: Measure, of_scheme: Mapping[str, Sequence[ReplayRecord]], shown: _Shown) -> Line:
    cells = [
        _cell([(run.figures or {}).get(measure.key) for run in runs], shown.show)
        for runs in of_scheme.values()
    ]
    values = [cell.value for cell in cells if cell.value is not None]
    if measure.better is not None and len(values) > 1:
        best = {LESS: min, MORE: max}[measure.better](values)
        best_text = next(cell.text for cell in cells if cell.value == best)
        if sum(cell.text == best_text for cell in cells) <= MOST_BEST * len(values):
            cells = [
                Cell(cell.text, cell.value, cell.spread, cell.text == best_text) for cell in cells
            ]
    return Line(measure.key, shown.name, shown.unit, cells)


def _cell(values: Sequence[Any], show: Callable[[Any], str]) -> Cell:
    known = [value for value in values if value is not None]
    text = mean_shown(values, show)
    if not known or not all(isinstance(value, int | float) for value in known):
        return Cell(text, None)
    return Cell(text, statistics.fmean(known), spread_shown(known, show))
