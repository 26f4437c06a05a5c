"""Table 1: makespan of the batch of jobs, over the links."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison
from paper_figures.dally.cases import (
    NETWORKS,
    BoundCase,
    Situation,
    SituationCase,
    bounds_of,
    cases_of,
    note_on_slowest,
    notes_on_jobs,
)
from paper_figures.dally.reductions import (
    Claim,
    entry_of,
    findings,
    measured,
    reduced,
    reductions,
    series,
)
from paper_figures.dally.schemes import CONSOLIDATION, SCHEMES, notes_on_missing

if TYPE_CHECKING:
    from paper_figures.dally.cases import Results, Setting

MAKESPAN = Claim(measure="makespan_s", called="makespan", unit="h", unit_size=3600.0, percent="69")
BATCHES = tuple(Situation(network=network) for network in NETWORKS)
SMALL_BATCHES = tuple(
    Situation(network=network, has_small_machines=True) for network in ("shipped", "congested-2")
)
SITUATIONS = (*BATCHES, *SMALL_BATCHES)


NOTE_ON_GANDIVA = (
    "Gandiva as the author's simulator has it gives any free GPUs, near or far, to gangs that no "
    "machine could hold. On small machines gangs of 8 are such gangs too."
)


def cases(setting: Setting) -> list[SituationCase | BoundCase]:
    """Return what the table is made of."""
    return [*cases_of(SCHEMES, SITUATIONS, setting), *bounds_of(SITUATIONS, setting)]


def compare(results: Results) -> Comparison:
    """Return the claim beside ours."""
    return Comparison(
        name="dally-table-1",
        title="Dally, Table 1: makespan of jobs that are submitted at once",
        entries=[entry_of(MAKESPAN, reductions(results, MAKESPAN, SITUATIONS, CONSOLIDATION))],
        findings=findings(results, MAKESPAN, SITUATIONS),
        tables=[
            measured(results, MAKESPAN, SITUATIONS),
            reduced(results, MAKESPAN, SITUATIONS),
        ],
        series=series(results, [MAKESPAN], SITUATIONS),
        notes=[*notes_on_jobs(), NOTE_ON_GANDIVA, note_on_slowest(), *notes_on_missing(SCHEMES)],
    )
