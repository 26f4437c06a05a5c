"""The measures of a simulation: their names and units, and how tables show their values."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lyra_opt.experiments.records import ReplayRecord

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
LESS, MORE = "less", "more"
TIME_PART_PREFIX = "JCT part: "
"""Prefix of the table names of the measures that add up to the mean JCT."""


class Unit(NamedTuple):
    """A unit of time: plural name, symbol, length in seconds, and the shortest duration for it."""

    name: str
    symbol: str
    seconds: int
    least_s: float


UNITS = (
    Unit("days", "d", DAY_S, 3 * DAY_S),
    Unit("hours", "h", HOUR_S, HOUR_S),
    Unit("minutes", "min", MINUTE_S, 2 * MINUTE_S),
    Unit("seconds", "s", 1, 0.0),
)


def unit_of(duration_s: float) -> Unit:
    """Return the unit in which a duration is easiest to read.

    >>> unit_of(90).symbol, unit_of(14_400).symbol, unit_of(300_000).symbol
    ('s', 'h', 'd')
    """
    return next(unit for unit in UNITS if abs(duration_s) >= unit.least_s)


def three_digits(value: float) -> str:
    """Return a number as text with at least three significant digits.

    >>> three_digits(1234.5), three_digits(12.34), three_digits(0.21), three_digits(0.0)
    ('1,234', '12.3', '0.210', '0')
    """
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1:
        return f"{value:#.3g}"
    return f"{value:,.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"


def duration(value_s: float, unit: Unit | None = None) -> str:
    """Return a duration as text in `unit`, or else in the unit that is easiest to read.

    >>> duration(5400), duration(-5400)
    ('1.50 h', '−1.50 h')
    """
    chosen = unit or unit_of(value_s)
    return f"{three_digits(value_s / chosen.seconds)} {chosen.symbol}".replace("-", "−")


def _by_tier(show: Callable[[Any], str], by_tier: Mapping[str, float]) -> str:
    return " / ".join(map(show, by_tier.values()))


def _shares_by_tier(by_tier: Mapping[str, float]) -> str:
    whole = sum(by_tier.values())
    return _by_tier(lambda value: SHOWN["percent"](value / whole), by_tier)


SHOWN: Mapping[str, Callable[[Any], str]] = {
    "seconds": lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}",
    "milliseconds": lambda value: f"{1000 * value:.2f}",
    "percent": lambda value: f"{100 * value:.1f}",
    "count": "{:,}".format,
    "whole number": "{:,.0f}".format,
    "hundredths": "{:.2f}".format,
    "two decimals": "{:,.2f}".format,
    "four decimals": "{:.4f}".format,
    "counts by tier": partial(_by_tier, "{:,}".format),
    "shares by tier": _shares_by_tier,
}
"""The number formats that the key ``show`` in ``measures.toml`` can name."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a replay and its format in tables, as ``measures.toml`` defines them.

    Parameters
    ----------
    key
        The key of the figure in ``simulate --json``.
    name
        The row's name in tables, with its unit in brackets.
    show
        Formats a value for tables.
    meaning
        An explanation; empty where the name suffices.
    better
        `LESS` or `MORE`: which direction is the better one; None for a neutral figure.
    """

    key: str
    name: str
    show: Callable[[Any], str]
    meaning: str = ""
    better: str | None = None


_TOML = files("lyra_opt.experiments.simulation.measuring").joinpath("measures.toml")
MEASURES = tuple(
    Measure(key, **{**row, "show": SHOWN[row["show"]]})
    for key, row in tomllib.loads(_TOML.read_text("utf-8")).items()
)
TIME_PARTS = tuple(measure for measure in MEASURES if measure.name.startswith(TIME_PART_PREFIX))
TIME_PART_NAMES = {
    measure.key: measure.name.removeprefix(TIME_PART_PREFIX).removesuffix(" (s)")
    for measure in TIME_PARTS
}
"""The parts that add up to the mean JCT: name by key."""


@dataclass(frozen=True, eq=False)
class VariantRuns:
    """The finished runs of one variant of a scenario, in the order of the scenario.

    ``name`` states the value of each axis, such as "cluster.servers = 8"; it is empty without axes.
    """

    name: str
    runs: Sequence[ReplayRecord]

    @cached_property
    def by_scheme(self) -> dict[str, list[ReplayRecord]]:
        """The runs of each scheme, one per seed."""
        found: dict[str, list[ReplayRecord]] = {}
        for run in self.runs:
            found.setdefault(run.scheme, []).append(run)
        return found

    @property
    def seeds(self) -> list[int]:
        """The seeds of all runs, in ascending order."""
        return sorted({run.seed for run in self.runs})

    @property
    def of_first_seed(self) -> dict[str, ReplayRecord]:
        """The run of each scheme that has the seed of the first run."""
        return {run.scheme: run for run in self.runs if run.seed == self.runs[0].seed}

    @property
    def first_seed_in_words(self) -> str:
        """The seed of the first run as text; empty if all runs have the same seed."""
        return f"seed {self.runs[0].seed}" if len(self.seeds) > 1 else ""

    def title(self, words: str, *details: str) -> str:
        """Return the title of a plot: words, the variant's name, and all non-empty details."""
        return ", ".join(filter(None, (words, self.name, *details)))


def variants_of(runs: Iterable[ReplayRecord]) -> list[VariantRuns]:
    """Return the runs grouped by the variant of their scenario, in order."""

    def name_of(run: ReplayRecord) -> str:
        return ", ".join(f"{name} = {value}" for name, value in run.point.items())

    return [VariantRuns(name, list(group)) for name, group in groupby(runs, key=name_of)]


def shown_measures(runs: Iterable[ReplayRecord]) -> list[Measure]:
    """Return the measures that tables show: those with a value in at least one run.

    A part of the JCT that is 0 in all runs is left out too.
    """
    figures = [run.figures or {} for run in runs]

    def is_shown(measure: Measure) -> bool:
        values = [each.get(measure.key) for each in figures]
        return any(values) if measure in TIME_PARTS else any(each is not None for each in values)

    every = (each for measure in MEASURES for each in _at_each_priority(measure, figures))
    return [measure for measure in every if is_shown(measure)]


def _at_each_priority(measure: Measure, figures: Sequence[Mapping[str, Any]]) -> Iterable[Measure]:
    """Return a measure for each priority of the figures, highest first, if its key has an N."""
    before, is_of_priority, after = measure.key.partition("priority_N")
    if not is_of_priority:
        return [measure]
    pattern = re.compile(rf"{before}priority_(-?[0-9]+){after}")
    keys = {match for each in figures for key in each if (match := pattern.fullmatch(key))}
    levels = {int(match[1]) for match in keys}
    return [
        replace(
            measure,
            key=measure.key.replace("N", str(level)),
            name=measure.name.replace("priority N", f"priority {level}"),
        )
        for level in sorted(levels, reverse=True)
    ]
