"""Figure 13: what checkpoints change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from instances.workloads.scenario import Scenario
from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import GAINS, LOANING, gain_over

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_figures.simulations import Case, Result, Results, Setting

LOST = "preemptions that lose work / submissions (%)"

# Percentage of jobs with checkpoints: preemptions, gains in mean queuing time and in mean JCT over
# no checkpoints.
PAPER = {
    20: ("4.32", "1.05", "1.13"),
    50: ("2.78", "1.09", "1.18"),
    80: ("0.26", "1.15", "1.24"),
    100: ("0", "1.17", "1.31"),
}
PAPER_WITHOUT = "5.72"
"""Preemptions without checkpoints: of the scenario Ideal, which the caption names (Table 5)."""


def case_of(percent: int) -> Case:
    """Return loaning with Lyra where that many jobs have checkpoints."""
    return replace(LOANING, scenario=Scenario(checkpoint_percent=percent))


def cases(setting: Setting) -> list[Case]:
    """Return what the figure is made of; runs without scaling are cheap."""
    return [
        replace(case, seed=seed)
        for case in (LOANING, *map(case_of, PAPER))
        for seed in range(setting.table_seeds)
    ]


def compare(results: Results) -> Comparison:
    """Return the paper's twelve numbers beside ours."""
    without = results.over_seeds(LOANING)
    entries = []
    for percent, (paper, *printed) in PAPER.items():
        row = f"{percent} % with checkpoints"
        found = results.over_seeds(case_of(percent))
        entries.append(
            Entry.compared(
                row,
                LOST,
                paper,
                _lost_percent(found),
                paper_reference=PAPER_WITHOUT,
                our_reference=_lost_percent(without),
            )
        )
        for (measure, key), gain in zip(GAINS.items(), printed, strict=True):
            gains = [
                gain_over(before, after, key) for before, after in zip(without, found, strict=True)
            ]
            ours = sum(each for each in gains if each is not None) / len(gains)
            entries.append(Entry.published_gain(row, f"gain in mean {measure}", gain, ours))
    return Comparison(
        name="lyra-figure-13",
        title="Lyra (EuroSys 2023), Figure 13: share of jobs with checkpoints",
        entries=entries,
        notes=[
            results.setting.in_words(),
            f"Loaning without scaling, Basic, means over {results.setting.table_seeds} seeds.",
            "Gains are over no checkpoints. Preemptions count where work is lost: the paper has "
            "none where all jobs have checkpoints.",
            "Contradiction in the paper: the caption says Ideal, the text compares with row 9 of "
            "Table 5, loaning in Basic. Preemptions are compared with the 5.72 % of Ideal.",
        ],
    )


def _lost_percent(found: Sequence[Result]) -> float:
    return 100 * sum(each.lossy_preemptions_per_submission for each in found) / len(found)
