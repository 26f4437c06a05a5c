"""Which tables and figures of Dally there are, and what is made of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paper_figures.report import Publication, Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from experiments.plots.figures import Plot

TABLES = (1, 2, 3, 4)
FIGURES = (1, 2, 3)
"""Numbers of ours: those of the paper are not known."""

ALL = (
    *(Publication("dally", "table", number) for number in TABLES),
    *(Publication("dally", "figure", number) for number in FIGURES),
)

OWN_PAGES = ("epoch_gap", "tuner_regret")
"""Modules of the questions of our own."""

DEFAULT_SCALE = 0.5
DEFAULT_SEEDS = 1

INTRODUCTION = (
    "Of the paper its abstract was at hand, and the public simulator of its first author, from "
    "which schemes, jobs, models and links are; the size of its clusters is not known. The numbers "
    "of tables and figures are ours.",
)

RULE = (
    "Verdicts follow a fixed rule. Less by p % is 100 / (100 - p) times better. Gains within 1 % "
    "of 1 are no change. If the paper's gain and ours do not point the same way, the number "
    "differs; if they do, and ours is within 10 % of the paper's, it is reproduced; otherwise it "
    "has the same direction. Where the paper says up to, ours is the greatest over everything that "
    "was run, and what else was run stands beside it."
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
    from paper_figures.dally.cases import Results, Setting

    setting = Setting(scale=scale, seeds=seeds)
    chosen = [publication for publication in ALL if publication in set(publications)]
    own = [import_module(f"paper_figures.dally.{name}") for name in OWN_PAGES if gaps]
    modules = [*(publication.module for publication in chosen), *own]
    cases = [case for module in modules for case in module.cases(setting)]
    results = Results.of_cases(cases, setting, processes=processes)
    return Report(
        title="Dally: what is published beside ours",
        introduction=INTRODUCTION,
        setting=setting.in_words(),
        rule=RULE,
        comparisons=[publication.module.compare(results) for publication in chosen],
        pages=[module.page(results) for module in own],
    )


def draw_plots(report: Report) -> list[Plot]:
    """Return the plots of what was made."""
    from paper_figures.dally.plots import PAGES, PLOTS
    from paper_figures.plots import draw_all

    return draw_all(report, PLOTS, PAGES)
