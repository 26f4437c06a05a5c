"""The pages on questions of our own about Dally."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from paper_figures.report import Report

if TYPE_CHECKING:
    from experiments.plots.figures import Plot

OWN_PAGES = ("epoch_gap", "tuner_regret")


def make_report(*, scale: float, seeds: int, processes: int) -> Report:
    """Run what the pages need."""
    from paper_figures.dally.cases import Results, Setting

    setting = Setting(scale=scale, seeds=seeds)
    own = [import_module(f"paper_figures.dally.{name}") for name in OWN_PAGES]
    cases = [case for module in own for case in module.cases(setting)]
    results = Results.of_cases(cases, setting, processes=processes)
    pages = [module.page(results) for module in own]
    return Report(title="", setting="", rule="", comparisons=[], pages=pages)


def draw_plots(report: Report) -> list[Plot]:
    """Return the plots of the pages."""
    from paper_figures.dally.plots import PAGES
    from paper_figures.plots import draw_all

    return draw_all(report, {}, PAGES)
