"""Compute the difference of each scheme from a baseline, and the rows of result tables."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.numbers import DOWN, MISSING, duration, in_unit, percent, share, unit_of
from lyra_opt.core.table import Column, Table
from lyra_opt.experiments.intervals import CONFIDENCE
from lyra_opt.experiments.random_inputs import (
    Paired,
    RandomInputs,
    Sample,
    paired_columns,
    random_inputs,
    with_intervals,
)
from lyra_opt.experiments.simulation.measuring.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.measuring.measures import (
    COMPARED,
    JCT,
    LESS,
    MORE,
    TIME_PART_NAMES,
    TIME_PARTS,
    shown_measures,
    with_seeds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from lyra_opt.core.numbers import Show, Unit
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.measures import (
        ComparedMean,
        Measure,
        VariantRuns,
    )

ABOVE_BOUND = "jct_above_bound_share"
MAIN_MEASURES = (
    *(JCT, MEAN_JCT, ABOVE_BOUND, "jct_p50_s", "jct_p95_s"),
    *("jct_max_s", "queue_mean_s", "queue_p95_s", "queue_max_s", "makespan_s"),
    *("fairness_mean", "training_usage_while_submitting", "gpu_usage", "computing_usage"),
    "preemptions",
)
"""Keys of the short results table, in order; keys without a value in any run are left out."""

ONE_UNIT = ("queue_", "jct_")
"""Measures whose keys share one of these prefixes are shown in the unit of their mean."""

OWN_UNIT = frozenset({"wall_time_s", "decision_mean_s", "decision_p99_s", "decision_max_s"})
"""Measures of real time, not of simulated time."""

MOST_BEST = 2 / 3
"""If a larger share of the schemes has the best value of a row, no cell is marked as best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference between a mean under one scheme and under the baseline, in seconds.

    Parameters
    ----------
    compared
        The mean that is compared.
    scheme, baseline
        Labels of the two schemes.
    paired
        The means under the baseline (A) and the scheme (B), averaged over seeds, in seconds, with
        the 95 % confidence intervals of their difference. If all seeds have the same jobs, the
        least and the greatest difference over seeds. NaN if the random units are too few.
    seeds, every_seed
        Number of seeds with which both schemes finished, over which the means are taken; and number
        of all seeds.
    pairs
        Number of pairs of random units.
    random
        The random units.
    part, part_s
        The part of the mean JCT that differs most in the same direction, and by how many seconds;
        "" and 0 if nothing differs.
    """

    compared: ComparedMean
    scheme: str
    baseline: str
    paired: Paired
    seeds: int
    every_seed: int
    pairs: int
    random: RandomInputs
    part: str = ""
    part_s: float = 0.0

    @property
    def label(self) -> str:
        """The name of the scheme, with the number of compared seeds if some are lacking."""
        return with_seeds(self.scheme, self.seeds, self.every_seed)

    @property
    def difference_s(self) -> float:
        """The difference in seconds; negative if the scheme is faster than the baseline."""
        return self.paired.mean_b - self.paired.mean_a

    @property
    def relative(self) -> float:
        """The difference as a share of the baseline; infinite for a baseline of 0 s."""
        if self.paired.mean_a:
            return self.difference_s / self.paired.mean_a
        return math.copysign(math.inf, self.difference_s) if self.difference_s else 0.0

    @property
    def is_relative(self) -> bool:
        """Whether the difference and its interval, if it has one, are known in %."""
        has_ends = math.isnan(self.paired.low) or not math.isnan(self.paired.low_percent)
        return math.isfinite(self.relative) and has_ends

    @property
    def unit(self) -> Unit:
        """The unit of time in which both means are shown."""
        return unit_of(max(self.paired.mean_b, self.paired.mean_a))

    @property
    def may_be_none(self) -> bool:
        """Whether the interval, relative to the baseline if possible, contains 0 or is unknown."""
        ends = self.paired[6:] if self.is_relative else self.paired[3:5]
        return math.isnan(ends[0]) or ends[0] <= 0 <= ends[1]

    def in_words(self) -> str:
        """Return the difference as a clause, such as ``20.0 % lower (...)``."""
        seeds = with_seeds("", self.seeds, self.every_seed).strip(" ()")
        compared = f"on {seeds}; " if seeds else ""
        if self.difference_s == 0:
            return f"the same ({compared}{duration(self.paired.mean_b)})"
        size = f"{share(abs(self.relative))} %"
        if not self.paired.mean_a:
            size = duration(abs(self.difference_s), self.unit)
        word = "lower" if self.difference_s < 0 else "higher"
        unclear = ""
        if self.may_be_none:
            is_sample = self.random.has_intervals
            unclear = ", so it may be chance" if is_sample else ", so not with every seed"
        main_part = ""
        if self.part:
            more = "less" if self.part_s < 0 else "more"
            main_part = (
                f"; above all {duration(abs(self.part_s), self.unit)} {more} from {self.part}"
            )
        return (
            f"{size} {word} ({compared}{self.interval_in_words()}{unclear}; "
            f"{duration(self.paired.mean_b)} instead of {duration(self.paired.mean_a)}{main_part})"
        )

    def interval_in_words(self) -> str:
        """Return the interval of the difference, or its range over seeds, and the units as text."""
        units = self.random.unit
        if math.isnan(self.paired.low):
            return f"{self.random.too_few} for an interval"
        if self.paired.low == self.paired.high:
            return f"the same with each {units[:-1] if self.random.has_intervals else 'seed'}"
        if not self.is_relative:
            ends = [(end, duration(abs(end), self.unit)) for end in self.paired[3:5]]
        else:
            ends = [(end, f"{percent(abs(end))} %") for end in self.paired[6:]]
        (low, low_text), (high, high_text) = ends
        if low < 0 < high:
            shown = f"{low_text} lower to {high_text} higher"
        else:
            shown = f"{high_text} to {low_text}" if high <= 0 else f"{low_text} to {high_text}"
        if not self.random.has_intervals:
            return f"by seed {shown}"
        return f"{100 * CONFIDENCE:.0f} % interval {shown}, {self.pairs:,} {units}"


def differences(
    variant: VariantRuns,
    jobs_of: Callable[[ReplayRecord], pd.DataFrame],
    baseline: str | None = None,
) -> list[Difference]:
    """Return the differences in mean JCT and queuing time of each scheme from the baseline.

    Only seeds with which both schemes finished are compared. The interval depends on them, see
    `lyra_opt.experiments.random_inputs.RandomInputs`. With one seed it is a percentile bootstrap
    over the paired differences of the jobs, which treats jobs as independent and says nothing about
    another draw of jobs.

    Parameters
    ----------
    variant
        The runs of one variant.
    jobs_of
        Returns the table of jobs of a run.
    baseline
        Label of the scheme with which all others are compared; None for the first scheme.
    """
    by_scheme = {
        scheme: {run.seed: run for run in runs} for scheme, runs in variant.by_scheme.items()
    }
    baseline = baseline or next(iter(by_scheme))
    if len(by_scheme) < 2 or baseline not in by_scheme:
        return []
    first = by_scheme.pop(baseline)
    random_seeds = random_inputs(variant.runs)
    found = []
    for compared in COMPARED:
        for scheme, of_seed in by_scheme.items():
            seeds = [seed for seed in first if seed in of_seed]
            if not seeds:
                continue
            random = random_seeds
            if len(seeds) == 1:
                random = RandomInputs(Sample.JOBS)
                tables = [jobs_of(each[seeds[0]]) for each in (first, of_seed)]
                pairs = [table.set_index("job_id")[compared.column] for table in tables]
                before, after = (column.loc[pairs[0].index].to_numpy() for column in pairs)
            else:
                before, after = (
                    np.array([_figures(each[seed])[compared.key] for seed in seeds])
                    for each in (first, of_seed)
                )
            part, part_s = "", 0.0
            if compared.key == JCT:
                part, part_s = _largest_part(
                    [(_figures(first[seed]), _figures(of_seed[seed])) for seed in seeds]
                )
            found.append(
                Difference(
                    compared=compared,
                    scheme=scheme,
                    baseline=baseline,
                    paired=random.paired(before, after),
                    seeds=len(seeds),
                    every_seed=variant.every_seed,
                    pairs=len(before),
                    random=random,
                    part=part,
                    part_s=part_s,
                )
            )
    return found


def differences_table(found: Sequence[Difference]) -> Table:
    """Return differences from one baseline as a table, a row for each scheme and mean."""

    def format_of(unit: Unit) -> Show:
        def shown(value_s: float, largest: float | None = None) -> str:
            text = in_unit(unit)(value_s, largest=largest)
            return text if text == MISSING else f"{text} {unit.symbol}"

        return shown

    paired = [each.paired for each in found]
    shows = [format_of(each.unit) for each in found]
    random = found[0].random
    labels = [each.label for each in found]
    columns = [
        Column(key="scheme", values=[each.scheme for each in found], texts=labels),
        Column(key="measure", values=[each.compared.name for each in found]),
        *paired_columns(paired, shows, random, unit="_s")[2:],
    ]
    paper = with_intervals(columns, random.ends_in_words)
    return Table(columns, f"Differences from {found[0].baseline}", paper=paper)


def _largest_part(
    pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
) -> tuple[str, float]:
    """Return the part of the JCT that explains most of a difference, and how much it differs."""
    if not all(part in of_one for pair in pairs for of_one in pair for part in TIME_PART_NAMES):
        return "", 0.0

    def difference_s(key: str) -> float:
        return statistics.fmean(after[key] - before[key] for before, after in pairs)

    direction = math.copysign(1, difference_s(JCT))
    largest = max(TIME_PART_NAMES, key=lambda part: direction * difference_s(part))
    found_s = difference_s(largest)
    return (TIME_PART_NAMES[largest], found_s) if direction * found_s > 0 else ("", 0.0)


def method_in_words(found: Sequence[Difference]) -> str:
    """Return sentences that explain how the intervals of the differences were computed."""
    by_random: dict[RandomInputs, list[int]] = {}
    for each in found:
        by_random.setdefault(each.random, []).append(each.pairs)
    return " ".join(random.method(counts) for random, counts in by_random.items())


def _figures(run: ReplayRecord) -> Mapping[str, float]:
    assert run.figures is not None, "it finished"
    return run.figures


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A cell of a results table.

    Parameters
    ----------
    text
        The mean over seeds, as text.
    value
        The mean as a number, for sorting; None without a value.
    spread
        The range from the least to the greatest seed; empty with one seed.
    is_best
        Whether the cell is marked as the best of its row.
    """

    text: str
    value: float | None
    spread: str = ""
    is_best: bool = False

    @property
    def with_spread(self) -> str:
        """The mean, followed by the spread in brackets."""
        return f"{self.text} ({self.spread})" if self.spread else self.text


