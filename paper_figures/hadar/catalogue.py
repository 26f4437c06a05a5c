"""Which tables and figures of Hadar and HadarE there are, and what is made of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paper_figures.report import Publication, Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.plots.figures import Plot

TABLES = (1, 2, 3)
FIGURES = (1, 2)
"""Numbers of ours: those of the paper are not known."""

ALL = (
    *(Publication("hadar", "table", number) for number in TABLES),
    *(Publication("hadar", "figure", number) for number in FIGURES),
)

OWN_PAGES = ("competitive_ratio", "forking", "rounding")
"""Modules of the questions of our own."""

DEFAULT_SCALE = 0.4
"""The least at which the cluster shrinks as the jobs do: two servers of each type."""
DEFAULT_SEEDS = 2

INTRODUCTION = (
    "Of the paper its abstract was at hand, and what others say of it; the rest is from memory. "
    "Each number says where it is from, and tables that rest on memory say so before the numbers. "
    "The numbers of tables and figures are ours.",
)

RULE = (
    "Verdicts follow a fixed rule. Ratios within 1 % of 1 are no change. If the paper's ratio and "
    "ours do not point the same way, the number differs; if they do, and ours is within 10 % of "
    "the paper's, it is reproduced; otherwise it has the same direction. Where the paper has a "
    "number that is no ratio, such as a slot length, ours is reproduced if it rounds to the same "
    "digits, and differs if not."
)


def make_report(
    publications: Iterable[Publication], *, scale: float, seeds: int, gaps: bool, processes: int
) -> Report:
    """Run what is needed, each case once, and compare.

    Parameters
    ----------
    publications
        The tables and figures asked for.
    scale, seeds
        How much is simulated; see `Setting`.
    gaps
        Whether to make the pages on questions of our own too.
    processes
        Cases at the same time.
    """
    from paper_figures.hadar.cases import Results, Setting

    setting = Setting(scale=scale, seeds=seeds)
    chosen = [publication for publication in ALL if publication in set(publications)]
    own = [import_module(f"paper_figures.hadar.{name}") for name in OWN_PAGES if gaps]
    modules = [*(publication.module for publication in chosen), *own]
    cases = [case for module in modules for case in module.cases(setting)]
    results = Results.of_cases(cases, setting, processes=processes)
    return Report(
        title="Hadar and HadarE: what is published beside ours",
        introduction=INTRODUCTION,
        setting=setting.in_words(),
        rule=RULE,
        comparisons=[publication.module.compare(results) for publication in chosen],
        pages=[module.page(results) for module in own],
    )


def draw_plots(report: Report) -> list[Plot]:
    """Return the plots of what was made."""
    from paper_figures.hadar.plots import PAGES, PLOTS
    from paper_figures.plots import draw_all

    return draw_all(report, PLOTS, PAGES)
