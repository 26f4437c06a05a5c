"""The files of ``lyra-opt paper``: a page for each table and figure, plots and one HTML page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.simulation.page import make_folder, require_folder_path
from lyra_opt.documents import write_text
from paper_figures.comparison import RULE, Verdict
from paper_figures.lyra import gaps
from paper_figures.plots import draw_plots

if TYPE_CHECKING:
    from experiments.plots.figures import Plot
    from paper_figures.lyra.catalogue import Report

__all__ = ["PAGE", "make_folder", "page_text", "require_folder_path", "write_pages"]

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "index.html"
PLOTS_FOLDER = "plots"


def write_pages(report: Report, folder: Path) -> Path:
    """Write everything into a folder that is there; return the path of the HTML page.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    plots = draw_plots(report)
    for comparison in report.comparisons:
        write_text(folder / f"{comparison.name}.md", comparison.as_markdown())
    if report.gaps is not None:
        write_text(folder / f"{gaps.NAME}.md", report.gaps.as_markdown())
    if plots:
        make_folder(folder / PLOTS_FOLDER)
    for plot in plots:
        write_text(folder / PLOTS_FOLDER / f"{plot.name}.svg", plot.svg)
    write_text(folder / PAGE, page_text(report, plots))
    return folder / PAGE


def page_text(report: Report, plots: list[Plot]) -> str:
    """Return everything as one HTML page that needs no other file."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    verdicts = [str(verdict) for verdict in Verdict]
    counted = [(comparison.title, comparison.verdicts) for comparison in report.comparisons]
    counted.append(("all", sum((counts for _, counts in counted), Counter())))
    return environment.get_template("index.html.jinja").render(
        comparisons=report.comparisons,
        gaps=report.gaps,
        gaps_name=gaps.NAME,
        gaps_title=gaps.TITLE,
        plots={plot.name: plot for plot in plots},
        plot_name=_plot_name,
        rule=RULE,
        verdicts=verdicts,
        overview=[
            [title, str(counts.total()), *(str(counts[verdict]) for verdict in verdicts)]
            for title, counts in counted
        ],
        setting=report.setting.in_words(),
    )


def _plot_name(comparison: str) -> str:
    """Return the name of the plot of a table or figure, if it has one."""
    return comparison.removeprefix("lyra-").replace("-", "_")
