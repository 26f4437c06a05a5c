"""Figure 15: gains in JCT by the share of elastic jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison
from paper_figures.lyra.elastic_shares import cases_of, entries_of
from paper_figures.lyra.schemes import GAINS, POLLUX, TUNED, notes_on_missing

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

MEASURE = "JCT"

# Scheme: gains in mean JCT with 20, 40, 60, 80 and 100 % elastic jobs.
PAPER = {
    "Gandiva": ("1.02", "1.17", "1.21", "1.24", "1.24"),
    "AFS": ("1.15", "1.23", "1.25", "1.32", "1.33"),
    "Pollux": ("1.52", "1.53", "1.57", "1.62", "1.84"),
    "Lyra": ("1.54", "1.55", "1.58", "1.72", "1.96"),
    "Lyra+TunedJobs": ("1.59", "1.63", "1.78", "1.93", "2.36"),
}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return cases_of(list(PAPER))


def compare(results: Results) -> Comparison:
    """Return the paper's 25 gains beside ours."""
    return Comparison(
        name="lyra-figure-15",
        title="Lyra (EuroSys 2023), Figure 15: JCT by the share of elastic jobs",
        entries=entries_of(results, PAPER, measure=MEASURE, key=GAINS[MEASURE]),
        is_wide=True,
        notes=[
            results.setting.in_words(),
            "Gains in mean JCT over the Baseline, scaling without loans.",
            *notes_on_missing(POLLUX, TUNED),
        ],
    )
