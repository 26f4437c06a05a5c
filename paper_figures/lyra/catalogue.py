"""Which tables and figures of Lyra (EuroSys 2023) there are, and what is made of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paper_figures.comparison import RULE
from paper_figures.report import Publication, Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.plots.figures import Plot

TABLES = tuple(range(1, 11))
FIGURES = (1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)
"""Those with values: Figure 3 is measured on hardware that is not here, Figure 4 is a sketch."""


ALL = (
    *(Publication("lyra", "table", number) for number in TABLES),
    *(Publication("lyra", "figure", number) for number in FIGURES),
)


def make_report(
    publications: Iterable[Publication], *, scale: float, seeds: int, gaps: bool, processes: int
) -> Report:
    """Run what is needed, each simulation once, and compare.

    Parameters
    ----------
    publications
        The tables and figures asked for.
    scale, seeds
        How much is simulated; see `Setting`.
    gaps
        Whether to make the page on gaps too.
    processes
        Simulations at the same time.
    """
    from paper_figures.simulations import Results, Setting

    setting = Setting(scale=scale, seeds=seeds)
    chosen = [publication for publication in ALL if publication in set(publications)]
    gap_module = import_module("paper_figures.lyra.gaps")
    modules = [publication.module for publication in chosen if publication.is_simulated]
    if gaps:
        modules.append(gap_module)
    cases = [case for module in modules for case in module.cases(setting)]
    results = Results.of_cases(cases, setting, processes=processes)
    return Report(
        title="Lyra: published tables and figures beside ours",
        setting=setting.in_words(),
        rule=RULE,
        comparisons=[
            publication.module.compare(results)
            if publication.is_simulated
            else publication.module.compare()
            for publication in chosen
        ],
        pages=[gap_module.report(results)] if gaps else [],
    )


def draw_plots(report: Report) -> list[Plot]:
    """Return the plots of what was made."""
    from paper_figures.lyra.plots import PAGES, PLOTS
    from paper_figures.plots import draw_all

    return draw_all(report, PLOTS, PAGES)
