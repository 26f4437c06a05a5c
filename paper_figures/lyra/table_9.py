"""Table 9: gains where the running times of some jobs are not known well."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from instances.workloads.scenario import Scenario
from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import BASELINE, GAINS, SCALING, gain_over_baseline

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

# Percentage of wrong estimates: gains in mean queuing time and in mean JCT.
PAPER = {20: ("2.21", "1.52"), 40: ("2.17", "1.49"), 60: ("1.76", "1.38")}


def case_of(percent: int) -> Case:
    """Return Lyra where that many estimates are wrong."""
    return replace(SCALING, scenario=Scenario(wrong_estimate_percent=percent))


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the table is made of."""
    return [BASELINE, SCALING, *map(case_of, PAPER)]


def compare(results: Results) -> Comparison:
    """Return the paper's six gains beside ours."""
    entries = [
        Entry.published_gain(
            f"{percent} % wrong",
            f"gain in mean {measure}",
            paper,
            gain_over_baseline(results, case_of(percent), key),
        )
        for percent, printed in PAPER.items()
        for (measure, key), paper in zip(GAINS.items(), printed, strict=True)
    ]
    known = ", ".join(
        f"{gain_over_baseline(results, SCALING, key):.2f} in mean {measure}"
        for measure, key in GAINS.items()
    )
    return Comparison(
        name="lyra-table-9",
        title="Lyra (EuroSys 2023), Table 9: wrong estimates of running times",
        entries=entries,
        notes=[
            results.setting.in_words(),
            "Scaling without loans, Basic; a wrong estimate is off by up to 25 %. Our gains where "
            f"all are right: {known}.",
            "Contradiction in the paper: 2.21 with 20 % wrong estimates exceeds the 1.35 of Basic "
            "without errors (Table 5, scaling only), so that another setting is meant, which it "
            "does not name.",
        ],
    )
