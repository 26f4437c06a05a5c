"""Table 2: mean job completion time, of jobs at once and one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison
from paper_figures.dally.cases import (
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
from paper_figures.dally.table_1 import SITUATIONS as BATCHES

if TYPE_CHECKING:
    from paper_figures.dally.cases import Results, Setting

JCT = Claim(measure="jct_mean_s", called="mean JCT", unit="h", unit_size=3600.0, percent="83")

RATES = (100.0, 200.0, 400.0)
"""Jobs a day; the author's simulator has files with 10 to 100."""
STREAMS = (
    *(Situation(network="congested-2", jobs_per_day=rate) for rate in RATES),
    Situation(network="shipped", jobs_per_day=RATES[1]),
)
DISTRIBUTED = tuple(
    Situation(network="congested-2", is_distributed=True, has_small_machines=small)
    for small in (False, True)
)
SITUATIONS = (*BATCHES, *STREAMS, *DISTRIBUTED)


def cases(setting: Setting) -> list[SituationCase | BoundCase]:
    """Return what the table is made of."""
    return [*cases_of(SCHEMES, SITUATIONS, setting), *bounds_of(SITUATIONS, setting)]


def compare(results: Results) -> Comparison:
    """Return the claim beside ours."""
    return Comparison(
        name="dally-table-2",
        title="Dally, Table 2: mean job completion time (JCT) over loads and links",
        entries=[entry_of(JCT, reductions(results, JCT, SITUATIONS, CONSOLIDATION))],
        findings=findings(results, JCT, SITUATIONS),
        tables=[
            measured(results, JCT, SITUATIONS),
            reduced(results, JCT, SITUATIONS),
        ],
        series=series(results, [JCT], SITUATIONS),
        notes=[*notes_on_jobs(), note_on_rates(), note_on_slowest(), *notes_on_missing(SCHEMES)],
    )


def note_on_rates() -> str:
    """Return which jobs there are, in a sentence."""
    return (
        "Jobs come all at once (batch) or as a Poisson process. The author's simulator has files "
        "with 10 to 100 jobs a day, for a cluster of unknown size; higher rates are ours, for at "
        "100 a day hardly anybody waits on 256 GPUs. Distributed is its set of gangs of several "
        "GPUs alone, which come over a week."
    )
