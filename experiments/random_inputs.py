"""Determine which inputs differ at random between replays, and which intervals follow from that."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.core.errors import FieldError, UserError, counted
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.numbers import MISSING, Show, alike, percent, signed, three_digits
from lyra_opt.core.table import Column, Table
from lyra_opt.experiments.intervals import (
    CONFIDENCE,
    Resampling,
    bootstrap_interval,
    student_interval,
)
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.measuring.measures import COMPARED

JOB_INPUTS = ("submit_s", "work_worker_s", "min_workers", "gpus_per_worker")
"""Columns of the table of jobs that a trace states."""

ASSUMED_INPUTS = (
    *("max_workers", "fungible", "heterogeneous", "checkpoints", "model", "gpu_types", "steps"),
    *("weight", "deadline_s", "priority"),
)
"""Columns of the table of jobs that a scenario may assume."""

ENOUGH_SEEDS = 5
"""With fewer seeds the tails of Student's t are so long that most intervals contain 0."""

FEWEST_UNITS = 3
"""Fewer units that differ have no interval: Student's t of two is 12.7 times the standard error."""

WIDEST_FACTOR = 10.0
"""An interval that reaches further than this factor from the ratio of the means is not shown."""

RESAMPLES = 2000

DRAW_AXIS = "jobs.bootstrap.draw"
"""The axis of a scenario whose values are draws, not settings."""


class Sample(StrEnum):
    """The random units over which an interval is computed."""

    SEEDS = "seeds"
    """Each seed draws its own jobs."""
    DRAWS = "draws"
    """Each draw resamples the days of one trace."""
    ASSUMPTIONS = "seeds of the same jobs"
    """All seeds have the same jobs, so they are not a sample of jobs."""
    JOBS = "jobs"
    """There is one seed, and its jobs are paired."""
    INSTANCES = "instances"
    """Each instance of a study is one pair."""


class Paired(NamedTuple):
    """The means of A and B over paired units, B - A with its interval, and the same in % of A.

    The ends of an interval are NaN if they are unknown, which tables show as a dash.
    """

    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    change_percent: float
    low_percent: float
    high_percent: float


