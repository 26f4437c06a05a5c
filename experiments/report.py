"""The command ``lyra-opt report``: tables, plots and one page from the store of a study."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import complain
from lyra_opt.commands.output import print_formatted, print_line, print_table
from lyra_opt.core.csv_text import frame_text
from lyra_opt.core.documents import write_text
from lyra_opt.core.errors import InputError, counted
from lyra_opt.core.gaps import gap_words
from lyra_opt.core.numbers import UP, percent
from lyra_opt.core.picture_styles import house_style
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Status
from lyra_opt.experiments import tables
from lyra_opt.experiments.analysis import GROUP, Analysis
from lyra_opt.experiments.chosen_pictures import ChosenPictures, chosen, drawn
from lyra_opt.experiments.executor import complain_of
from lyra_opt.experiments.frames import stored_runs
from lyra_opt.experiments.page import PAGE, how_run, render_page, write_plots
from lyra_opt.experiments.plots.figures import plot_makers
from lyra_opt.experiments.plots.profiles import profile_makers
from lyra_opt.experiments.proofs import find_contradictions
from lyra_opt.experiments.random_inputs import require_baseline
from lyra_opt.experiments.records import SolverRecord
from lyra_opt.experiments.scoreboard import METHOD, scoreboard_of, scoreboard_page
from lyra_opt.experiments.solver_differences import RANDOM, solver_differences
from lyra_opt.experiments.store import ResultStore
from lyra_opt.experiments.tables import table_of_frame

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from lyra_opt.core.gaps import GapWords
    from lyra_opt.core.table import Table
    from lyra_opt.experiments.chosen_pictures import PlotMakers
    from lyra_opt.experiments.plots.plot import Plot
    from lyra_opt.experiments.records import StudyRecord
    from lyra_opt.experiments.scoreboard import Scoreboard


@dataclass(frozen=True)
class StudyReport:
    """The content of a report, independent of its output format.

    Parameters
    ----------
    study
        The study.
    analysis
        The analysis of its runs.
    headline_solvers
        Configurations whose gap is the main result of the study.
    contradictions
        Results that cannot all be right, one line each.
    scoreboard
        Ranking of the solvers; None without instances of the library.
    baseline
        Configuration with which the others are compared; None for the first one.
    """

    study: StudyRecord
    analysis: Analysis
    headline_solvers: Sequence[str]
    contradictions: Sequence[str]
    scoreboard: Scoreboard | None = None
    baseline: str | None = None

    @cached_property
    def plots(self) -> list[Plot]:
        """The plots of the page."""
        return drawn(self.plot_makers())

    def plot_makers(self) -> PlotMakers:
        """Return a function for each plot, which draws it in the style in force."""
        makers = {} if self.scoreboard is None else profile_makers(self.scoreboard)
        if self.scoreboard is None or len(self.analysis.problems) == 1:
            # The plots of a study do not fit a hundred solvers.
            makers |= plot_makers(self.analysis, self.headline_solvers)
        return makers

    def runs_in_words(self) -> str:
        """Return a sentence with the number of stored runs and how they ended."""
        counts = Counter(run.status for run in self.analysis.runs)
        ended = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
        stored = len(self.analysis.runs)
        sentence = f"{stored} of {self.study.runs} runs are stored: {ended}."
        if stored < self.study.runs:
            sentence += " The study is not complete."
        return sentence

    def witnesses_in_words(self) -> str:
        """Return a sentence that counts the optima proved by one and by several methods.

        A second sentence counts optima of 0, over which an excess is infinite.
        """
        methods = self.analysis.proofs.witnesses.values()
        twice = sum(len(of_cell) > 1 for of_cell in methods)
        sentence = (
            f"{len(methods)} optima are proved: {twice} by at least two independent methods, "
            f"{len(methods) - twice} by one method only."
        )
        zeros = sum(optimum == 0 for optimum in self.analysis.proofs.optima.values())
        return (
            f"{sentence} {zeros} of them {'is' if zeros == 1 else 'are'} 0." if zeros else sentence
        )

    def headlines(self) -> list[str]:
        """Return a sentence on the gap of each headline solver for each group of families."""
        words = {
            key: gap_words(*runs.sense.dropna())
            for key, runs in self.analysis.grouped(self.analysis.frame, GROUP)
        }
        return [
            _headline(row, words[row.family, row.configuration])
            for row in self.analysis.sums_table().itertuples()
            if row.configuration in self.headline_solvers
        ]

    @cached_property
    def words(self) -> GapWords:
        """The words for the gap in tables over all runs: excess, shortfall or gap."""
        return gap_words(*self.analysis.frame.sense.dropna())

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """The table of gaps by family, size, combination of axis values, and solver."""
        return self.analysis.gap_table()

    @cached_property
    def differences(self) -> Table | None:
        """The paired differences between solvers; None if no pair exists, or with a scoreboard."""
        return None if self.scoreboard else solver_differences(self.analysis, self.baseline)

    @property
    def differences_in_words(self) -> str:
        """Sentences that explain the table of differences; empty without one."""
        table = self.differences
        if table is None:
            return ""
        return f"{table.title}. {RANDOM.method(table.frame().instances)}"

    def shown(self, table: pd.DataFrame) -> Table:
        """Return a data frame of gaps as a table with readable headings."""
        return tables.gap_table(table, self.words)

    def with_status(self, status: Status) -> list[SolverRecord]:
        """Return the runs that ended with a status."""
        return [run for run in self.analysis.runs if run.status is status]


def write_report(
    folder: Path,
    pictures: ChosenPictures | None = None,
    form: str = "table",
    *,
    baseline: str | None = None,
) -> int:
    """Write the report of the store in `folder` into that folder, and print its tables.

    Parameters
    ----------
    folder
        Folder of the store.
    pictures
        Pictures to write in addition to those of the page.
    form
        Format of the printed tables. JSON and CSV have the table by family alone.
    baseline
        Configuration with which the others are compared; None for the first one.

    Returns
    -------
    int
        0; 1 if a run failed or results contradict one another.

    Raises
    ------
    UserError
        If the folder has no store, the store is damaged, of another version or empty, or a file
        cannot be written.
    """
    report = make_report(folder, baseline)
    write_files(report, folder, pictures)
    print_report(report, form)
    if form == "table":
        print(f"{folder / PAGE}: the full report")
    status = complain_of(report.with_status(Status.ERROR))
    return 1 if report.contradictions else status


def write_files(report: StudyReport, folder: Path, pictures: ChosenPictures | None = None) -> None:
    """Write tables, plots and page of a report; raise `UserError` if a file cannot be written."""
    pictures = pictures or ChosenPictures()
    pictures.write(lambda name: chosen(report.plot_makers(), name))
    overall = report.analysis.overall_table()
    for name, table in (("gap_table", report.gaps), ("overall_table", overall)):
        write_text(folder / f"{name}.csv", frame_text(table))
        write_text(folder / f"{name}.md", report.shown(table).text("markdown"))
    if report.scoreboard is not None:
        write_text(folder / "scoreboard.csv", frame_text(report.scoreboard.table))
        write_text(folder / "scoreboard.md", scoreboard_page(report.scoreboard, report.plots))
    with house_style(pictures.style):
        more = drawn(report.plot_makers()) if pictures.kind else ()
    write_plots(folder, report.plots, more, pictures.kind or "")
    write_text(folder / PAGE, page_text(report))


def make_report(folder: Path, baseline: str | None = None) -> StudyReport:
    """Compute the content of a study report from the store in `folder`.

    It raises `UserError` if the folder has no readable store of a study, or the store is empty.
    """
    with ResultStore.open(folder) as store:
        study = store.study
    if study.kind != SolverRecord.kind:
        raise InputError(str(folder), f"has runs of kind {study.kind}: must have runs of solvers")
    runs = stored_runs(folder)
    analysis = Analysis(runs)
    require_baseline(baseline, analysis.configurations)
    headline_solvers = _headline_solvers(study, analysis)
    scoreboard = scoreboard_of(study, analysis)
    return StudyReport(
        study=study,
        analysis=analysis,
        headline_solvers=headline_solvers,
        contradictions=find_contradictions(runs),
        scoreboard=scoreboard,
        baseline=baseline,
    )


def _headline_solvers(study: StudyRecord, analysis: Analysis) -> list[str]:
    """Return the headline configurations of the study, or the problem's default solvers."""
    chosen = study.settings.get("headline", [])
    if not chosen and len(analysis.problems) == 1:
        problem = find_problem(analysis.problems[0])
        variants = {run.variant for run in analysis.runs if run.variant is not None}
        chosen = [problem.default_solver_of(variant) for variant in sorted(variants)]
    solvers = {run.configuration: run.solver for run in analysis.runs}
    return [label for name in chosen for label in analysis.configurations if solvers[label] == name]


