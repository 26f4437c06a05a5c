"""``lyra-opt report``: tables, plots and one page from the store of a study."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, TypeVar

from experiments.analysis import Analysis, Group, group_label
from experiments.contradictions import find_contradictions
from experiments.gap_words import gap_words
from experiments.plots.figures import draw_plots
from experiments.store import ResultStore
from experiments.tables import (
    csv_table,
    gap_columns,
    markdown_table,
    overall_columns,
    percent,
    shown_rows,
)
from lyra_opt.commands.output import print_table
from lyra_opt.documents import write_text
from lyra_opt.errors import InputError, UserError, one_line
from lyra_opt.problem import find_problem
from lyra_opt.result import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.analysis import Summary
    from experiments.gap_words import GapWords
    from experiments.plots.figures import Plot
    from experiments.records import SolverRecord, StudyRecord
    from experiments.tables import Column

RowT = TypeVar("RowT")

TEMPLATES = Path(__file__).parent / "templates"
PAGE = "report.html"
WIDEST_HEADER = 10
"""Characters after which a header of a printed table is broken."""

PLOTS_FOLDER = "plots"


@dataclass(frozen=True, slots=True)
class Report:
    """What a report says, before it is written in any form.

    Parameters
    ----------
    study
        The study.
    analysis
        Its runs.
    headline_solvers
        The configurations whose gap the study is about.
    contradictions
        Results that cannot all be right, a line each.
    plots
        Drawn plots.
    """

    study: StudyRecord
    analysis: Analysis
    headline_solvers: Sequence[str]
    contradictions: Sequence[str]
    plots: Sequence[Plot]

    def runs_in_words(self) -> str:
        """Return how many runs there are, and how they ended."""
        counts = Counter(run.status for run in self.analysis.runs)
        ended = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
        stored = len(self.analysis.runs)
        sentence = f"{stored} of {self.study.runs} runs are stored: {ended}."
        if stored < self.study.runs:
            sentence += " The study is not complete."
        return sentence

    def witnesses_in_words(self) -> str:
        """Return how many optima are proved by two methods that share no code, or by one.

        And how many of them are 0, where no excess is finite but that of the optimum.
        """
        methods = self.analysis.witnesses.values()
        twice = sum(len(of_cell) > 1 for of_cell in methods)
        sentence = (
            f"{len(methods)} optima are proved: {twice} by two methods or more, each by itself, "
            f"{len(methods) - twice} by one method alone."
        )
        zeros = sum(optimum == 0 for optimum in self.analysis.optima.values())
        return (
            f"{sentence} {zeros} of them {'is' if zeros == 1 else 'are'} 0." if zeros else sentence
        )

    def headlines(self) -> list[str]:
        """Return what these solvers come to, in a sentence for each group of families."""
        words = {
            (group, configuration): gap_words(runs)
            for group, configuration, runs in self.analysis.grouped(
                lambda run: Group(family=group_label(run))
            )
        }
        return [
            _headline(row, words[row.group, row.configuration])
            for row in self.analysis.sums_table()
            if row.configuration in self.headline_solvers
        ]

    def words(self) -> GapWords:
        """Return what tables over all runs call the distance from the optimum."""
        return gap_words(self.analysis.runs)

    def with_status(self, status: Status) -> list[SolverRecord]:
        """Return the runs that ended so."""
        return [run for run in self.analysis.runs if run.status is status]

    def environments(self) -> list[tuple[str, int]]:
        """Return each environment in words with its number of runs."""
        counts = Counter(_environment_in_words(run) for run in self.analysis.runs)
        return sorted(counts.items())


def write_report(folder: Path) -> int:
    """Write the report of the store in `folder` there, and print its tables.

    Returns
    -------
    int
        0; 1 if results contradict one another.

    Raises
    ------
    UserError
        If there is no store, it is damaged, of another version or empty, or a file cannot be
        written.
    """
    report = make_report(folder)
    write_files(report, folder)
    _print_report(report)
    print(f"{folder / PAGE}: the whole report")
    return 1 if report.contradictions else 0


def write_files(report: Report, folder: Path) -> None:
    """Write tables, plots and page; `UserError` if a file cannot be written."""
    gaps = report.analysis.gap_table()
    overall = report.analysis.overall_table()
    words = report.words()
    plots_folder = folder / PLOTS_FOLDER
    try:
        plots_folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"{plots_folder}: cannot be made: {error.strerror or error}") from None
    write_text(folder / "gap_table.csv", csv_table(gaps))
    write_text(folder / "gap_table.md", markdown_table(gap_columns(gaps, words), gaps))
    write_text(folder / "overall_table.csv", csv_table(overall))
    write_text(folder / "overall_table.md", markdown_table(overall_columns(words), overall))
    for plot in report.plots:
        write_text(plots_folder / f"{plot.name}.svg", plot.svg)
    write_text(folder / PAGE, page_text(report))


def make_report(folder: Path) -> Report:
    """Read the store in `folder` and compute what its report says; errors as `write_report`."""
    with ResultStore.open(folder) as store:
        study = store.study
        runs = store.runs()
    if not runs:
        raise InputError(str(folder), "its store holds no run yet")
    analysis = Analysis(runs)
    headline_solvers = _headline_solvers(study, analysis)
    return Report(
        study=study,
        analysis=analysis,
        headline_solvers=headline_solvers,
        contradictions=find_contradictions(runs),
        plots=draw_plots(analysis, headline_solvers),
    )


def _headline_solvers(study: StudyRecord, analysis: Analysis) -> list[str]:
    """Return the configurations of the study's headline, or of the problem's default solvers."""
    chosen = study.settings["headline"]
    if not chosen:
        problem = find_problem(study.settings["problem"])
        variants = {run.variant for run in analysis.runs if run.variant is not None}
        chosen = [problem.default_solver_of(variant) for variant in sorted(variants)]
    solvers = {run.configuration: run.solver for run in analysis.runs}
    return [label for name in chosen for label in analysis.configurations if solvers[label] == name]


def page_text(report: Report) -> str:
    """Return the report as one HTML page that needs no other file."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["one_line"] = lambda text: one_line(text or "")
    gaps = report.analysis.gap_table()
    words = report.words()
    of_all, of_groups = overall_columns(words), gap_columns(gaps, words)
    return environment.get_template("report.html.jinja").render(
        report=report,
        words=words,
        overall_columns=of_all,
        sums_rows=shown_rows(of_all, report.analysis.sums_table()),
        family_rows=shown_rows(of_all, report.analysis.family_table()),
        gap_columns=of_groups,
        gap_rows=shown_rows(of_groups, gaps),
        failed=report.with_status(Status.ERROR),
        unsupported=sorted(
            Counter(
                (run.configuration, run.message or "")
                for run in report.with_status(Status.UNSUPPORTED)
            ).items()
        ),
    )


