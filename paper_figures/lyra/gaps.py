"""What closing the gaps changes: the optimum of reclaiming, and a better allocation rule, in use.

No table of the paper: our own question, whether users feel the gap between a heuristic and the
optimum. Pairs of schemes that differ in one thing run on the same jobs and loans.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paper_figures.comparison import MISSING, Table
from paper_figures.lyra.schemes import BASELINE, LYRA
from paper_figures.report import Answer
from paper_figures.simulations import Case, with_seeds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paper_figures.simulations import ReclaimDecisions, Result, Results, Setting

NAME = "lyra-closing-gaps"
TITLE = "What closing the gaps changes"

HEAVY_LOAD = 1.0
LOADS = {"published load": None, f"load of {100 * HEAVY_LOAD:g} %": HEAVY_LOAD}
"""Load on the training cluster, by name: with the published one hardly anybody waits under Lyra."""

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Change:
    """What is changed of Lyra.

    Parameters
    ----------
    name
        Of the change.
    case
        Lyra, changed.
    question
        What the page asks of it; None for a change that it only lists.
    """

    name: str
    case: Case
    question: str | None = None


CHANGES = (
    Change(
        "exact reclaiming",
        Case(scheme="lyra-exact"),
        "Does closing the reclaiming gap change what users feel?",
    ),
    Change(
        "smallest remaining work",
        replace(LYRA, changes=(("queue", "smallest-work"), ("scaling", "policy:srw"))),
        "Does the better allocation rule change what users feel?",
    ),
    Change(
        "both, and least lost work",
        Case(scheme="least-loss"),
        "And both together, where reclaiming counts lost work rather than jobs?",
    ),
)

MEANINGS = {
    "exact reclaiming": "the servers to give back are the proved optimum (fewest preempted jobs) "
    "instead of the greedy's",
    "smallest remaining work": "jobs start, and grow, by smallest remaining work instead of "
    "shortest running time and the knapsack",
    "both, and least lost work": "smallest remaining work, and the servers to give back are those "
    "that lose the least work, proved (scheme least-loss)",
}

MEASURES = {
    "mean queuing time": ("queue_mean_s", "s"),
    "mean JCT": ("jct_mean_s", "s"),
    "preemptions": ("preemptions", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a measure differs from Lyra's, over pairs with the same seed.

    Parameters
    ----------
    load, change, measure
        What differs, and where.
    unit
        Of the measure.
    pairs
        The measure under Lyra and under the changed scheme, by seed.
    """

    load: str
    change: str
    measure: str
    unit: str
    pairs: tuple[tuple[float, float], ...]

    @property
    def lyra(self) -> float:
        """Mean of the measure under Lyra."""
        return statistics.fmean(before for before, _ in self.pairs)

    @property
    def mean(self) -> float:
        """Mean of the differences, changed scheme less Lyra."""
        return statistics.fmean(after - before for before, after in self.pairs)

    @property
    def percentages(self) -> tuple[float, ...]:
        """Change of each pair in percent; empty if a measure is 0, so that a ratio says nothing."""
        return tuple(_as_percent(logarithm) for logarithm in self._logarithms)

    @property
    def percent(self) -> float | None:
        """Geometric mean of the changes, in percent."""
        logarithms = self._logarithms
        return _as_percent(statistics.fmean(logarithms)) if logarithms else None

    @property
    def interval_percent(self) -> tuple[float, float] | None:
        """Confidence interval of that mean, by Student's t of the logarithms; None of one pair."""
        logarithms = self._logarithms
        if len(logarithms) < 2:
            return None
        from scipy.stats import t

        error = statistics.stdev(logarithms) / math.sqrt(len(logarithms))
        half_width = float(t.ppf((1 + CONFIDENCE) / 2, len(logarithms) - 1)) * error
        mean = statistics.fmean(logarithms)
        return _as_percent(mean - half_width), _as_percent(mean + half_width)

    @property
    def is_felt(self) -> bool:
        """Whether there is an interval and it leaves out 0."""
        interval = self.interval_percent
        return interval is not None and (interval[0] > 0 or interval[1] < 0)

    @property
    def points_one_way(self) -> bool:
        """Whether the measure rises in all pairs, or falls in all of them."""
        signs = {(after > before) - (after < before) for before, after in self.pairs}
        return len(signs) == 1 and 0 not in signs

    def in_words(self) -> str:
        """Return mean and spread."""
        unit = f" {self.unit}" if self.unit else ""
        words = f"{self.mean:+.3g}{unit} in the mean"
        if self.percent is None:
            return f"{self.measure} {words}"
        if len(self.pairs) > 1:
            low, high = min(self.percentages), max(self.percentages)
            words = f"over seeds {low:+.1f} to {high:+.1f} %; {words}"
        return f"{self.measure} {self.percent:+.1f} % ({words})"

    @property
    def _logarithms(self) -> tuple[float, ...]:
        if any(before <= 0 or after <= 0 for before, after in self.pairs):
            return ()
        return tuple(math.log(after / before) for before, after in self.pairs)