def page_text(report: StudyReport) -> str:
    """Return the report as one self-contained HTML page."""
    failed = report.with_status(Status.ERROR)
    unsupported = report.with_status(Status.UNSUPPORTED)
    board = report.scoreboard
    entries = [
        *([("scoreboard", "Scoreboard")] if board else []),
        ("solvers", "Solvers side by side"),
        *([("differences", "Differences between solvers")] if report.differences else []),
        ("plots", "Plots"),
        ("families", "By family"),
        ("axes", "By family, size and axes"),
        ("words", "What the words mean"),
        *([("failed", "Failed runs")] if failed else []),
        *([("unsupported", "Unsupported runs")] if unsupported else []),
        ("study", "The study file"),
        ("how", "How it was run"),
    ]
    return render_page(
        "study.html.jinja",
        entries=entries,
        how=how_run(report.study, report.analysis.runs),
        report=report,
        rankings=[] if board is None else [(name, board.shown(name)) for name in board.problems],
        method=METHOD,
        words=report.words,
        sums=report.shown(report.analysis.sums_table()),
        families=report.shown(report.analysis.family_table()),
        gaps=report.shown(report.gaps),
        failed=failed,
        unsupported=sorted(
            Counter((run.configuration, run.message or "") for run in unsupported).items()
        ),
    )


