"""Figure 14: gains in queuing time by the share of elastic jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison
from paper_figures.lyra.elastic_shares import cases_of, entries_of
from paper_figures.lyra.schemes import GAINS, POLLUX, TUNED, notes_on_missing

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

MEASURE = "queue"

# Scheme: gains in mean queuing time with 20, 40, 60, 80 and 100 % elastic jobs.
PAPER = {
    "Gandiva": ("0.96", "0.97", "1.17", "1.34", "1.37"),
    "AFS": ("1.94", "1.97", "1.97", "2.17", "2.46"),
    "Pollux": ("1.02", "1.06", "1.22", "1.45", "1.48"),
    "Lyra": ("2.32", "2.34", "2.47", "2.51", "2.52"),
    "Lyra+TunedJobs": ("2.34", "2.40", "2.56", "2.62", "2.68"),
}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return cases_of(list(PAPER))


def compare(results: Results) -> Comparison:
    """Return the paper's 25 gains beside ours."""
    return Comparison(
        name="lyra-figure-14",
        title="Lyra (EuroSys 2023), Figure 14: queuing time by the share of elastic jobs",
        entries=entries_of(results, PAPER, measure=MEASURE, key=GAINS[MEASURE]),
        is_wide=True,
        notes=[
            results.setting.in_words(),
            "Gains in mean queuing time over the Baseline, scaling without loans.",
            *notes_on_missing(POLLUX, TUNED),
        ],
    )
