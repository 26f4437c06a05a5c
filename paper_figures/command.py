"""The command ``lyra-opt paper``: show or compute published tables and figures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.paper_figures.document import PaperTable, PublicationTable
    from lyra_opt.paper_figures.stored import StoredTable

PAPERS = ("lyra", "hadar", "dally", "gavel", "pollux")
MOST_SEEDS = 100


def scale(text: str) -> float:
    """Return a scale from a command-line argument: a number above 0 and at most 1."""
    value = number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0 and at most 1")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command ``paper`` and return its exit code."""
    from lyra_opt.core.errors import UserError
    from lyra_opt.paper_figures.document import find_paper
    from lyra_opt.paper_figures.stored import stored_overview, stored_table

    paper = find_paper(arguments.paper)
    publications = chosen(paper, {"table": arguments.tables, "figure": arguments.figures})
    if arguments.compute:
        return _compute(arguments, paper, publications or list(paper.publications))
    for name in ("scale", "seeds", "processes", "scheduler", "out", "resume", "pictures"):
        if getattr(arguments, name):
            raise UserError(f"--{name}: needs --run, which simulates the chosen tables")
    stored = [stored_table(paper, each) for each in publications] or [stored_overview(paper)]
    if _print_formatted(arguments.form, stored):
        return 0
    if not publications:
        _show_overview(paper, stored[0])
    for each in stored if publications else ():
        _show(each)
    return 0


def _print_formatted(form: str, stored: Sequence[StoredTable]) -> bool:
    """Print tables for programs or papers; in JSON and CSV each row names its table."""
    from lyra_opt.commands.output import print_formatted

    tables = [each.table for each in stored if each.table.columns]
    rows = [{"table": each.page.stem, **row} for each in stored for row in each.table.records()]
    return print_formatted(form, tables, rows)


def _show_overview(paper: PaperTable, stored: StoredTable) -> None:
    from lyra_opt.commands.output import print_line, print_table

    print_line(f"{paper.name}: {' '.join(paper.citation.split())}.")
    print()
    print_table(stored.table, None)
    print()
    print_line(" ".join(paper.remarks.split()))
    print_line(
        f"Defaults of --run: --scale {paper.scale:g}, --seeds {paper.seeds}, --out {paper.folder}."
    )


def _show(stored: StoredTable) -> None:
    from lyra_opt.commands.output import print_line, print_table

    print_line(": ".join(filter(None, (stored.title, stored.heading))))
    print()
    if stored.table.columns:
        print_table(stored.table, None)
        print()
    print_line(stored.verdicts)
    for note in stored.notes:
        print_line(f"- {note}", "  ")
    print_line(f"Full page: {stored.page}")


def _compute(
    arguments: argparse.Namespace, paper: PaperTable, publications: list[PublicationTable]
) -> int:
    from lyra_opt.commands.output import output_folder, require_folder_path, stdout_kept_clean
    from lyra_opt.core.picture_styles import house_style
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.settings import engine_of
    from lyra_opt.paper_figures.paper import report_of, run_paper, write_pages
    from lyra_opt.paper_figures.setting import Setting
    from lyra_opt.paper_figures.stored import OVERVIEW, parse_page

    folder = Path(paper.folder if arguments.out is None else arguments.out)
    require_folder_path("--out", folder)
    scale, seeds = arguments.scale or paper.scale, arguments.seeds or paper.seeds
    engine = engine_of(arguments.scheduler, arguments.processes, spares_one=True)
    with output_folder("--out", folder), stdout_kept_clean():
        setting = Setting(paper, scale, seeds)
        status, results = run_paper(
            setting,
            publications,
            folder,
            engine=engine,
            resume=arguments.resume,
            command=arguments.command_line,
        )
        if status == EXIT_INTERRUPTED:
            return status
        report = report_of(results, publications)
        with house_style(arguments.style):
            more = report_of(results, publications).plots.values() if arguments.pictures else ()
        command, kind = arguments.command_line, arguments.pictures or ""
        page = write_pages(report, folder, command=command, more=[*more], kind=kind)
    pages = [folder / f"{comparison.name}.md" for comparison in report.comparisons]
    if _print_formatted(arguments.form, [parse_page(each) for each in pages]):
        return status
    for comparison in report.comparisons:
        print(f"{folder / comparison.name}.md: {comparison.counted()}")
    print(f"{folder / OVERVIEW}: counts of verdicts, the machine and the rule of verdicts")
    print(f"{page}: all tables, figures and plots")
    return status


def chosen(paper: PaperTable, given: Mapping[str, Sequence[str]]) -> list[PublicationTable]:
    """Return the tables and figures with the given numbers by kind, in the order of the paper."""
    from lyra_opt.core.errors import UserError

    wanted = set()
    for kind, numbers in given.items():
        known = [str(each.number) for each in paper.publications if each.kind == kind]
        for text in numbers:
            if text not in known:
                rule = (
                    f"must be one of {', '.join(known)}" if known else f"the paper has no {kind}s"
                )
                raise UserError(f"{kind} {text}: not a {kind} of {paper.name}: {rule}")
            wanted.add((kind, int(text)))
    return [each for each in paper.publications if (each.kind, each.number) in wanted]
