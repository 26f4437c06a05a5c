"""Figure 2: what Dally gains over the load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison
from paper_figures.dally.cases import SituationCase, cases_of
from paper_figures.dally.reductions import series
from paper_figures.dally.schemes import SCHEMES, notes_on_missing
from paper_figures.dally.table_2 import JCT, STREAMS, note_on_rates
from paper_figures.dally.table_3 import COMMUNICATION

if TYPE_CHECKING:
    from paper_figures.dally.cases import Results, Setting

CLAIMS = (JCT, COMMUNICATION)
NETWORK = "congested-2"
SITUATIONS = tuple(situation for situation in STREAMS if situation.network == NETWORK)


def cases(setting: Setting) -> list[SituationCase]:
    """Return what the figure is made of."""
    return cases_of(SCHEMES, SITUATIONS, setting)


def compare(results: Results) -> Comparison:
    """Return the gains over load."""
    return Comparison(
        name="dally-figure-2",
        title=f"Dally, Figure 2: gains over the load, {NETWORK}",
        entries=[],
        series=series(results, CLAIMS, SITUATIONS),
        notes=[
            "Numbers are those of Tables 2 and 3.",
            note_on_rates(),
            *notes_on_missing(SCHEMES),
        ],
    )