@dataclass(frozen=True, slots=True)
class RandomInputs:
    """The random unit of a comparison, and an explanation of what differs between the units."""

    unit: Sample = Sample.SEEDS
    in_words: str = ""
    resampling: Resampling | None = None

    @property
    def has_intervals(self) -> bool:
        """Whether the units are a sample, so that their differences have a confidence interval."""
        return self.unit is not Sample.ASSUMPTIONS

    @property
    def too_few(self) -> str:
        """The reason why a difference has no interval, such as "too few draws"."""
        return f"too few {self.unit.split()[0]}"

    @property
    def ends_in_words(self) -> tuple[str, str]:
        """The headings of the two ends of an interval, or of a range."""
        if self.has_intervals:
            return f"{100 * CONFIDENCE:.0f} % from", "to"
        return "least", "greatest"

    def interval(self, values: np.ndarray) -> tuple[float, float]:
        """Return the interval of the mean of at least two values, one per unit.

        Units that are not a sample have the least and the greatest value instead.
        """
        if self.resampling is not None:
            return self.resampling.interval(values)
        if self.unit is Sample.JOBS:
            return bootstrap_interval(values, RESAMPLES)
        if self.has_intervals:
            return student_interval(values)
        return float(values.min()), float(values.max())

    def paired(self, before: np.ndarray, after: np.ndarray) -> Paired:
        """Return the difference of two means over the same units.

        The interval in % is computed for the logarithm of the ratio of the means, which is
        linearised around its value (delta method). So the baseline counts as random too, and no end
        is below -100 %. It is NaN if a mean is not above 0, or a single unit is not 0: then nothing
        tells how much the ratio varies.

        Both intervals are NaN if the units are too few: fewer than `FEWEST_UNITS` that differ, or
        an infinite interval, or an interval of the ratio that reaches further than `WIDEST_FACTOR`
        from it. Such an interval says nothing, and its two forms contradict one another.
        """
        means = float(before.mean()), float(after.mean())
        low = high = low_percent = high_percent = math.nan
        if len(before) > 1:
            low, high = self.interval(after - before)
            is_few = self.has_intervals and len(before) < FEWEST_UNITS
            is_wide = math.isinf(low) or (is_few and low < high)
            if min(means) > 0 and min((before != 0).sum(), (after != 0).sum()) > 1:
                ratio = math.log(means[1] / means[0])
                ends = self.interval(ratio + after / means[1] - before / means[0])
                is_wide |= self.has_intervals and ends[1] - ratio > math.log(WIDEST_FACTOR)
                if not is_wide:
                    low_percent, high_percent = (100 * math.expm1(end) for end in ends)
            if is_wide:
                low = high = math.nan
        change = 100 * (means[1] / means[0] - 1) if means[0] else math.nan
        difference = float((after - before).mean())
        return Paired(*means, difference, low, high, change, low_percent, high_percent)

    def method(self, counts: Collection[int]) -> str:
        """Return sentences on how intervals are computed from these numbers of units."""
        few, most = (f"{each:,}" for each in (min(counts), max(counts)))
        count = few if few == most else f"{few} to {most}"
        how = f"Intervals are {100 * CONFIDENCE:.0f} % confidence intervals of the difference"
        texts = {
            Sample.SEEDS: f"{how}: Student's t over {count} seeds, paired by seed.",
            Sample.INSTANCES: f"{how}: Student's t over {count} instances, paired by instance.",
            Sample.DRAWS: f"{how} on traces like this one, from the spread of {count} draws of its "
            "days, paired by draw. More draws make it more certain; only more days in the trace "
            "make it narrower.",
            Sample.ASSUMPTIONS: "Ranges by seed are from the least difference to the greatest, "
            "paired by seed; they are not confidence intervals.",
            Sample.JOBS: f"{how}: of one seed only a bootstrap over its jobs ({count}), paired by "
            "job. It treats jobs as independent and says nothing about another draw of jobs. For "
            "that, use more seeds (set seeds to 5); for a trace, also set jobs.bootstrap.days.",
        }
        text = texts[self.unit]
        if self.has_intervals and max(counts) < FEWEST_UNITS:
            text = f"A dash stands for {self.too_few}: fewer than {FEWEST_UNITS} have no interval."
        elif self.unit in (Sample.SEEDS, Sample.DRAWS) and min(counts) < ENOUGH_SEEDS:
            text += f" So few {self.unit} make wide intervals. A dash stands for {self.too_few}."
        return f"{text} {self.in_words}".strip()


def paired_columns(
    rows: Sequence[Paired],
    shows: Sequence[Show],
    random: RandomInputs,
    *,
    names: tuple[str, str] = ("A", "B"),
    unit: str = "",
) -> list[Column]:
    """Return the columns of a table of differences; each row has its own number format.

    ``names`` are the headings of the means, and ``unit`` is the end of the keys of columns that are
    not percentages, such as "_s".
    """
    ends = random.ends_in_words
    headings = (*names, "difference", *ends, "difference", *ends)
    columns = []
    for place, (name, heading) in enumerate(zip(Paired._fields, headings, strict=True)):
        values = [row[place] for row in rows]
        if name.endswith("_percent"):
            show = signed(percent)
            columns.append(Column(key=name, values=values, show=show, heading=heading, unit="%"))
            continue
        formats = shows
        if not name.startswith("mean"):
            formats = [signed(alike(show, row[2:5])) for show, row in zip(shows, rows, strict=True)]
        texts = [show(value) for show, value in zip(formats, values, strict=True)]
        key, number = f"{name}{unit}", three_digits
        columns.append(Column(key=key, values=values, show=number, heading=heading, texts=texts))
    return columns