class MeasureRow(NamedTuple):
    """A row of a results table: key, name and unit of a measure, and a cell for each scheme."""

    key: str
    name: str
    unit: str
    cells: Sequence[ShownValue]


def known_values(key: str, runs: Sequence[ReplayRecord]) -> list[Any]:
    """Return the values that a figure has in these runs."""
    return [value for run in runs if (value := (run.figures or {}).get(key)) is not None]


def rows_of(variant: VariantRuns, shown: Sequence[ReplayRecord]) -> list[MeasureRow]:
    """Return the rows of a variant's results table, with a cell for each scheme.

    The best cell is that of a scheme that finished with every seed: means over other seeds cannot
    be compared with it. ``shown`` are all runs of the page: they determine units and rows, so that
    its tables agree.
    """

    def largest(key: str) -> float:
        return max(((run.figures or {}).get(key) or 0 for run in shown), default=0)

    rows = []
    is_whole = list(map(variant.is_whole, variant.by_scheme))
    for measure in shown_measures(shown):
        name, unit, show = shown_as(measure, largest)
        cells = [cell_of(measure.key, runs, show) for runs in variant.by_scheme.values()]
        values = [cell.value for cell in compress(cells, is_whole) if cell.value is not None]
        if measure.better is not None and len(values) > 1:
            best = {LESS: min, MORE: max}[measure.better](values)
            text = next(cell.text for cell in compress(cells, is_whole) if cell.value == best)
            is_best = [one and cell.text == text for one, cell in zip(is_whole, cells, strict=True)]
            if sum(is_best) <= MOST_BEST * len(values):
                cells = [
                    replace(cell, is_best=one) for cell, one in zip(cells, is_best, strict=True)
                ]
        rows.append(MeasureRow(measure.key, name, unit, cells))
    return rows