def _as_percent(logarithm: float) -> float:
    return 100 * math.expm1(logarithm)


@dataclass(frozen=True, slots=True, kw_only=True)
class GapReport:
    """The page.

    Parameters
    ----------
    differences
        By load, change and measure.
    decisions
        By load: how Lyra's greedy compares with the optimum, decision by decision.
    baseline
        By load and measure: what all of Lyra changes of the Baseline, in percent; what any gap is
        to be seen against.
    seeds
        Pairs of every difference.
    setting_in_words
        What was simulated.
    """

    differences: tuple[Difference, ...]
    decisions: dict[str, ReclaimDecisions]
    baseline: dict[tuple[str, str], float]
    seeds: int
    setting_in_words: str

    @property
    def name(self) -> str:
        """File name of the page."""
        return NAME

    @property
    def title(self) -> str:
        """What it is about."""
        return TITLE

    @property
    def picture(self) -> str:
        """Name of its plot."""
        return "gaps"

    def answers(self) -> list[Answer]:
        """Return the questions with what was found, in sentences."""
        return [
            Answer(
                question=change.question,
                sentences=tuple(self._sentence(load, change.name) for load in LOADS),
            )
            for change in CHANGES
            if change.question is not None
        ]

    def further_answers(self) -> list[Answer]:
        """Return how often the greedy is not optimal."""
        return [
            Answer(
                question="How often is the greedy not optimal?",
                sentences=tuple(self.decisions_in_words()),
            )
        ]

    def _sentence(self, load: str, change: str) -> str:
        rows = [row for row in self.differences if (row.load, row.change) == (load, change)]
        waits = [row for row in rows if row.unit]
        felt = [row for row in waits if row.is_felt]
        if self.seeds < 2:
            verdict = "One seed shows no spread"
        elif felt:
            better = [row.measure for row in felt if row.mean < 0]
            worse = [row.measure for row in felt if row.mean > 0]
            parts = [
                f"{word} in {' and '.join(measures)}"
                for word, measures in (("better", better), ("worse", worse))
                if measures
            ]
            verdict = f"Yes, {', '.join(parts)}"
        elif any(row.points_one_way for row in waits):
            verdict = f"Not settled by {self.seeds} seeds, which point one way"
        else:
            verdict = "No, not beyond the spread over seeds"
        found = "; ".join(row.in_words() for row in rows)
        return f"At the {load}: {verdict}. {change.capitalize()} changes {found}."

    def decisions_in_words(self) -> list[str]:
        """Return how often the greedy is not optimal, a sentence for each load."""
        return [
            f"At the {load} Lyra's greedy decides {found.decisions:,} times which servers to give "
            f"back; {found.forced:,} times it preempts anybody. {found.suboptimal:,} of these "
            f"({_percent(found.suboptimal, found.forced)}) preempt more jobs than are needed, "
            f"{found.excess:,} in all; {found.unproved:,} are not settled."
            for load, found in self.decisions.items()
        ]

    def tables(self) -> list[Table]:
        """Return each difference as a row."""
        return [Table(title="", header=self._header(), rows=list(self._rows()), words=3)]

    def _header(self) -> list[str]:
        interval = f"{100 * CONFIDENCE:g} % interval"
        return ["load", "change", "measure", "Lyra", "difference", "%", interval, "over seeds (%)"]

    def _rows(self) -> Iterable[list[str]]:
        for row in self.differences:
            percentages = row.percentages
            yield [
                row.load,
                row.change,
                f"{row.measure} ({row.unit})" if row.unit else row.measure,
                f"{row.lyra:.4g}" if abs(row.lyra) < 1e4 else f"{row.lyra:.0f}",
                f"{row.mean:+.4g}",
                MISSING if row.percent is None else f"{row.percent:+.1f}",
                _range(row.interval_percent),
                _range((min(percentages), max(percentages)) if percentages else None),
            ]

    def notes(self) -> list[str]:
        """Return what a reader must know."""
        gained = "; ".join(
            f"{measure} {percent:+.0f} % at the {load}"
            for (load, measure), percent in self.baseline.items()
        )
        return [
            self.setting_in_words,
            f"Pairs of runs on the same jobs and loans, {self.seeds} seeds; percentages are "
            f"geometric means over pairs. The answer is yes where the {100 * CONFIDENCE:g} % "
            "interval of that mean (Student's t of the logarithms) leaves out zero; of few seeds "
            "it is wide. Each interval stands for itself: of twenty, one misses by chance.",
            *(f"{name.capitalize()}: {meaning}." for name, meaning in MEANINGS.items()),
            f"Against this: all of Lyra changes {gained}, compared with the Baseline.",
            "A better decision now is no promise for later: after the first that differs two runs "
            "go their own ways, and fewer jobs preempted need not be fewer preemptions in all.",
        ]