def with_intervals(columns: Sequence[Column], ends: tuple[str, str]) -> list[Column]:
    """Return columns for papers, which have a difference and its interval in one cell.

    ``ends`` are the headings of `RandomInputs.ends_in_words`.
    """
    low, high = ends
    interval = low.replace("from", "interval") if high == "to" else f"{low} to {high}"
    by_key = {column.key: column for column in columns}
    found = []
    for column in columns:
        name, _, _ = column.key.partition("_")
        if name in ("difference", "change"):
            form = column.key.removeprefix(name)
            cells = zip(
                *(each.cells for each in (column, by_key[f"low{form}"], by_key[f"high{form}"])),
                strict=True,
            )
            texts = [_with_interval(*each) for each in cells]
            heading = f"{column.heading}, {interval}"
            column = replace(column, texts=texts, heading=heading)
        if name not in ("low", "high"):
            found.append(column)
    return found


def _with_interval(mean: str, low: str, high: str) -> str:
    """Return a difference with its interval, whose ends have no unit of their own."""
    if MISSING in (low, high):
        return mean if mean == MISSING else f"{mean} ({MISSING})"
    unit = mean.partition(" ")[2]
    ends = (end.removesuffix(unit).rstrip() if unit else end for end in (low, high))
    return "{} ({} to {})".format(mean, *ends)


def paired_table(columns: Sequence[Column], random: RandomInputs, title: str = "") -> Table:
    """Return a table of differences; in papers, they are in percent alone."""
    relative = [each for each in columns if each.key not in ("difference", "low", "high")]
    return Table(columns, title, paper=with_intervals(relative, random.ends_in_words))


def require_baseline(named: str | None, known: Sequence[str]) -> None:
    """Raise `UserError` if a baseline is named that is not one of the schemes or solvers."""
    if named is not None and named not in known:
        raise UserError(
            f"baseline {named}: no scheme or solver has this name; {meant(named, known)}"
        )


def resampling_of(setting: Mapping[str, Any]) -> Resampling | None:
    """Return how the days of a replay's jobs were resampled; raise `FieldError` if damaged."""
    given = setting.get("bootstrap")
    if given is None:
        return None
    names = {field.name for field in fields(Resampling)}
    if not isinstance(given, dict) or given.keys() != names:
        raise FieldError("setting.bootstrap", given, f"must have the keys {', '.join(names)}")
    if not all(
        isinstance(given[name], int) and given[name] >= (name != "source") for name in names
    ):
        raise FieldError("setting.bootstrap", given, "must have positive integers")
    return Resampling(**given)


def random_inputs(runs: Sequence[ReplayRecord]) -> RandomInputs:
    """Determine what differs between the finished replays of one variant, apart from the scheme."""
    ((most, _),) = Counter(run.scheme for run in runs).most_common(1)
    of_one = [run for run in runs if run.scheme == most]
    inputs = [run.setting.get("inputs") for run in of_one]
    known = [each for each in inputs if isinstance(each, dict)]
    if len(of_one) < 2 or len(known) < len(inputs):
        return RandomInputs()
    differing = {
        name for one, other in pairwise(known) for name in one if one[name] != other.get(name)
    }
    if not differing.isdisjoint(JOB_INPUTS):
        found, *others = {resampling_of(run.setting) for run in of_one}
        if found is None or others:
            return RandomInputs(in_words="Each seed draws its own jobs.")
        return RandomInputs(
            Sample.DRAWS,
            f"Each draw has {counted(found.days, 'day')}, sampled from the {found.source_days} "
            f"days of the jobs in blocks of {counted(found.block_days, 'day')}.",
            found,
        )
    if differing:
        names = ", ".join(name for name in ASSUMED_INPUTS if name in differing)
        text = f"Seeds vary only what is assumed of the jobs ({names})"
    elif any(
        (before.figures or {}).get(each.key) != (run.figures or {}).get(each.key)
        for before, run in pairwise(sorted(runs, key=lambda run: run.scheme))
        if before.scheme == run.scheme
        for each in COMPARED
    ):
        text = "Seeds vary only other random inputs, such as the demand of inference"
    else:
        text = "Seeds vary nothing"
    return RandomInputs(
        Sample.ASSUMPTIONS,
        f"{text}; the jobs and their running times are the same with each seed. For a confidence "
        "interval over other draws of these jobs, set jobs.bootstrap.days.",
    )
