"""Figure 3: jobs of public traces, whose models are assigned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.traces import TRACES_VARIABLE
from paper_figures.comparison import Comparison
from paper_figures.dally.cases import (
    BoundCase,
    SituationCase,
    TraceSituation,
    bounds_of,
    cases_of,
)
from paper_figures.dally.reductions import findings, measured, reduced, series
from paper_figures.dally.schemes import SCHEMES, notes_on_missing
from paper_figures.dally.table_2 import JCT
from paper_figures.dally.table_3 import COMMUNICATION

if TYPE_CHECKING:
    from paper_figures.dally.cases import Results, Setting

TRACES = {
    "microsoft_itp2021_jobs.csv.gz": "ITP 2021",
    "philly_jobs.csv.gz": "Philly",
}
"""Files, and what they are called."""

NETWORK = "congested-2"
CLAIMS = (JCT, COMMUNICATION)
SITUATIONS = tuple(
    TraceSituation(trace=trace, called=called, network=NETWORK) for trace, called in TRACES.items()
)


def cases(setting: Setting) -> list[SituationCase | BoundCase]:
    """Return what the figure is made of."""
    return [*cases_of(SCHEMES, SITUATIONS, setting), *bounds_of(SITUATIONS, setting)]


def compare(results: Results) -> Comparison:
    """Return the gains on jobs of traces."""
    there = [situation for situation in SITUATIONS if situation.is_there]
    missing = [name for file, name in TRACES.items() if name not in {s.called for s in there}]
    files = [file for file, name in TRACES.items() if name in missing]
    notes = [
        "Models are assigned by seed, with the shares of Dally's batch: no trace says what its "
        "jobs train. When jobs come, on how many GPUs and how long they run is real, except that "
        "submissions are moved together, so that computing alone asks for "
        f"{TraceSituation.LOAD:g} times what the cluster can do meanwhile.",
        f"{TraceSituation.JOBS:,} jobs (by scale) from all over each trace, of those that fit the "
        "cluster. Most of them have one GPU, and nothing to communicate. Where hardly anybody "
        "waits, as on Philly's at half the size, schemes do not differ.",
    ]
    if missing:
        notes.insert(
            0,
            f"Not run: {' and '.join(missing)}; {' and '.join(files)} not found, here or in the "
            f"folder that {TRACES_VARIABLE} names.",
        )
    return Comparison(
        name="dally-figure-3",
        title="Dally, Figure 3: jobs of public traces with assigned models",
        entries=[],
        findings=[sentence for claim in CLAIMS for sentence in findings(results, claim, there)],
        tables=[
            table(results, claim, there)
            for claim in CLAIMS
            for table in (measured, reduced)
            if there
        ],
        series=series(results, CLAIMS, there),
        notes=[*notes, *notes_on_missing(SCHEMES)],
    )