def _headline(row: Any, words: GapWords) -> str:
    """Return a sentence on a solver's mean gap on a group of families, without infinite gaps."""
    what = f"{row.configuration}, {row.family}"
    if not row.compared:
        return f"{what}: {_without_optima(row, words)}."
    compared = row.compared - row.infinite - row.several_terms
    sentence = f"{what}: optimal on {percent(row.optimal_percent)} %"
    if compared:
        is_all = compared == row.compared
        most = "" if not is_all else f" and {percent(row.max_excess_percent)} % at most"
        sentence = (
            f"{what}: {percent(row.mean_excess_percent)} % {words.where} the proved optimum on "
            f"average{most}, over {compared} of {row.instances} instances; "
            f"optimal on {percent(row.optimal_percent)} %"
        )
    if row.infinite:
        sentence += f"; optimum of 0 missed on {counted(row.infinite, 'instance')} (no percentage)"
    if row.several_terms:
        missed = counted(row.several_terms, "instance")
        sentence += f"; optimum of several terms missed on {missed} (no percentage)"
    if row.unproved and math.isfinite(row.mean_excess_at_most_percent):
        at_most = percent(row.mean_excess_at_most_percent, rounding=UP)
        sentence += f"; at most {at_most} % on average with the unproved instances"
    elif row.unproved:
        sentence += f"; {counted(row.unproved, 'instance')} without a proved optimum"
    return f"{sentence}."


def _without_optima(row: Any, words: GapWords) -> str:
    """Return a clause on a solver that solved no instance with a proved optimum."""
    if not row.unproved:
        parts = {
            "no solution exists on": row.infeasible,
            "no solution yet on": row.instances - row.infeasible,
        }
        return ", ".join(f"{said} {counted(n, 'instance')}" for said, n in parts.items() if n)
    solved = f"{row.unproved} of {row.instances} instances without a proved optimum"
    if math.isfinite(row.mean_excess_at_most_percent):
        at_most = percent(row.mean_excess_at_most_percent, rounding=UP)
        return f"at most {at_most} % {words.where} the optimum on average, over {solved}"
    return f"solutions of {solved}; the gap is unknown because some bounds are not above 0"


def print_report(report: StudyReport, form: str) -> None:
    """Print the table of all solvers, and a detailed table of the headline solvers."""
    overall = report.analysis.overall_table()
    if form == "csv":
        print(frame_text(overall), end="")
        return
    tables = [replace(report.shown(overall), title="All solvers, by family")]
    detailed = report.gaps[report.gaps.configuration.isin(report.headline_solvers)]
    if len(detailed):
        title = f"{', '.join(report.headline_solvers)}, by family, size and the study's axes"
        tables.insert(0, replace(report.shown(detailed), title=title))
    compared = [] if report.differences is None else [report.differences]
    if print_formatted(form, [*tables, *compared], table_of_frame(overall).records()):
        return
    for table, file in zip(
        tables, ("gap_table.csv", "overall_table.csv")[-len(tables) :], strict=True
    ):
        print_line(f"{table.title}:")
        print_table(table, elsewhere=file)
    if report.differences is not None:
        print_line(report.differences_in_words)
        print_table(report.differences, None)
    print_line(report.runs_in_words())
    print_line(report.witnesses_in_words())
    for contradiction in report.contradictions:
        complain(f"CONTRADICTION: {contradiction}")
