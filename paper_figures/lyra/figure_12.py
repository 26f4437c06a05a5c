"""Figure 12: gains on ten traces drawn from the days of the workload."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import (
    BASELINE,
    GAINS,
    IDEAL_LYRA,
    LYRA,
    baseline_of,
    gain_over,
)
from paper_figures.simulations import BOOTSTRAP_DAYS, PUBLISHED_BOOTSTRAPS

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

# Mean gains over the Baseline in mean queuing time and in mean JCT.
ROWS = {"Basic, Lyra": (LYRA, ("1.45", "1.44")), "Ideal, Lyra": (IDEAL_LYRA, ("2.47", "1.78"))}


def traces(case: Case, setting: Setting) -> list[Case]:
    """Return a case on each of the bootstrapped traces."""
    return [replace(case, bootstrap=number) for number in range(setting.bootstraps)]


def cases(setting: Setting) -> list[Case]:
    """Return what the figure is made of."""
    return [each for case in (BASELINE, LYRA, IDEAL_LYRA) for each in traces(case, setting)]


def compare(results: Results) -> Comparison:
    """Return the paper's four mean gains beside ours."""
    entries = []
    for name, (case, printed) in ROWS.items():
        for (measure, key), paper in zip(GAINS.items(), printed, strict=True):
            gains = [
                gain_over(baseline_of(results, each), results.of(each), key)
                for each in traces(case, results.setting)
            ]
            found = [gain for gain in gains if gain is not None]
            entry = Entry.published_gain(
                name, f"mean gain in mean {measure}", paper, statistics.fmean(found)
            )
            entries.append(replace(entry, spread=(min(found), max(found))))
    traces_in_words = f"{results.setting.bootstraps} of {PUBLISHED_BOOTSTRAPS}"
    return Comparison(
        name="lyra-figure-12",
        title="Lyra (EuroSys 2023), Figure 12: bootstrapped traces",
        entries=entries,
        notes=[
            results.setting.in_words(),
            f"{traces_in_words} traces of {BOOTSTRAP_DAYS} days, drawn with replacement from the "
            "days of one workload; the least and the greatest gain in brackets.",
        ],
    )
