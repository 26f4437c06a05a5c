"""Table 2: mean job completion time, of jobs at once and one after the other."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from instances.network.job_sets import BATCH
from paper_figures.comparison import Comparison
from paper_figures.dally.cases import (
    HOUR_S,
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
from paper_figures.dally.schemes import CONSOLIDATION, DALLY, NAMES, SCHEMES, notes_on_missing
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
EXAMPLE = Situation(network="congested-2")
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
        notes=[
            *_why(results),
            *notes_on_jobs(),
            note_on_rates(),
            note_on_slowest(),
            *notes_on_missing(SCHEMES),
        ],
    )


def _why(results: Results) -> list[str]:
    """Return why ours differ from the paper's, from what the runs show."""
    parts = []
    for scheme in (DALLY, *CONSOLIDATION):
        found = results.over_seeds(scheme, EXAMPLE)
        if not found:
            return []
        wait_h, communication_h = (
            statistics.fmean(getattr(metrics, measure) for metrics in found) / HOUR_S
            for measure in ("queue_mean_s", "communication_s")
        )
        parts.append(f"{NAMES[scheme]} {wait_h:.0f} h and {communication_h:.0f} GPU h")
    single = sum(count for gang, count in BATCH.gangs.items() if gang == 1) / BATCH.jobs
    return [
        f"Waiting and communication of a job in the mean, {EXAMPLE.in_words}: "
        f"{', '.join(parts)}. What the links cost is one thing, who goes first another: Dally's "
        "order has a gang that the network never hurt go last whenever anybody else waits, and "
        f"{100 * single:.0f} % of the jobs have a single GPU. Consolidated has the same order and "
        "waits for ever where Dally waits for hours, so that the two differ by the timers alone.",
        "Which methods, links, clusters and loads the claim is for the abstract does not say; jobs "
        "and efficiencies here are drawn and computed where the paper has its own.",
    ]


def note_on_rates() -> str:
    """Return which jobs there are, in a sentence."""
    return (
        "Jobs come all at once (batch) or as a Poisson process. The author's simulator has files "
        "with 10 to 100 jobs a day, for a cluster of unknown size; higher rates are ours, for at "
        "100 a day hardly anybody waits on 256 GPUs. Distributed is its set of gangs of several "
        "GPUs alone, which come over a week."
    )
