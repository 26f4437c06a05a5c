"""The files of ``lyra-opt paper``: a page for each table and figure, plots and one HTML page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.core.documents import write_text
from lyra_opt.core.version import VERSION
from lyra_opt.experiments.page import HowRun, environments_of, render_page, write_plots
from lyra_opt.paper_figures.verdicts import RULE, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.experiments.plots.figures import Plot
    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.paper_figures.comparison import Comparison

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that was made of a paper.

    Parameters
    ----------
    title
        Of the HTML page.
    introduction
        What a reader must know before the numbers, a paragraph each.
    setting
        How much was simulated, in a sentence.
    comparisons
        The tables and figures asked for, in the order of the paper.
    plots
        Of those that have one, by name of the comparison.
    runs
        Simulations that the numbers are from.
    failed
        Why others failed, by their key.
    """

    title: str
    introduction: Sequence[str] = ()
    setting: str
    comparisons: Sequence[Comparison]
    plots: Mapping[str, Plot]
    runs: Sequence[ReplayRecord]
    failed: Mapping[str, str]


def write_pages(report: Report, folder: Path, *, command: str) -> Path:
    """Write everything into a folder that is there; return the path of the HTML page.

    Parameters
    ----------
    command
        The command line, for the page.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    for comparison in report.comparisons:
        write_text(folder / f"{comparison.name}.md", comparison.as_markdown())
    write_plots(folder, report.plots.values())
    write_text(folder / PAGE, page_text(report, command))
    return folder / PAGE


def page_text(report: Report, command: str) -> str:
    """Return everything as one HTML page that needs no other file."""
    verdicts = [str(verdict) for verdict in Verdict]
    counted = [
        (comparison, what, counts)
        for comparison in report.comparisons
        for what, counts in comparison.verdicts.items()
    ]
    whole: dict[str, Counter[str]] = {}
    for _, what, counts in counted:
        whole.setdefault(what, Counter()).update(counts)
    rows = [(comparison.title, what, counts) for comparison, what, counts in counted]
    rows += [("all", what, counts) for what, counts in whole.items()]
    names = [comparison.name for comparison in report.comparisons]
    short = (name.partition("-")[2].replace("-", " ").capitalize() for name in names)
    made_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return render_page(
        "paper.html.jinja",
        folder=TEMPLATES,
        report=report,
        version=VERSION,
        made_at=made_at,
        how=_how(report, command, made_at),
        entries=[("all", "Overview"), *zip(names, short, strict=True), ("how", "How it was run")],
        plots=report.plots,
        rule=RULE,
        verdicts=verdicts,
        links=[comparison.name for comparison, _, _ in counted],
        overview=[
            [title, what, str(counts.total()), *(str(counts[each] or "") for each in verdicts)]
            for title, what, counts in rows
        ],
    )


def _how(report: Report, command: str, made_at: str) -> HowRun:
    moments = sorted(run.started_at[:16].replace("T", " ") for run in report.runs)
    dates = f"page made {made_at}"
    if moments:
        dates += f"; {len(moments)} simulations begun {moments[0]} to {moments[-1]} UTC"
    return HowRun(command, dates, environments_of(report.runs))
