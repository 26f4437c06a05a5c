"""The measures of a simulation, in words, and how their values are shown."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lyra_opt.experiments.records import ReplayRecord

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400

LESS, MORE = "less", "more"

PART = "JCT, of it "
"""Begins the names of the parts of the mean JCT."""


class Unit(NamedTuple):
    """A unit of time.

    Parameters
    ----------
    name
        In the plural.
    symbol
        As it stands behind a number.
    seconds
        How long it is.
    least_s
        Duration from which it is used.
    """

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
    """Return the unit for durations like this one.

    >>> unit_of(90).symbol, unit_of(14_400).symbol, unit_of(300_000).symbol
    ('s', 'h', 'd')
    """
    return next(unit for unit in UNITS if abs(duration_s) >= unit.least_s)


def three_digits(value: float) -> str:
    """Return a number with three digits or more, never with an exponent above 1.

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
    """Return a duration with its unit; None takes the one that suits it.

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
"""How tables show values, by the names in ``measures.toml``."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the tables.

    Parameters
    ----------
    key
        Of ``simulate --json``.
    name
        In words, its unit in brackets.
    show
        Returns a value as tables show it.
    meaning
        A sentence or two; empty where the one above it or the name says it.
    better
        `LESS` or `MORE`, where schemes are better by it; None where it is only a fact.
    """

    key: str
    name: str
    show: Callable[[Any], str]
    meaning: str = ""
    better: str | None = None


MEASURES = tuple(
    Measure(key, **{**row, "show": SHOWN[row["show"]]})
    for key, row in tomllib.loads(
        files("lyra_opt.experiments.simulation.measuring")
        .joinpath("measures.toml")
        .read_text("utf-8")
    ).items()
)
"""The rows of the tables, in order; ``measures.toml`` says what each is."""

TIME_PARTS = tuple(measure for measure in MEASURES if measure.name.startswith(PART))
TIME_PART_NAMES = {
    measure.key: measure.name.removeprefix(PART).removesuffix(" (s)") for measure in TIME_PARTS
}
"""What the mean JCT of a replay is the sum of, in words."""


@dataclass(frozen=True, eq=False)
class VariantRuns:
    """The runs of one variant of a scenario that finished.

    Parameters
    ----------
    name
        The value of each axis, in words; empty without axes.
    runs
        In the order of the scenario.
    """

    name: str
    runs: Sequence[ReplayRecord]

    @cached_property
    def by_scheme(self) -> dict[str, list[ReplayRecord]]:
        """The runs of each scheme, one for each seed."""
        found: dict[str, list[ReplayRecord]] = {}
        for run in self.runs:
            found.setdefault(run.scheme, []).append(run)
        return found

    @property
    def seeds(self) -> list[int]:
        """The seeds that any scheme has, in order."""
        return sorted({run.seed for run in self.runs})

    @property
    def of_first_seed(self) -> dict[str, ReplayRecord]:
        """The run of each scheme with the seed of the first run."""
        return {run.scheme: run for run in self.runs if run.seed == self.runs[0].seed}

    @property
    def first_seed_in_words(self) -> str:
        """The seed of the first run; empty if all runs have it."""
        return f"seed {self.runs[0].seed}" if len(self.seeds) > 1 else ""

    def title(self, words: str, *details: str) -> str:
        """Return the title of a plot of the variant; empty details are left out."""
        return ", ".join(filter(None, (words, self.name, *details)))


def variants_of(runs: Iterable[ReplayRecord]) -> list[VariantRuns]:
    """Return the variants of a scenario that some runs are of, in order."""

    def in_words(run: ReplayRecord) -> str:
        return ", ".join(f"{name} = {value}" for name, value in run.point.items())

    return [VariantRuns(name, list(group)) for name, group in groupby(runs, key=in_words)]


def shown_measures(runs: Iterable[ReplayRecord]) -> list[Measure]:
    """Return the measures that say something: those with a value in any run.

    Parts of the JCT that are 0 in all runs say nothing either: no scheme has such GPUs, or copies.
    """
    figures = [run.figures or {} for run in runs]

    def says_something(measure: Measure) -> bool:
        values = [each.get(measure.key) for each in figures]
        return any(values) if measure in TIME_PARTS else any(each is not None for each in values)

    return [measure for measure in MEASURES if says_something(measure)]
