"""The files of ``lyra-opt paper``: a page for each table and figure, plots and one HTML page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.commands.folders import make_folder
from lyra_opt.documents import write_text
from paper_figures.comparison import Verdict

if TYPE_CHECKING:
    from experiments.plots.figures import Plot
    from paper_figures.report import Report

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "index.html"
PLOTS_FOLDER = "plots"


def write_pages(report: Report, plots: list[Plot], folder: Path) -> Path:
    """Write everything into a folder that is there; return the path of the HTML page.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    for comparison in report.comparisons:
        write_text(folder / f"{comparison.name}.md", comparison.as_markdown())
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
        report=report,
        plots={plot.name: plot for plot in plots},
        plot_name=_plot_name,
        verdicts=verdicts,
        overview=[
            [title, str(counts.total()), *(str(counts[verdict]) for verdict in verdicts)]
            for title, counts in counted
        ],
    )


def _plot_name(page: str) -> str:
    """Return the name of the plot of a page, if it has one."""
    return page.partition("-")[2].replace("-", "_")
