"""The papers whose tables and figures are made again."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from paper_figures.dally import catalogue as dally
from paper_figures.hadar import catalogue as hadar
from paper_figures.lyra import catalogue as lyra

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper, as the command line offers it.

    Parameters
    ----------
    name
        On the command line; also the sub-package of `paper_figures` whose module ``catalogue`` has
        ``ALL``, ``make_report`` and ``draw_plots``.
    citation
        What it is.
    tables, figures
        Their numbers.
    scale, seeds
        How much is simulated if not told otherwise.
    folder
        Where the pages go if not told otherwise.
    remarks
        What is simulated, and what the scale means; lines of the help.
    """

    name: str
    citation: str
    tables: Sequence[int]
    figures: Sequence[int]
    scale: float
    seeds: int
    folder: str
    remarks: str

    @property
    def catalogue(self) -> Any:
        """Its module ``catalogue``."""
        return import_module(f"paper_figures.{self.name}.catalogue")

    def in_words(self) -> str:
        """Return what there is of it, for the help."""
        tables, figures = ", ".join(map(str, self.tables)), ", ".join(map(str, self.figures))
        return f"{self.name}: {self.citation}.\nTables {tables}; figures {figures}.\n{self.remarks}"


PAPERS = {
    paper.name: paper
    for paper in (
        Paper(
            name="lyra",
            citation=(
                'Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys 2023'
            ),
            tables=lyra.TABLES,
            figures=lyra.FIGURES,
            scale=0.1,
            seeds=4,
            folder="results/figures",
            remarks="""\
Simulated numbers come from a generated workload: the paper's trace is private. --scale is the size
of clusters and workload as a share of the paper's; at 0.1 everything takes about ten minutes on two
processors, at 1 many hours. --gaps: does closing the gaps between heuristics and optima change what
users feel?""",
        ),
        Paper(
            name="hadar",
            citation="""\
Sultana et al., "Resource Heterogeneity-Aware and Utilization-Enhanced Scheduling
for Deep Learning Clusters" (Hadar and HadarE; arXiv 2503.10918 and IPDPS 2024)""",
            tables=hadar.TABLES,
            figures=hadar.FIGURES,
            scale=hadar.DEFAULT_SCALE,
            seeds=hadar.DEFAULT_SEEDS,
            folder="results/figures-hadar",
            remarks="""\
Numbers of tables and figures are ours: of the paper its abstract was at hand, and the pages say
which numbers are from memory. Jobs are drawn from the Philly trace if the folder LYRA_OPT_TRACES
has it, otherwise from generated jobs. --scale is the number of jobs, and of servers of each type
(two at least), as a share of the paper's 480 jobs on 60 GPUs; testbeds and studies of their own
have their size. --gaps: how far from optimal are Hadar, HadarE's forking and Gavel's rounds?""",
        ),
        Paper(
            name="dally",
            citation="""\
Sharma et al., "Dally" (network-sensitive delay scheduling; arXiv 2401.16492)""",
            tables=dally.TABLES,
            figures=dally.FIGURES,
            scale=dally.DEFAULT_SCALE,
            seeds=dally.DEFAULT_SEEDS,
            folder="results/figures-dally",
            remarks="""\
Numbers of tables and figures are ours: of the paper its abstract was at hand, and the public
simulator of its author. Table 4 runs the schemes of all three papers on one cluster. --scale is the
number of jobs, and of racks (two at least), as a share of 500 jobs on 4 racks of 64 GPUs; at 1
links on which jobs run for years take many minutes. Real jobs need the traces in the folder
LYRA_OPT_TRACES. --gaps: how far from optimal are single decisions, and the tuner's timers?""",
        ),
    )
}
