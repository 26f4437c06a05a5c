"""Table 3: communication, over loads and links."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from paper_figures.comparison import MISSING, Comparison, Table
from paper_figures.dally.cases import SituationCase, cases_of, note_on_slowest, notes_on_jobs
from paper_figures.dally.reductions import (
    Claim,
    entry_of,
    findings,
    measured,
    reduced,
    reductions,
    series,
)
from paper_figures.dally.schemes import CONSOLIDATION, NAMES, SCHEMES, notes_on_missing
from paper_figures.dally.table_2 import SITUATIONS, note_on_rates

if TYPE_CHECKING:
    from paper_figures.dally.cases import Results, Setting

COMMUNICATION = Claim(
    measure="communication_s",
    called="communication of a job",
    unit="GPU h",
    unit_size=3600.0,
    percent="98",
)


def cases(setting: Setting) -> list[SituationCase]:
    """Return what the table is made of."""
    return cases_of(SCHEMES, SITUATIONS, setting)


def compare(results: Results) -> Comparison:
    """Return the claim beside ours."""
    return Comparison(
        name="dally-table-3",
        title="Dally, Table 3: communication overhead over loads and links",
        entries=[
            entry_of(COMMUNICATION, reductions(results, COMMUNICATION, SITUATIONS, CONSOLIDATION))
        ],
        findings=findings(results, COMMUNICATION, SITUATIONS),
        tables=[
            measured(results, COMMUNICATION, SITUATIONS),
            reduced(results, COMMUNICATION, SITUATIONS),
            _shares(results),
        ],
        series=series(results, [COMMUNICATION], SITUATIONS),
        notes=[
            "Communication is the time in which gangs hold GPUs and run, less the time in which "
            "they compute; hand-over counts for neither. The abstract does not say how its "
            "overhead is measured.",
            *notes_on_jobs(),
            note_on_rates(),
            note_on_slowest(),
            *notes_on_missing(SCHEMES),
        ],
    )


def _shares(results: Results) -> Table:
    """Return communication as a share of the time on GPUs."""
    rows = []
    for situation in SITUATIONS:
        row = [situation.in_words]
        for scheme in SCHEMES:
            found = results.over_seeds(scheme, situation)
            shares = [100 * metrics.communication_share for metrics in found]
            row.append(f"{statistics.fmean(shares):.1f}" if shares else MISSING)
        rows.append(row)
    return Table(
        title="Communication as a share of the time on GPUs (%), means over seeds",
        header=["", *(NAMES[scheme] for scheme in SCHEMES)],
        rows=rows,
    )
