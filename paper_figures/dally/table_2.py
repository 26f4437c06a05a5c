"""Table 2: mean job completion time, of jobs at once and one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison
from paper_figures.dally.cases import (
    NETWORKS,
    SLOWEST,
    BoundCase,
    Situation,
    SituationCase,
    bounds_of,
    cases_of,
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

RATES = (50.0, 100.0, 200.0, 400.0)
"""Jobs a day; the author's simulator has files with 10 to 100."""
POISSON = tuple(
    Situation(network=network, jobs_per_day=rate)
    for network in NETWORKS
    if network != SLOWEST
    for rate in RATES
)
SITUATIONS = (*BATCHES, *POISSON)


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
        notes=[*notes_on_jobs(), note_on_rates(), *notes_on_missing(SCHEMES)],
    )


def note_on_rates() -> str:
    """Return which jobs there are, in a sentence."""
    return (
        "Jobs come all at once (batch) or as a Poisson process. The author's simulator has files "
        "with 10 to 100 jobs a day, for a cluster of unknown size; higher rates are ours, for at "
        f"100 a day hardly anybody waits on 256 GPUs. {SLOWEST} has the batch alone: gangs across "
        "machines run for years there, whenever they come."
    )
