"""Table 8: percentiles under schemes that scale and do not loan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import (
    AFS,
    BASELINE,
    GANDIVA,
    POLLUX,
    SCALING,
    TUNED,
    notes_on_missing,
)

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Result, Results, Setting

RANKS = (50, 75, 95, 99)
COLUMNS = tuple(f"{measure} {rank} % (s)" for measure in ("queue", "JCT") for rank in RANKS)

# The labels of AFS and Pollux as Table 5 has them; the paper's Table 8 swaps them.
ROWS = {
    "Baseline": (
        BASELINE,
        ("55", "1892", "8357", "14323", "791", "29163", "82933", "376513"),
    ),
    "Gandiva": (
        GANDIVA,
        ("49", "1764", "6632", "11806", "755", "27244", "80567", "323626"),
    ),
    "AFS": (AFS, ("47", "772", "3488", "9031", "686", "20143", "60883", "247435")),
    "Pollux": (POLLUX, ("58", "1297", "5883", "11124", "721", "12304", "72123", "323513")),
    "Lyra": (SCALING, ("47", "697", "3475", "8731", "602", "12072", "57597", "223815")),
    "Lyra+TunedJobs": (
        TUNED,
        ("43", "566", "2749", "7112", "564", "9293", "52458", "194391"),
    ),
}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the table is made of."""
    return [case for case, _ in ROWS.values()]


def compare(results: Results) -> Comparison:
    """Return the paper's 48 numbers beside ours."""
    entries = []
    baseline = _percentiles(results.of(BASELINE))
    for name, (case, printed) in ROWS.items():
        ours = _percentiles(results.of(case))
        for place, (column, paper) in enumerate(zip(COLUMNS, printed, strict=True)):
            reference = baseline[place]
            if case is BASELINE or reference is None:
                entries.append(Entry.simulated(name, column, paper, ours[place]))
            else:
                entries.append(
                    Entry.compared(
                        name,
                        column,
                        paper,
                        ours[place],
                        paper_reference=ROWS["Baseline"][1][place],
                        our_reference=reference,
                    )
                )
    return Comparison(
        name="lyra-table-8",
        title="Lyra (EuroSys 2023), Table 8: percentiles with scaling and without loans",
        entries=entries,
        is_wide=True,
        notes=[
            results.setting.in_words(),
            "Contradiction in the paper: the labels of AFS and Pollux are swapped against Table 5; "
            "the ratios of the text fit Table 5, and so do the labels here.",
            *notes_on_missing(POLLUX, TUNED),
        ],
    )


def _percentiles(result: Result | None) -> list[float | None]:
    """Return the percentiles of queuing time, then those of JCT."""
    if result is None:
        return [None] * len(COLUMNS)
    return [
        float(value)
        for values in (result.jobs.queued_s, result.jobs.jct_s)
        for value in np.percentile(values, RANKS)
    ]
