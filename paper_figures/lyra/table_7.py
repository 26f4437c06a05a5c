"""Table 7: jobs that ran on servers on loan, and the same jobs under the Baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import BASELINE, LOANING

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

COLUMNS = (
    "queue mean (s)",
    "queue median (s)",
    "queue 95 % (s)",
    "JCT mean (s)",
    "JCT median (s)",
    "JCT 95 % (s)",
)

PAPER = {
    "Baseline": ("4573", "1283", "23351", "11547", "2122", "60170"),
    "Lyra": ("1119", "274", "7256", "6887", "1373", "35776"),
}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the table is made of."""
    return [BASELINE, LOANING]


def compare(results: Results) -> Comparison:
    """Return the paper's twelve numbers beside ours."""
    baseline, lyra = results.of(BASELINE), results.of(LOANING)
    assert baseline is not None, "the Baseline is always there"
    assert lyra is not None, "Lyra is always there"
    there = lyra.jobs.ran_on_loan
    ours = {
        name: [
            figure
            for values in (result.jobs.queued_s, result.jobs.jct_s)
            for figure in _figures(values[there])
        ]
        for name, result in (("Baseline", baseline), ("Lyra", lyra))
    }
    entries = [
        Entry.simulated("Baseline", column, paper, value)
        for column, paper, value in zip(COLUMNS, PAPER["Baseline"], ours["Baseline"], strict=True)
    ]
    for place, (column, paper) in enumerate(zip(COLUMNS, PAPER["Lyra"], strict=True)):
        entries.append(
            Entry.compared(
                "Lyra",
                column,
                paper,
                ours["Lyra"][place],
                paper_reference=PAPER["Baseline"][place],
                our_reference=ours["Baseline"][place],
            )
        )
    return Comparison(
        name="lyra-table-7",
        title="Lyra (EuroSys 2023), Table 7: jobs that ran on servers on loan",
        entries=entries,
        notes=[
            results.setting.in_words(),
            f"Loaning without scaling, Basic: {np.count_nonzero(there):,} of {len(there):,} jobs "
            "ran on servers on loan at some time.",
        ],
    )


def _figures(values: np.ndarray) -> list[float]:
    """Return mean, median and 95th percentile; 0 of nothing."""
    if not len(values):
        return [0.0, 0.0, 0.0]
    return [float(np.mean(values)), *(float(v) for v in np.percentile(values, (50, 95)))]