def _headline(row: Summary, words: GapWords) -> str:
    if not row.compared:
        return (
            f"{row.configuration}, {row.group.family}: at most "
            f"{percent(row.mean_excess_at_most_percent)} % {words.where} the optimum on average, "
            f"over {row.unproved} of {row.instances} instances, none of whose optima is proved."
        )
    compared = row.compared - row.infinite
    mean, maximum, optimal = (
        percent(value)
        for value in (row.mean_excess_percent, row.max_excess_percent, row.optimal_percent)
    )
    sentence = (
        f"{row.configuration}, {row.group.family}: {mean} % {words.where} the proved optimum on "
        f"average and {maximum} % at most, over {compared} of {row.instances} instances; "
        f"optimal on {optimal} %"
    )
    if row.unproved:
        at_most = percent(row.mean_excess_at_most_percent)
        sentence += f"; with those without a proved optimum at most {at_most} % on average"
    return f"{sentence}."


def _environment_in_words(run: SolverRecord) -> str:
    versions = ", ".join(
        f"{name} {number or 'not installed'}" for name, number in run.versions.items()
    )
    return f"{run.cpu}, {run.cores} processors, {run.platform}; {versions}"


def _print_report(report: Report) -> None:
    """Print both tables, the detailed one for the headline's solvers only."""
    gaps = report.analysis.gap_table()
    words = report.words()
    detailed = [row for row in gaps if row.configuration in report.headline_solvers]
    if detailed:
        print(f"{', '.join(report.headline_solvers)}, by family, size and the study's axes:")
        print_rows(gap_columns(detailed, words), detailed)
    print("All solvers, by family:")
    print_rows(overall_columns(words), report.analysis.overall_table())
    print(report.runs_in_words())
    print(report.witnesses_in_words())
    for contradiction in report.contradictions:
        print(f"CONTRADICTION: {contradiction}", file=sys.stderr)


def print_rows(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> None:
    """Print a table."""
    first_number = next(place for place, column in enumerate(columns) if column.is_number)
    headers = ["\n".join(wrap(column.header, WIDEST_HEADER)) for column in columns]
    print_table(headers, shown_rows(columns, rows), first_number)
