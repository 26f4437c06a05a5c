"""The measures of a simulation: their names and units, and how tables show their values."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.resources import files
from itertools import groupby
from typing import Any, NamedTuple

from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.numbers import MILLISECONDS, Show, count, in_unit, share, three_digits
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.scenario.documents import CASE

LESS, MORE = "less", "more"
TIME_PART_PREFIX = "JCT part: "
"""Prefix of the table names of the measures that add up to the mean JCT."""


def _by_tier(show: Callable[[Any], str], by_tier: Mapping[str, float]) -> str:
    return " / ".join(map(show, by_tier.values()))


def _shares_by_tier(by_tier: Mapping[str, float]) -> str:
    whole = sum(by_tier.values())
    return _by_tier(lambda value: share(value / whole), by_tier)


SHOWN: Mapping[str, Show] = {
    "three digits": three_digits,
    "milliseconds": in_unit(MILLISECONDS),
    "percent": share,
    "count": count,
    "counts by tier": partial(_by_tier, count),
    "shares by tier": _shares_by_tier,
}
"""The number formats that the key ``show`` in ``measures.toml`` can name."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure of a replay and its format in tables, as ``measures.toml`` defines them.

    Parameters
    ----------
    key
        The key of the figure in ``simulate --format json``.
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
    show: Show
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


class ComparedMean(NamedTuple):
    """A mean by which schemes are compared: key of the figure, column of the jobs table, name."""

    key: str
    column: str
    name: str


JCT = "jct_mean_s"
COMPARED = (
    ComparedMean(JCT, "jct_s", "mean JCT"),
    ComparedMean("queue_mean_s", "queued_s", "mean queuing time"),
)


@dataclass(frozen=True, eq=False)
class VariantRuns:
    """The finished runs of one variant of a scenario, in the order of the scenario.

    ``name`` states the value of each axis, such as "cluster.servers = 8"; a case is its
    name alone. It is empty without axes.
    ``failed`` are the runs of the variant that failed.
    """

    name: str
    runs: Sequence[ReplayRecord]
    failed: Sequence[ReplayRecord] = ()

    @cached_property
    def _every(self) -> dict[str, list[ReplayRecord]]:
        """The finished runs of each scheme, in the order of the scenario; empty if all failed."""
        found: dict[str, list[ReplayRecord]] = {}
        for run in sorted((*self.runs, *self.failed), key=lambda run: run.position):
            found.setdefault(run.scheme, []).extend([] if run.figures is None else [run])
        return found

    @cached_property
    def by_scheme(self) -> dict[str, list[ReplayRecord]]:
        """The runs of each scheme that has some, one per seed."""
        return {scheme: runs for scheme, runs in self._every.items() if runs}

    @cached_property
    def every_seed(self) -> int:
        """The number of seeds, including those with which all schemes failed."""
        return len({run.seed for run in (*self.runs, *self.failed)})

    def is_whole(self, scheme: str) -> bool:
        """Return whether a scheme has a finished run with every seed."""
        return len(self._every[scheme]) == self.every_seed

    def label(self, scheme: str) -> str:
        """Return the name of a scheme, with its number of seeds if it lacks some."""
        return with_seeds(scheme, len(self._every[scheme]), self.every_seed)

    @property
    def lacking_in_words(self) -> str:
        """The schemes that lack seeds, with the number that they have; empty if none does."""
        labels = [self.label(scheme) for scheme in self._every if not self.is_whole(scheme)]
        return f"not every replay finished: {', '.join(labels)}" if labels else ""

    @property
    def seeds(self) -> list[int]:
        """The seeds of all runs, in ascending order."""
        return sorted({run.seed for run in self.runs})

    @property
    def seeds_in_words(self) -> str:
        """The number of seeds as text; empty if all runs have the same seed."""
        return f"{len(self.seeds)} seeds" if len(self.seeds) > 1 else ""

    @property
    def assumptions(self) -> list[str]:
        """The assumptions; a sentence that does not apply to all seeds begins with its seeds."""
        seeds_of: dict[str, set[int]] = {}
        for run in self.runs:
            for sentence in run.assumptions:
                seeds_of.setdefault(sentence, set()).add(run.seed)
        return [
            sentence
            if len(seeds) == len(self.seeds)
            else f"Seed {', '.join(map(str, sorted(seeds)))}: {sentence}"
            for sentence, seeds in seeds_of.items()
        ]

    @cached_property
    def of_first_seed(self) -> dict[str, ReplayRecord]:
        """The run of each scheme with the first seed with which the most schemes finished."""
        seeds = [run.seed for run in self.runs]
        first = max(seeds, key=seeds.count)
        return {run.scheme: run for run in self.runs if run.seed == first}

    @property
    def first_seed_in_words(self) -> str:
        """The seed of `of_first_seed` as text; empty if all runs have the same seed."""
        first, *_ = self.of_first_seed.values()
        return f"seed {first.seed}" if len(self.seeds) > 1 else ""

    def title(self, words: str, *details: str) -> str:
        """Return the title of a plot: words, the variant's name, and all non-empty details."""
        return ", ".join(filter(None, (words, self.name, *details)))


