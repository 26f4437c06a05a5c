"""Compute a paper's tables and figures: simulate, compare, plot, and write the pages.

``lyra-opt paper`` writes one page per table and figure, an overview, plots, and an HTML page.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lyra_opt.commands.messages import say
from lyra_opt.core.documents import write_text
from lyra_opt.core.picture_styles import house_style
from lyra_opt.core.version import VERSION
from lyra_opt.experiments.executor import EXIT_INTERRUPTED, run_stored
from lyra_opt.experiments.page import (
    PLOTS_FOLDER,
    HowRun,
    environments_of,
    render_page,
    write_plots,
)
from lyra_opt.experiments.plots.plot import Plot
from lyra_opt.experiments.pool import Engine
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.running.tasks import ReplayTask
from lyra_opt.instances.traces import not_there
from lyra_opt.paper_figures.comparison import Comparison, markdown_table, rule_of_verdicts
from lyra_opt.paper_figures.document import PublicationTable
from lyra_opt.paper_figures.evaluation import compared, missing_traces, runs_of
from lyra_opt.paper_figures.plots import plot_of
from lyra_opt.paper_figures.results import Results
from lyra_opt.paper_figures.setting import Setting
from lyra_opt.paper_figures.stored import OVERVIEW
from lyra_opt.paper_figures.verdicts import RULE, Verdict

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "index.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperReport:
    """The computed tables and figures of a paper.

    Parameters
    ----------
    title
        The title of the HTML page.
    introduction
        Paragraphs that a reader needs before the numbers.
    setting
        The size of the simulation, in a sentence.
    comparisons
        The chosen tables and figures, in the order of the paper.
    plots
        The plots, by name of the comparison.
    runs
        The simulations behind the numbers.
    failed
        The error of each failed simulation, by its key.
    """

    title: str
    introduction: Sequence[str] = ()
    setting: str
    comparisons: Sequence[Comparison]
    plots: Mapping[str, Plot]
    runs: Sequence[ReplayRecord]
    failed: Mapping[str, str]


def write_pages(
    report: PaperReport, folder: Path, *, command: str, more: Sequence[Plot] = (), kind: str = ""
) -> Path:
    """Write all pages into an existing folder; return the path of the HTML page.

    Parameters
    ----------
    command
        The command line, which the page shows.
    more, kind
        Plots that are also written in another format, ``pdf`` or ``png``.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    for comparison in report.comparisons:
        plot = report.plots.get(comparison.name)
        picture = f"![{plot.title}]({PLOTS_FOLDER}/{plot.name}.svg)" if plot else ""
        write_text(folder / f"{comparison.name}.md", comparison.as_markdown(picture))
    write_plots(folder, list(report.plots.values()), more, kind)
    made_at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    write_text(folder / OVERVIEW, overview_text(report, _how(report, command, made_at)))
    write_text(folder / PAGE, page_text(report, command, made_at))
    return folder / PAGE


def overview_text(report: PaperReport, how: HowRun) -> str:
    """Return the overview page in Markdown: counts of verdicts, sources, and the rule."""
    counted = counts_of_verdicts(report.comparisons)
    found = [each for each in map(str, Verdict) if any(counts[each] for _, _, counts in counted)]
    lines = [f"# {report.title}", ""]
    if counted:
        rows = _rows_of_counts(counted, found)
        lines += [*markdown_table(["", "judged", "numbers", *found], rows, words=2), ""]
    lines += [report.setting, ""] if report.setting else []
    if report.failed:
        lines += [f"**{len(report.failed)} simulations failed; the numbers exclude them.**", ""]
    lines += [f"`{how.command}`, lyra-opt {VERSION}: {how.dates}.", ""]
    lines += [f"- {runs} simulations on {environment}" for environment, runs in how.environments]
    return "\n".join([*lines, "", *rule_of_verdicts(), ""])


def _rows_of_counts(
    counted: Sequence[tuple[str, str, Counter[str]]], verdicts: Sequence[str]
) -> list[list[str]]:
    return [
        [title, what, str(counts.total()), *(str(counts[each] or "") for each in verdicts)]
        for title, what, counts in counted
    ]


