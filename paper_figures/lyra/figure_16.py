"""Figure 16: gains by the share of elastic jobs where added workers bring 20 % less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison
from paper_figures.lyra.elastic_shares import cases_of, entries_of
from paper_figures.lyra.figure_8 import LOSS_PERCENT
from paper_figures.lyra.schemes import GAINS

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

# Measure: gains of Lyra with 20, 40, 60, 80 and 100 % elastic jobs.
PAPER = {
    "queue": ("2.29", "2.31", "2.43", "2.44", "2.45"),
    "JCT": ("1.51", "1.50", "1.53", "1.66", "1.87"),
}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return cases_of(["Lyra"], loss_percent=LOSS_PERCENT)


def compare(results: Results) -> Comparison:
    """Return the paper's ten gains beside ours."""
    return Comparison(
        name="lyra-figure-16",
        title="Lyra (EuroSys 2023), Figure 16: imperfect scaling by the share of elastic jobs",
        entries=[
            entry
            for measure, printed in PAPER.items()
            for entry in entries_of(
                results,
                {"Lyra": printed},
                measure=measure,
                key=GAINS[measure],
                loss_percent=LOSS_PERCENT,
            )
        ],
        is_wide=True,
        notes=[
            results.setting.in_words(),
            "Gains in mean queuing time and mean JCT over the Baseline, scaling without loans; "
            f"each worker beyond the base demand brings {LOSS_PERCENT} % less.",
        ],
    )