def assumptions_of(variants: Sequence[VariantRuns]) -> list[str]:
    """Return the assumptions; a sentence that applies to some variants begins with their names."""
    names_of: dict[str, list[str]] = {}
    for variant in variants:
        for sentence in variant.assumptions:
            names_of.setdefault(sentence, []).append(variant.name)
    return [
        sentence if len(names) == len(variants) else f"{'; '.join(names)}: {sentence}"
        for sentence, names in names_of.items()
    ]


def with_seeds(scheme: str, seeds: int, every: int) -> str:
    """Return the name of a scheme, followed by its number of seeds if it is not the number of all.

    >>> with_seeds("fifo", 5, 5), with_seeds("fifo", 1, 5)
    ('fifo', 'fifo (1 of 5 seeds)')
    """
    return scheme if seeds == every else f"{scheme} ({seeds} of {every} seeds)"


def variants_of(
    runs: Iterable[ReplayRecord], failed: Iterable[ReplayRecord] = ()
) -> list[VariantRuns]:
    """Return the finished runs grouped by the variant of their scenario, in order.

    ``failed`` are the failed runs, which join the variant to which they belong.
    """

    def name_of(run: ReplayRecord) -> str:
        return ", ".join(
            str(value) if name == CASE else f"{name} = {value}" for name, value in run.point.items()
        )

    return [
        VariantRuns(name, list(group), [run for run in failed if name_of(run) == name])
        for name, group in groupby(runs, key=name_of)
    ]


def measure_named(key: str) -> Measure:
    """Return the measure with a key, such as ``queue_priority_2_mean_s``.

    Raises
    ------
    UserError
        If no measure has this key.
    """
    for measure in MEASURES:
        if (level := _level_in(measure, key)) is not None:
            return _at_level(measure, level)
    raise UserError(f"measure {key!r} is unknown: {meant(key, (each.key for each in MEASURES))}")


def shown_measures(runs: Iterable[ReplayRecord]) -> list[Measure]:
    """Return the measures that tables show: those with a value in at least one run.

    A part of the JCT that is 0 in all runs is left out too.
    """
    figures = [run.figures or {} for run in runs]

    def is_shown(measure: Measure) -> bool:
        values = [each.get(measure.key) for each in figures]
        return any(values) if measure in TIME_PARTS else any(each is not None for each in values)

    every = (each for measure in MEASURES for each in _at_each_level(measure, figures))
    return [measure for measure in every if is_shown(measure)]


LEVELS = {"priority": "-?[0-9]+", "tenant": ".+"}
"""The pattern of the N in the keys of measures with a value for each priority or tenant."""


def _level_in(measure: Measure, key: str) -> str | None:
    """Return the priority or tenant in a key of a measure, empty without; None for another key."""
    pattern = re.escape(measure.key)
    for word, level in LEVELS.items():
        pattern = pattern.replace(f"{word}_N", f"{word}_({level})")
    found = re.fullmatch(pattern, key)
    return None if found is None else "".join(found.groups())


def _at_level(measure: Measure, level: str) -> Measure:
    """Return a measure for one priority or tenant, which replaces the N of its key and name."""
    key, name = measure.key, measure.name
    for word in LEVELS:
        key = key.replace(f"{word}_N", f"{word}_{level}")
        name = name.replace(f"{word} N", f"{word} {level}")
    return replace(measure, key=key, name=name)


def _at_each_level(measure: Measure, figures: Sequence[Mapping[str, Any]]) -> Iterable[Measure]:
    """Return a measure for each tenant or priority of the figures, highest first."""
    if not any(f"{word}_N" in measure.key for word in LEVELS):
        return [measure]
    keys = dict.fromkeys(key for each in figures for key in each)
    levels = [level for key in keys if (level := _level_in(measure, key))]
    if "priority_N" in measure.key:
        levels.sort(key=int, reverse=True)
    return [_at_level(measure, level) for level in levels]
