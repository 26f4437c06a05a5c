"""Figure 8: gains where added workers bring 20 % less than linear scaling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import BASELINE, GAINS, IDEAL_LYRA, LYRA, gain_over_baseline

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

LOSS_PERCENT = 20

# Gains over the Baseline in mean queuing time and in mean JCT.
ROWS = {"Basic, Lyra": (LYRA, ("1.50", "1.43")), "Ideal, Lyra": (IDEAL_LYRA, ("2.48", "1.69"))}


def imperfect(case: Case) -> Case:
    """Return a case in which workers beyond the base demand do less."""
    return replace(case, scenario=replace(case.scenario, scaling_loss_percent=LOSS_PERCENT))


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [BASELINE, *(each for case, _ in ROWS.values() for each in (case, imperfect(case)))]


def compare(results: Results) -> Comparison:
    """Return the paper's four gains beside ours."""
    entries, linear = [], []
    for name, (case, printed) in ROWS.items():
        for (measure, key), paper in zip(GAINS.items(), printed, strict=True):
            ours = gain_over_baseline(results, imperfect(case), key)
            entries.append(Entry.published_gain(name, f"gain in mean {measure}", paper, ours))
            linear.append(
                f"{gain_over_baseline(results, case, key):.2f} in mean {measure} ({name})"
            )
    return Comparison(
        name="lyra-figure-8",
        title="Lyra (EuroSys 2023), Figure 8: imperfect scaling",
        entries=entries,
        notes=[
            results.setting.in_words(),
            f"Our gains with linear scaling: {', '.join(linear)}.",
        ],
    )
