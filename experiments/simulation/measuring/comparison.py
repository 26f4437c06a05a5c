"""Schemes side by side: their measures, and how far each is from the first one."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.experiments.intervals import CONFIDENCE, bootstrap_interval, student_interval
from lyra_opt.experiments.simulation.measuring.measures import (
    LESS,
    MORE,
    TIME_PART_NAMES,
    TIME_PARTS,
    duration,
    shown_measures,
    three_digits,
    unit_of,
)
from lyra_opt.experiments.tables import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.measuring.measures import Measure, Unit, VariantRuns

RESAMPLES = 2000

ENOUGH_SEEDS = 5
"""With fewer, Student's t has tails so long that most intervals reach over 0."""

JCT = "jct_mean_s"

OF_JOBS = ("submit_s", "work_worker_s", "min_workers", "gpus_per_worker")

OF_ASSUMPTIONS = (
    *("max_workers", "fungible", "heterogeneous", "checkpoints", "model", "gpu_types", "steps"),
    *("weight", "deadline_s"),
)
"""Columns of the table of jobs that say which jobs there are, and what is assumed of them."""

OTHER_JOBS = (
    "For a confidence interval over other draws of these jobs, set jobs.bootstrap.days and vary "
    "jobs.bootstrap.draw."
)

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

FEW = 100
"""Means of counts below it have decimals."""

MOST_BEST = 2 / 3
"""Share of the schemes that may be the best of a row; if more of them are, none is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMean:
    """A mean that schemes are compared by.

    Parameters
    ----------
    key
        Of the figures of a replay.
    column
        Of the table of jobs, whose mean it is.
    name
        In words.
    """

    key: str
    column: str
    name: str


COMPARED = (
    ComparedMean(key=JCT, column="jct_s", name="mean JCT"),
    ComparedMean(key="queue_mean_s", column="queued_s", name="mean queuing time"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied:
    """What differs between the seeds of a variant.

    Parameters
    ----------
    jobs
        Whether each seed draws its own jobs, so that seeds are a sample of jobs.
    in_words
        What a seed varies, in sentences; empty with one seed.
    """

    jobs: bool = True
    in_words: str = ""


def what_seeds_vary(
    runs: Sequence[ReplayRecord], jobs_of: Callable[[ReplayRecord], pd.DataFrame]
) -> Varied:
    """Return what differs between the seeds of a variant, by the tables of jobs of two of them.

    Parameters
    ----------
    runs, jobs_of
        As of `differences`.
    """
    of_first = [run for run in runs if run.scheme == runs[0].scheme]
    if len(of_first) < 2:
        return Varied()
    one, other = (jobs_of(run) for run in of_first[:2])
    differing = [name for name in one if name not in other or not one[name].equals(other[name])]
    if len(one) != len(other) or not set(OF_JOBS).isdisjoint(differing):
        return Varied(in_words="Each seed draws its own jobs.")
    names = [name for name in OF_ASSUMPTIONS if name in differing]
    if names:
        text = f"Seeds vary only what is assumed of the jobs ({', '.join(names)})"
    elif any(
        _figures(run)[compared.key] != _figures(before)[compared.key]
        for before, run in pairwise(sorted(runs, key=lambda run: run.scheme))
        if before.scheme == run.scheme
        for compared in COMPARED
    ):
        text = "Seeds vary only what else is drawn in a run, such as the demand of inference"
    else:
        text = "Seeds vary nothing"
    text += "; the jobs and their running times are the same with each seed."
    return Varied(jobs=False, in_words=f"{text} {OTHER_JOBS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """By how much a mean of one scheme differs from that of another.

    Parameters
    ----------
    compared
        Which mean.
    scheme, baseline
        Labels of both.
    mean_s, baseline_s
        Both means, over seeds too.
    low_s, high_s
        Confidence interval of ``mean_s - baseline_s``; its least and greatest value over seeds
        where these have the same jobs.
    pairs
        How many seeds are paired, or jobs where there is one seed.
    over_seeds
        Which of both.
    varied
        What seeds vary.
    part, part_s
        Of a mean JCT the part that differs most in the same direction, in words, and by how much;
        "" and 0 where nothing differs.
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
    varied: Varied
    part: str = ""
    part_s: float = 0.0

    @property
    def difference_s(self) -> float:
        """The difference; below 0 where the scheme is the faster one."""
        return self.mean_s - self.baseline_s

    @property
    def percent(self) -> float | None:
        """The difference in percent of the baseline; None where that is 0."""
        return 100 * self.difference_s / self.baseline_s if self.baseline_s else None

    @property
    def relative(self) -> float:
        """The difference as a share of the baseline; infinite where that is 0, and it is not."""
        if self.baseline_s:
            return self.difference_s / self.baseline_s
        return math.copysign(math.inf, self.difference_s) if self.difference_s else 0.0

    @property
    def is_clear(self) -> bool:
        """Whether the interval, or the range over seeds, leaves out 0."""
        return self.low_s > 0 or self.high_s < 0

    @property
    def unit(self) -> Unit:
        """The unit that suits both means."""
        return unit_of(max(self.mean_s, self.baseline_s))

    def in_words(self) -> str:
        """Return it as a clause, such as ``20 % shorter (...)``."""
        if self.difference_s == 0:
            return f"the same ({duration(self.mean_s)})"
        word = "shorter" if self.difference_s < 0 else "longer"
        by = (
            duration(abs(self.difference_s), self.unit)
            if self.percent is None
            else f"{three_digits(abs(self.percent))} %"
        )
        chance = ", so it may be chance" if self.varied.jobs else ", so not with every seed"
        unclear = "" if self.is_clear else chance
        return (
            f"{by} {word} ({duration(self.mean_s)} instead of {duration(self.baseline_s)}; "
            f"{self.interval_in_words()}{unclear}{self._part_in_words()})"
        )

    def _part_in_words(self) -> str:
        if not self.part:
            return ""
        word = "less" if self.part_s < 0 else "more"
        return f"; above all {duration(abs(self.part_s), self.unit)} {word} of {self.part}"

    def interval_in_words(self) -> str:
        """Return the interval, or the range over seeds, with its unit; words if nothing varies."""
        if self.low_s == self.high_s:
            return f"the same with each {'seed' if self.over_seeds else 'job'}"
        low, high = (
            three_digits(value / self.unit.seconds).replace("-", "−")
            for value in (self.low_s, self.high_s)
        )
        kind = "interval" if self.varied.jobs else "by seed"
        return f"{kind} {low} to {high} {self.unit.symbol}"


