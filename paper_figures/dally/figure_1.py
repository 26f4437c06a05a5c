"""Figure 1: what Dally gains over the congestion of the links."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from instances.network.job_sets import BATCH
from lyra_opt.network.communication import ClosedForm
from lyra_opt.network.links import LINK_SETS, Tier
from paper_figures.comparison import Comparison, Table
from paper_figures.dally.cases import SituationCase, cases_of
from paper_figures.dally.reductions import series
from paper_figures.dally.schemes import SCHEMES, notes_on_missing
from paper_figures.dally.table_1 import BATCHES, MAKESPAN
from paper_figures.dally.table_2 import JCT
from paper_figures.dally.table_3 import COMMUNICATION

if TYPE_CHECKING:
    from paper_figures.dally.cases import Results, Setting

CLAIMS = (MAKESPAN, JCT, COMMUNICATION)
GANG = 16


def cases(setting: Setting) -> list[SituationCase]:
    """Return what the figure is made of."""
    return cases_of(SCHEMES, BATCHES, setting)


def compare(results: Results) -> Comparison:
    """Return the gains over congestion."""
    return Comparison(
        name="dally-figure-1",
        title="Dally, Figure 1: gains over the congestion of the links, batch",
        entries=[],
        tables=[_links()],
        series=series(results, CLAIMS, BATCHES),
        notes=[
            "Numbers are those of Tables 1 to 3. Links are earlier values of the files of the "
            "author's simulator; what those did not say is as shipped. As shipped, the network "
            "between racks is wider than the links within them, and slower to answer: a gang "
            "with few layers and many bytes is better off across racks than in one. The same holds "
            "of congested-1 and congested-2, whose racks answer faster.",
            *notes_on_missing(SCHEMES),
        ],
    )


def _links() -> Table:
    """Return what links mean for a gang, by how well it computes at each tier."""
    weights = BATCH.models
    rows = []
    for name, links in LINK_SETS.items():
        communication = ClosedForm(links=links)
        row = [name]
        for tier in (Tier.RACK, Tier.NETWORK):
            link = links.at(tier)
            of_models = {model: communication.efficiency(model, GANG, tier, 2) for model in weights}
            mean = statistics.fmean(of_models.values(), weights=list(weights.values()))
            row += [
                f"{link.bandwidth_gb_per_s:g}",
                f"{1e6 * link.latency_s:g}",
                f"{100 * mean:.3g}",
                f"{100 * min(of_models.values()):.2g} to {100 * max(of_models.values()):.2g}",
            ]
        rows.append(row)
    columns = ("GB/s", "µs", "gang computes (%)", "by model")
    return Table(
        title=f"Links, and for which share of its time a gang of {GANG} computes on two machines "
        "of a rack and across two racks, mean over jobs",
        header=["", *(f"{tier}: {column}" for tier in ("rack", "network") for column in columns)],
        rows=rows,
    )
