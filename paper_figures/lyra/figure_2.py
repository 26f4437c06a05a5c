"""Figure 2: how many of the newly submitted jobs have to queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import BASELINE, baseline_of
from paper_figures.simulations import DAY_S, HOUR_S

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

STEP_S = 2 * HOUR_S
DAYS = 7

# Of the shares of jobs that queue, every two hours, as read from the figure.
PAPER = {"mean": "0.38", "median": "0.34", "share of the points at 0.5 or more": "0.33"}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [BASELINE]


def compare(results: Results) -> Comparison:
    """Return what the figure's points come to beside those of the Baseline."""
    shares = baseline_of(results, BASELINE).queued_shares(
        step_s=STEP_S, steps=DAYS * DAY_S // STEP_S
    )
    ours = (np.mean(shares), np.median(shares), np.mean(shares >= 0.5))
    return Comparison(
        name="lyra-figure-2",
        title="Lyra (EuroSys 2023), Figure 2: share of newly submitted jobs that queue",
        entries=[
            Entry.simulated("a week, every two hours", column, paper, float(value))
            for (column, paper), value in zip(PAPER.items(), ours, strict=True)
        ],
        notes=[
            results.setting.in_words(),
            "Ours: the first week under the Baseline, jobs that waited at all.",
        ],
    )