def main_rows(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Return the rows of the main measures, in the order of `MAIN_MEASURES`."""
    by_key = {row.key: row for row in rows}
    of_priorities = [key for key in by_key if key.startswith("queue_priority_")]
    keys = [*MAIN_MEASURES, *of_priorities, *(("lost_gpu_s",) if of_priorities else ())]
    return [by_key[key] for key in keys if key in by_key]


def shown_as(measure: Measure, largest: Callable[[str], float]) -> tuple[str, str, Show]:
    """Return a measure's name without its unit, the unit, and the function that formats values.

    ``largest`` returns the largest value of a measure in the table, from which the unit follows.
    Lower bounds are rounded down.
    """
    if measure.key.endswith("_s") and measure.key not in OWN_UNIT and "(s)" in measure.name:
        group = next((start for start in ONE_UNIT if measure.key.startswith(start)), None)
        key = measure.key if group is None else f"{group}mean_s"
        if measure in TIME_PARTS:
            key = JCT
        unit = unit_of(largest(key))
        show = in_unit(unit)
        if measure.key.endswith("_bound_s"):
            show = partial(show, rounding=DOWN)
        return measure.name.removesuffix(" (s)"), unit.name, show
    name, bracket, symbol = measure.name.rpartition(" (")
    if bracket and symbol.endswith(")"):
        return name, symbol.removesuffix(")"), measure.show
    return measure.name, "", measure.show


def cell_of(key: str, runs: Sequence[ReplayRecord], show: Show) -> ShownValue:
    """Return the table cell with the mean and the range of a figure over the runs of one scheme."""
    known = known_values(key, runs)
    if not known:
        return ShownValue(MISSING, None)
    if not all(isinstance(value, int | float) for value in known):
        return ShownValue(show(known[0]) if len(known) == 1 else MISSING, None)
    mean = statistics.fmean(known)
    if key == ABOVE_BOUND:
        # The ratio of the means agrees with the means shown above it; the mean of ratios does not.
        of_key = (cell_of(name, runs, show).value for name in (JCT, MEAN_JCT))
        jct_s, bound_s = (value or 0.0 for value in of_key)
        mean = jct_s / bound_s - 1 if bound_s else mean
    least, greatest = show(min(known)), show(max(known))
    spread = f"{least} – {greatest}" if least != greatest else ""
    return ShownValue(show(mean), mean, spread)