def differences(
    runs: Sequence[ReplayRecord], jobs_of: Callable[[ReplayRecord], pd.DataFrame]
) -> list[Difference]:
    """Return how each scheme of a variant differs from the first one.

    Where both have several seeds in common, and each draws its own jobs, the interval is that of
    Student's t over the differences of the means of each seed. Where seeds have the same jobs, they
    are no sample of jobs: there is no interval but the least and the greatest difference. With one
    seed it is a percentile
    bootstrap over the differences of each job, which treats jobs as independent of one another and
    says nothing of another draw.

    Parameters
    ----------
    runs
        That finished; rows of one variant.
    jobs_of
        Returns the table of jobs of a run.
    """
    by_scheme: dict[str, dict[int, ReplayRecord]] = {}
    for run in runs:
        by_scheme.setdefault(run.scheme, {})[run.seed] = run
    if not by_scheme:
        return []
    (baseline, first), *others = by_scheme.items()
    varied = what_seeds_vary(runs, jobs_of) if others else Varied()
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
                low_s, high_s = (
                    student_interval(moved)
                    if varied.jobs
                    else (float(moved.min()), float(moved.max()))
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
                    mean_s=statistics.fmean(after),
                    baseline_s=statistics.fmean(before),
                    low_s=low_s,
                    high_s=high_s,
                    pairs=len(before),
                    over_seeds=len(seeds) > 1,
                    varied=varied if len(seeds) > 1 else Varied(),
                    part=part,
                    part_s=part_s,
                )
            )
    return found


def _largest_part(
    pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
) -> tuple[str, float]:
    """Return the part of the JCT that says most of a difference: its name, and by how much."""
    if not all(part in of_one for pair in pairs for of_one in pair for part in TIME_PART_NAMES):
        return "", 0.0

    def differs_s(key: str) -> float:
        return statistics.fmean(after[key] - before[key] for before, after in pairs)

    direction = math.copysign(1, differs_s(JCT))
    largest = max(TIME_PART_NAMES, key=lambda part: direction * differs_s(part))
    found_s = differs_s(largest)
    return (TIME_PART_NAMES[largest], found_s) if direction * found_s > 0 else ("", 0.0)


