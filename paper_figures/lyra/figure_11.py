"""Figure 11: gains by the share of jobs on both kinds of GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import BASELINE, GAINS, HETEROGENEOUS_LYRA, gain_over_baseline

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

# Percentage of heterogeneous jobs: gains over the Baseline in mean queuing time and in mean JCT.
PAPER = {
    10: ("1.51", "1.37"),
    30: ("1.57", "1.35"),
    50: ("1.62", "1.40"),
    70: ("1.63", "1.42"),
    90: ("1.62", "1.42"),
}


def case_of(percent: int) -> Case:
    """Return Lyra with that many heterogeneous jobs and no fungible ones."""
    scenario = replace(HETEROGENEOUS_LYRA.scenario, heterogeneous_percent=percent)
    return replace(HETEROGENEOUS_LYRA, scenario=scenario)


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [BASELINE, *map(case_of, PAPER)]


def compare(results: Results) -> Comparison:
    """Return the paper's ten gains beside ours."""
    return Comparison(
        name="lyra-figure-11",
        title="Lyra (EuroSys 2023), Figure 11: share of heterogeneous jobs",
        entries=[
            Entry.published_gain(
                f"{percent} % heterogeneous",
                f"gain in mean {measure}",
                paper,
                gain_over_baseline(results, case_of(percent), key),
            )
            for percent, printed in PAPER.items()
            for (measure, key), paper in zip(GAINS.items(), printed, strict=True)
        ],
        notes=[
            results.setting.in_words(),
            "Scenario Heterogeneous: no fungible jobs, mixed training at 70 % of the ideal.",
            "The paper's gain with 10 % in queuing time is 1.51 here and 1.58 by Table 5.",
        ],
    )
