"""What the tables and figures on Dally need beyond replays: tables, and notes with numbers."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.instances.network.jobs import BATCH
from lyra_opt.instances.traces import TRACES_VARIABLE
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.paper_figures.comparison import Table
from lyra_opt.paper_figures.dally.all_schemes import schemes_of_all_papers
from lyra_opt.paper_figures.dally.reductions import (
    CONSOLIDATION,
    DALLY,
    HOUR_S,
    held_against,
    in_one_situation,
    over_seeds,
)
from lyra_opt.simulation.communication import ClosedForm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.paper_figures.comparison import Found
    from lyra_opt.paper_figures.results import Part

GANG = 16


def over_links(part: Part, *, claims: Sequence[str], situations: Sequence[str]) -> Found:
    """Return the reductions over links, and what these mean for a gang."""
    found = held_against(part, claims=claims, situations=situations, only_series=True)
    return replace(found, tables=[_links()])


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


def why_jct_differs(part: Part, *, situation: str) -> list[str]:
    """Return why ours differ from the paper's, from what the runs show."""
    paper = part.results.paper
    parts = []
    for scheme in (DALLY, *CONSOLIDATION):
        found = over_seeds(part, scheme, situation)
        if not found:
            return []
        wait_h, communication_h = (
            statistics.fmean(outcome.figures[measure] for outcome in found) / HOUR_S
            for measure in ("queue_mean_s", "communication_s")
        )
        parts.append(f"{paper.called[scheme]} {wait_h:.0f} h and {communication_h:.0f} GPU h")
    single = sum(count for gang, count in BATCH.gangs.items() if gang == 1) / BATCH.jobs
    return [
        "Waiting and communication of a job in the mean, "
        f"{paper.scenarios[situation].called}: "
        f"{', '.join(parts)}. What the links cost is one thing, who goes first another: Dally's "
        "order has a gang that the network never hurt go last whenever anybody else waits, and "
        f"{100 * single:.0f} % of the jobs have a single GPU. Consolidated has the same order and "
        "waits for ever where Dally waits for hours, so that the two differ by the timers alone.",
        "Which methods, links, clusters and loads the claim is for the abstract does not say; jobs "
        "and efficiencies here are drawn and computed where the paper has its own.",
    ]


def missing_traces(part: Part, *, situations: Sequence[str]) -> list[str]:
    """Return which traces are not there, and so were not run."""
    missing = {name: part.setting.missing_traces(name) for name in situations}
    names = [
        part.results.paper.scenarios[name].called.partition(",")[0]
        for name, files in missing.items()
        if files
    ]
    files = [file for each in missing.values() for file in each]
    if not files:
        return []
    return [
        f"Not run: {' and '.join(names)}; {' and '.join(files)} not found, here or in the folder "
        f"that {TRACES_VARIABLE} names."
    ]


FUNCTIONS: Mapping[str, Callable[..., Found | str | list[str]]] = {
    function.__name__: function
    for function in (
        held_against,
        in_one_situation,
        schemes_of_all_papers,
        over_links,
        why_jct_differs,
        missing_traces,
    )
}