def method_in_words(found: Sequence[Difference]) -> str:
    """Return how the intervals of at least one difference were made."""
    meaning = f"Intervals are {100 * CONFIDENCE:.0f} % confidence intervals of the difference:"
    of_seeds = [each for each in found if each.over_seeds]
    if of_seeds:
        text = ""
        if seeds := sorted({each.pairs for each in of_seeds if each.varied.jobs}):
            count = " or ".join(str(number) for number in seeds)
            text = f"{meaning} Student's t over {count} seeds, paired by seed."
            if seeds[0] < ENOUGH_SEEDS:
                text += " So few seeds make wide intervals."
        if any(not each.varied.jobs for each in of_seeds):
            text += (
                " Ranges by seed are from the least difference to the greatest, paired by seed; "
                "they are not confidence intervals."
            )
        varied = dict.fromkeys(each.varied.in_words for each in of_seeds)
        return " ".join([text.strip(), *varied])
    counts = sorted({each.pairs for each in found})
    jobs = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return (
        f"{meaning} of one seed only a bootstrap over its jobs ({jobs}), paired by job. It takes "
        "jobs as independent and says nothing of another draw of jobs; where they are drawn, more "
        "seeds do (--set seeds=5)."
    )


def _figures(run: ReplayRecord) -> Mapping[str, float]:
    assert run.figures is not None, "it finished"
    return run.figures


@dataclass(frozen=True, slots=True)
class ShownValue:
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
class MeasureRow:
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
    cells: Sequence[ShownValue]


def rows_of(variant: VariantRuns, shown: Sequence[ReplayRecord]) -> list[MeasureRow]:
    """Return every measure that says something, under each scheme of a variant.

    Parameters
    ----------
    shown
        All runs of the page, by which units and rows are chosen, so that its tables agree.
    """
    return [_row(measure, variant, shown) for measure in shown_measures(shown)]


def main_rows(lines: Sequence[MeasureRow]) -> list[MeasureRow]:
    """Return those of the short table, in its order."""
    by_key = {line.key: line for line in lines}
    return [by_key[key] for key in MAIN_MEASURES if key in by_key]


def _shown_as(
    measure: Measure, runs: Sequence[ReplayRecord]
) -> tuple[str, str, Callable[[Any], str]]:
    """Return a measure's name without its unit, the unit, and how its values are shown."""
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


def _row(measure: Measure, variant: VariantRuns, shown: Sequence[ReplayRecord]) -> MeasureRow:
    name, unit, show = _shown_as(measure, shown)
    cells = [cell_of(measure.key, runs, show) for runs in variant.by_scheme.values()]
    values = [cell.value for cell in cells if cell.value is not None]
    if measure.better is not None and len(values) > 1:
        best = {LESS: min, MORE: max}[measure.better](values)
        best_text = next(cell.text for cell in cells if cell.value == best)
        if sum(cell.text == best_text for cell in cells) <= MOST_BEST * len(values):
            cells = [replace(cell, is_best=cell.text == best_text) for cell in cells]
    return MeasureRow(measure.key, name, unit, cells)


def cell_of(key: str, runs: Sequence[ReplayRecord], show: Callable[[Any], str]) -> ShownValue:
    """Return a figure of the runs of one scheme: its mean over seeds, and the spread."""
    known = [value for run in runs if (value := (run.figures or {}).get(key)) is not None]
    if not known:
        return ShownValue(NOTHING, None)
    if not all(isinstance(value, int | float) for value in known):
        return ShownValue(show(known[0]) if len(known) == 1 else NOTHING, None)
    mean = statistics.fmean(known)
    least, greatest = show(min(known)), show(max(known))
    spread = f"{least} – {greatest}" if least != greatest else ""
    if not all(isinstance(value, int) for value in known):
        return ShownValue(show(mean), mean, spread)
    has_decimals = mean < FEW and mean != round(mean)
    return ShownValue(three_digits(mean) if has_decimals else show(round(mean)), mean, spread)
