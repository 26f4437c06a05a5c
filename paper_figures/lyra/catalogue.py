"""The page on gaps of Lyra's heuristics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.lyra import gaps as gap_module
from paper_figures.report import Report

if TYPE_CHECKING:
    from experiments.plots.figures import Plot


def make_report(*, scale: float, seeds: int, processes: int) -> Report:
    """Run what the page needs."""
    from paper_figures.simulations import Results, Setting

    setting = Setting(scale=scale, seeds=seeds)
    results = Results.of_cases(gap_module.cases(setting), setting, processes=processes)
    return Report(title="", setting="", rule="", comparisons=[], pages=[gap_module.report(results)])


def draw_plots(report: Report) -> list[Plot]:
    """Return the plot of the page."""
    from paper_figures.lyra.plots import PAGES
    from paper_figures.plots import draw_all

    return draw_all(report, {}, PAGES)