def counts_of_verdicts(comparisons: Sequence[Comparison]) -> list[tuple[str, str, Counter[str]]]:
    """Return the number of values and gains with each verdict, per table and in total."""
    counted = [
        (comparison.title, what, counts)
        for comparison in comparisons
        for what, counts in comparison.verdicts.items()
    ]
    whole: dict[str, Counter[str]] = {}
    for _, what, counts in counted:
        whole.setdefault(what, Counter()).update(counts)
    return counted + [("all", what, counts) for what, counts in whole.items()]


def page_text(report: PaperReport, command: str, made_at: str) -> str:
    """Return the whole report as one HTML page that needs no other file."""
    verdicts = [str(verdict) for verdict in Verdict]
    names = [comparison.name for comparison in report.comparisons]
    short = (name.partition("-")[2].replace("-", " ").capitalize() for name in names)
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
        links=[each.name for each in report.comparisons for _ in each.verdicts],
        overview=_rows_of_counts(counts_of_verdicts(report.comparisons), verdicts),
    )


def _how(report: PaperReport, command: str, made_at: str) -> HowRun:
    moments = sorted(run.started_at[:16].replace("T", " ") for run in report.runs)
    dates = f"page made {made_at}"
    if moments:
        dates += f"; {len(moments)} simulations begun {moments[0]} to {moments[-1]} UTC"
    return HowRun(command, dates, environments_of(report.runs))


def run_paper(
    setting: Setting,
    publications: Sequence[PublicationTable],
    folder: Path,
    *,
    engine: Engine,
    resume: bool,
    command: str,
) -> tuple[int, Results]:
    """Run the simulations that tables and figures need, each once, and store their results.

    Parameters
    ----------
    setting
        The paper and the scale.
    publications
        The chosen tables and figures.
    folder
        The folder of the store, which is created unless no simulation is needed.
    engine
        The engine that runs the simulations.
    resume
        Whether to continue with an existing store.
    command
        The command line, which the store records.

    Returns
    -------
    int
        0; 1 if a simulation failed; `EXIT_INTERRUPTED` after Ctrl-C, SIGTERM or SIGHUP.
    Results
        The results; empty after an interruption.

    Raises
    ------
    UserError
        As `run_stored`, or if the paper's file names a missing function.
    """
    if missing := missing_traces(setting, publications):
        names = ", ".join(missing)
        say(f"{setting.paper.name}: {names}: {not_there()}; simulations that need them are not run")
    tasks = tasks_of(setting, publications)
    if not tasks:
        return 0, Results(setting, None)
    status = run_stored(setting.study(tasks, command), tasks, folder, engine=engine, resume=resume)
    if status == EXIT_INTERRUPTED:
        return status, Results(setting, None)
    results = Results(setting, folder, keys=[task.key for task in tasks])
    return int(bool(results.failed)), results


def tasks_of(setting: Setting, publications: Sequence[PublicationTable]) -> list[ReplayTask]:
    """Return the simulations of tables and figures, without repetition, grouped by workload."""
    runs = dict.fromkeys(each for one in publications for each in runs_of(setting, one))
    workloads: dict[Any, int] = {}
    for run, draw in runs:
        workloads.setdefault((run.scenario, run.changes, draw), len(workloads))
    ordered = sorted(runs, key=lambda each: workloads[each[0].scenario, each[0].changes, each[1]])
    return [setting.task(run, draw, position) for position, (run, draw) in enumerate(ordered)]


def report_of(results: Results, publications: Sequence[PublicationTable]) -> PaperReport:
    """Return the chosen tables and figures with simulated numbers and plots."""
    comparisons = [compared(results, each) for each in publications]
    with house_style():
        drawn = {
            comparison.name: plot_of(comparison, publication.plot)
            for publication, comparison in zip(publications, comparisons, strict=True)
            if publication.plot is not None
        }
    plots = {name: plot for name, plot in drawn.items() if plot is not None}
    for comparison in comparisons:
        if comparison.name in plots:
            comparison.record(plots[comparison.name].figure)
    return PaperReport(
        title=results.paper.title,
        introduction=results.paper.introduction,
        setting=results.setting.in_words(),
        comparisons=comparisons,
        plots=plots,
        runs=results.runs,
        failed=results.failed,
    )