def cases(setting: Setting) -> list[Case]:
    """Return what the page is made of."""
    return [
        each
        for load in LOADS.values()
        for case in (BASELINE, LYRA, *(change.case for change in CHANGES))
        for each in with_seeds(replace(case, load=load), setting.seeds)
    ]


def report(results: Results) -> GapReport:
    """Return the page."""
    differences = []
    decisions = {}
    baseline = {}
    seeds = results.setting.seeds
    for name, load in LOADS.items():
        lyra = results.over_seeds(replace(LYRA, load=load), seeds)
        fifo = results.over_seeds(replace(BASELINE, load=load), seeds)
        decisions[name] = _total(lyra)
        for change in CHANGES:
            changed = results.over_seeds(replace(change.case, load=load), seeds)
            for measure, (key, unit) in MEASURES.items():
                differences.append(
                    Difference(
                        load=name,
                        change=change.name,
                        measure=measure,
                        unit=unit,
                        pairs=_pairs(lyra, changed, key),
                    )
                )
        for measure, (key, unit) in MEASURES.items():
            of_all = Difference(
                load=name, change="", measure=measure, unit=unit, pairs=_pairs(fifo, lyra, key)
            )
            if of_all.percent is not None:
                baseline[name, measure] = of_all.percent
    return GapReport(
        differences=tuple(differences),
        decisions=decisions,
        baseline=baseline,
        seeds=results.setting.seeds,
        setting_in_words=results.setting.in_words(),
    )


def _pairs(
    before: Sequence[Result], after: Sequence[Result], key: str
) -> tuple[tuple[float, float], ...]:
    return tuple(
        (float(first.record[key]), float(second.record[key]))
        for first, second in zip(before, after, strict=True)
    )


def _total(found: Sequence[Result]) -> ReclaimDecisions:
    total = replace(found[0].reclaims)
    for result in found[1:]:
        for name in total.__slots__:
            setattr(total, name, getattr(total, name) + getattr(result.reclaims, name))
    return total


def _range(ends: tuple[float, float] | None) -> str:
    return MISSING if ends is None else f"{ends[0]:+.1f} to {ends[1]:+.1f}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"
