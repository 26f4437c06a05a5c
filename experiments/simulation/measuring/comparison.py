"""Compute the difference of each scheme from the first scheme, and the rows of result tables."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lyra_opt.core.numbers import MISSING, duration, three_digits, unit_of
from lyra_opt.experiments.intervals import CONFIDENCE, bootstrap_interval, student_interval
from lyra_opt.experiments.simulation.measuring.measures import (
    LESS,
    MORE,
    TIME_PART_NAMES,
    TIME_PARTS,
    shown_measures,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from lyra_opt.core.numbers import Unit
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.measures import Measure, VariantRuns

RESAMPLES = 2000
ENOUGH_SEEDS = 5
"""With fewer seeds the tails of Student's t are so long that most intervals contain 0."""

JCT = "jct_mean_s"
JOB_INPUTS = ("submit_s", "work_worker_s", "min_workers", "gpus_per_worker")
"""Columns of the table of jobs that a trace states."""

ASSUMED_INPUTS = (
    *("max_workers", "fungible", "heterogeneous", "checkpoints", "model", "gpu_types", "steps"),
    *("weight", "deadline_s", "priority"),
)
"""Columns of the table of jobs that a scenario may assume."""

MAIN_MEASURES = (
    *("jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_max_s", "queue_mean_s", "queue_p95_s"),
    *("queue_max_s", "makespan_s"),
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


class ComparedMean(NamedTuple):
    """A mean by which schemes are compared: key of the figure, column of the jobs table, name."""

    key: str
    column: str
    name: str


COMPARED = (
    ComparedMean(JCT, "jct_s", "mean JCT"),
    ComparedMean("queue_mean_s", "queued_s", "mean queuing time"),
)


class SeedVariation(NamedTuple):
    """Whether each seed draws its own jobs, and an explanation of what differs between seeds."""

    draws_jobs: bool = True
    in_words: str = ""


def seed_variation(
    runs: Sequence[ReplayRecord], jobs_of: Callable[[ReplayRecord], pd.DataFrame]
) -> SeedVariation:
    """Determine which inputs differ between seeds by comparing the jobs of two seeds.

    ``runs`` are the finished runs of one variant; ``jobs_of`` returns the table of jobs of a run.
    """
    of_first = [run for run in runs if run.scheme == runs[0].scheme]
    if len(of_first) < 2:
        return SeedVariation()
    one, other = (jobs_of(run) for run in of_first[:2])
    differing = [name for name in one if name not in other or not one[name].equals(other[name])]
    if len(one) != len(other) or not set(JOB_INPUTS).isdisjoint(differing):
        return SeedVariation(in_words="Each seed draws its own jobs.")
    names = [name for name in ASSUMED_INPUTS if name in differing]
    if names:
        text = f"Seeds vary only what is assumed of the jobs ({', '.join(names)})"
    elif any(
        _figures(run)[compared.key] != _figures(before)[compared.key]
        for before, run in pairwise(sorted(runs, key=lambda run: run.scheme))
        if before.scheme == run.scheme
        for compared in COMPARED
    ):
        text = "Seeds vary only other random inputs, such as the demand of inference"
    else:
        text = "Seeds vary nothing"
    text += (
        "; the jobs and their running times are the same with each seed. For a confidence interval "
        "over other draws of these jobs, set jobs.bootstrap.days and vary jobs.bootstrap.draw."
    )
    return SeedVariation(draws_jobs=False, in_words=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference between a mean under one scheme and under the baseline, in seconds.

    Parameters
    ----------
    compared
        The mean that is compared.
    scheme, baseline
        Labels of the two schemes.
    mean_s, baseline_s
        The mean under each scheme, averaged over seeds.
    low_s, high_s
        95 % confidence interval of ``mean_s - baseline_s``. If all seeds have the same jobs, the
        least and the greatest difference over seeds.
    pairs
        Number of paired seeds, or of paired jobs if there is one seed.
    over_seeds
        Whether the pairs are seeds.
    variation
        What the seeds vary.
    part, part_s
        The part of the mean JCT that differs most in the same direction, and by how many seconds;
        "" and 0 if nothing differs.
    """

    compared: ComparedMean
    scheme: str
    baseline: str
    mean_s: float
    baseline_s: float
    low_s: float
    high_s: float
    pairs: int
    over_seeds: bool
    variation: SeedVariation
    part: str = ""
    part_s: float = 0.0

    @property
    def difference_s(self) -> float:
        """The difference in seconds; negative if the scheme is faster than the baseline."""
        return self.mean_s - self.baseline_s

    @property
    def relative(self) -> float:
        """The difference as a share of the baseline; infinite for a baseline of 0 s."""
        if self.baseline_s:
            return self.difference_s / self.baseline_s
        return math.copysign(math.inf, self.difference_s) if self.difference_s else 0.0

    @property
    def unit(self) -> Unit:
        """The unit of time in which both means are shown."""
        return unit_of(max(self.mean_s, self.baseline_s))

    def in_words(self) -> str:
        """Return the difference as a clause, such as ``20 % shorter (...)``."""
        if self.difference_s == 0:
            return f"the same ({duration(self.mean_s)})"
        word = "shorter" if self.difference_s < 0 else "longer"
        by = (
            f"{three_digits(100 * abs(self.relative))} %"
            if self.baseline_s
            else duration(abs(self.difference_s), self.unit)
        )
        unclear = ""
        if self.low_s <= 0 <= self.high_s:
            draws_jobs = self.variation.draws_jobs
            unclear = ", so it may be chance" if draws_jobs else ", so not with every seed"
        main_part = ""
        if self.part:
            more = "less" if self.part_s < 0 else "more"
            main_part = (
                f"; above all {duration(abs(self.part_s), self.unit)} {more} from {self.part}"
            )
        return (
            f"{by} {word} ({duration(self.mean_s)} instead of {duration(self.baseline_s)}; "
            f"{self.interval_in_words()}{unclear}{main_part})"
        )

    def interval_in_words(self) -> str:
        """Return the confidence interval of the difference, or its range over seeds, as text."""
        if self.low_s == self.high_s:
            return f"the same with each {'seed' if self.over_seeds else 'job'}"
        low, high = (three_digits(value / self.unit.seconds) for value in (self.low_s, self.high_s))
        kind = "interval" if self.variation.draws_jobs else "by seed"
        return f"{kind} {low} to {high} {self.unit.symbol}"


def differences(
    runs: Sequence[ReplayRecord], jobs_of: Callable[[ReplayRecord], pd.DataFrame]
) -> list[Difference]:
    """Return the differences in mean JCT and queuing time of each scheme from the first scheme.

    The interval depends on the seeds that both schemes have:

    - Several seeds with their own jobs: Student's t over the paired differences of the means.
    - Several seeds with the same jobs: the least and greatest difference, because such seeds are
      not a sample of jobs.
    - One seed: a percentile bootstrap over the paired differences of the jobs. It treats jobs as
      independent and says nothing about another draw of jobs.

    ``runs`` are the finished runs of one variant; ``jobs_of`` returns the table of jobs of a run.
    """
    by_scheme: dict[str, dict[int, ReplayRecord]] = {}
    for run in runs:
        by_scheme.setdefault(run.scheme, {})[run.seed] = run
    if len(by_scheme) < 2:
        return []
    (baseline, first), *others = by_scheme.items()
    variation = seed_variation(runs, jobs_of)
    found = []
    for compared in COMPARED:
        for scheme, of_seed in others:
            seeds = [seed for seed in first if seed in of_seed]
            if not seeds:
                continue
            if len(seeds) == 1:
                tables = [jobs_of(each[seeds[0]]) for each in (first, of_seed)]
                pairs = [table.set_index("job_id")[compared.column] for table in tables]
                before, after = (column.loc[pairs[0].index].to_numpy() for column in pairs)
                low_s, high_s = bootstrap_interval(after - before, RESAMPLES)
            else:
                before, after = (
                    np.array([_figures(each[seed])[compared.key] for seed in seeds])
                    for each in (first, of_seed)
                )
                moved = after - before
                low_s, high_s = float(moved.min()), float(moved.max())
                if variation.draws_jobs:
                    low_s, high_s = student_interval(moved)
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
                    mean_s=statistics.fmean(after),
                    baseline_s=statistics.fmean(before),
                    low_s=low_s,
                    high_s=high_s,
                    pairs=len(before),
                    over_seeds=len(seeds) > 1,
                    variation=variation if len(seeds) > 1 else SeedVariation(),
                    part=part,
                    part_s=part_s,
                )
            )
    return found


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
    meaning = f"Intervals are {100 * CONFIDENCE:.0f} % confidence intervals of the difference:"
    of_seeds = [each for each in found if each.over_seeds]
    if of_seeds:
        text = ""
        if seeds := sorted({each.pairs for each in of_seeds if each.variation.draws_jobs}):
            count = " or ".join(str(number) for number in seeds)
            text = f"{meaning} Student's t over {count} seeds, paired by seed."
            if seeds[0] < ENOUGH_SEEDS:
                text += " So few seeds make wide intervals."
        if any(not each.variation.draws_jobs for each in of_seeds):
            text += (
                " Ranges by seed are from the least difference to the greatest, paired by seed; "
                "they are not confidence intervals."
            )
        return " ".join(
            [text.strip(), *dict.fromkeys(each.variation.in_words for each in of_seeds)]
        )
    counts = sorted({each.pairs for each in found})
    jobs = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return (
        f"{meaning} of one seed only a bootstrap over its jobs ({jobs}), paired by job. It treats "
        "jobs as independent and says nothing about another draw of jobs; if jobs are drawn at "
        "random, use more seeds (--set seeds=5)."
    )


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


def rows_of(variant: VariantRuns, shown: Sequence[ReplayRecord]) -> list[MeasureRow]:
    """Return the rows of a variant's results table, with a cell for each scheme.

    ``shown`` are all runs of the page: they determine units and rows, so that its tables agree.
    """
    rows = []
    for measure in shown_measures(shown):
        name, unit, show = _shown_as(measure, shown)
        cells = [cell_of(measure.key, runs, show) for runs in variant.by_scheme.values()]
        values = [cell.value for cell in cells if cell.value is not None]
        if measure.better is not None and len(values) > 1:
            best = {LESS: min, MORE: max}[measure.better](values)
            best_text = next(cell.text for cell in cells if cell.value == best)
            if sum(cell.text == best_text for cell in cells) <= MOST_BEST * len(values):
                cells = [replace(cell, is_best=cell.text == best_text) for cell in cells]
        rows.append(MeasureRow(measure.key, name, unit, cells))
    return rows


def main_rows(rows: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Return the rows of the main measures, in the order of `MAIN_MEASURES`."""
    by_key = {row.key: row for row in rows}
    of_priorities = [key for key in by_key if key.startswith("queue_priority_")]
    keys = [*MAIN_MEASURES, *of_priorities, *(("lost_gpu_s",) if of_priorities else ())]
    return [by_key[key] for key in keys if key in by_key]


def _shown_as(
    measure: Measure, runs: Sequence[ReplayRecord]
) -> tuple[str, str, Callable[[Any], str]]:
    """Return a measure's name without its unit, the unit, and the function that formats values."""
    if measure.key.endswith("_s") and measure.key not in OWN_UNIT and "(s)" in measure.name:
        group = next((start for start in ONE_UNIT if measure.key.startswith(start)), None)
        key = measure.key if group is None else f"{group}mean_s"
        if measure in TIME_PARTS:
            key = JCT
        unit = unit_of(max(((run.figures or {}).get(key) or 0 for run in runs), default=0))
        name = measure.name.removesuffix(" (s)")
        return name, unit.name, lambda value: three_digits(value / unit.seconds)
    name, bracket, symbol = measure.name.rpartition(" (")
    if bracket and symbol.endswith(")"):
        return name, symbol.removesuffix(")"), measure.show
    return measure.name, "", measure.show


def cell_of(key: str, runs: Sequence[ReplayRecord], show: Callable[[Any], str]) -> ShownValue:
    """Return the table cell with the mean and the range of a figure over the runs of one scheme."""
    known = [value for run in runs if (value := (run.figures or {}).get(key)) is not None]
    if not known:
        return ShownValue(MISSING, None)
    if not all(isinstance(value, int | float) for value in known):
        return ShownValue(show(known[0]) if len(known) == 1 else MISSING, None)
    mean = statistics.fmean(known)
    least, greatest = show(min(known)), show(max(known))
    spread = f"{least} – {greatest}" if least != greatest else ""
    return ShownValue(show(mean), mean, spread)
