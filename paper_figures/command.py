"""``lyra-opt paper``: published tables and figures beside ours."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import (
    add_engine_options,
    add_resume_option,
    integer_from,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from lyra_opt.paper_figures.document import PaperTable, PublicationTable

PAPERS = ("lyra", "hadar", "dally", "gavel", "pollux")
MOST_SEEDS = 100

DESCRIPTION = """\
Make published tables and figures again: the paper's number, ours, the ratio and a verdict by a
fixed rule, with what stands against either in footnotes. DIR gets a page in Markdown for each of
them, overview.md with the verdicts counted, plots and index.html, and a store of every simulation:
after an interruption --resume goes on with it, and further tables use what is there.
"""

EXAMPLES = """\
examples:
  lyra-opt paper lyra                       everything, at a tenth of the paper's size
  lyra-opt paper lyra --table 1 --figure 5  the worked example of reclaiming, at once
  lyra-opt paper lyra --table 5 --scale 1   the paper's size
  lyra-opt paper hadar                      everything, with fewer jobs and GPUs than the paper's
  lyra-opt paper hadar --table 1 --scale 1  480 jobs on 60 GPUs
  lyra-opt paper dally                      everything, with half of the jobs and racks
  lyra-opt paper dally --table 4            the schemes of all papers on one cluster
  lyra-opt paper gavel                      what Gavel's own simulator gives, beside ours
  lyra-opt paper pollux                     the same of Pollux's

Exit code: 0; 1 if a simulation failed; 2 for bad input or usage; 130 after Ctrl-C, SIGTERM or
SIGHUP.
"""


class _Help(argparse._HelpAction):  # noqa: SLF001
    """Shows what there is of each paper too, whose files nothing else has to read."""

    def __call__(self, parser: argparse.ArgumentParser, *arguments: Any, **options: Any) -> None:
        """See `argparse.Action`."""
        parser.description = "\n\n".join([DESCRIPTION.rstrip(), *map(_in_words, PAPERS)])
        super().__call__(parser, *arguments, **options)


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "paper", help="make published tables and figures again", epilog=EXAMPLES, add_help=False
    )
    parser.add_argument("-h", "--help", action=_Help, help="show this help message and exit")
    parser.add_argument("paper", choices=PAPERS, metavar="PAPER", help=", ".join(PAPERS))
    for kind in ("table", "figure"):
        parser.add_argument(
            f"--{kind}", action="append", metavar="N", help=f"this {kind}; may be repeated"
        )
    parser.add_argument("--all", action="store_true", help="everything (the default)")
    parser.add_argument(
        "--scale",
        type=_scale,
        metavar="S",
        help="share of the paper's size, above 0 and at most 1 (default: see above)",
    )
    parser.add_argument(
        "--seeds",
        type=integer_from(1, MOST_SEEDS),
        metavar="N",
        help="workloads that means are over; of lyra, table 5 and figures 10 and 13 take three of "
        "them at most, and other tables a number of their own (default: see above)",
    )
    add_engine_options(parser, "simulations")
    parser.add_argument("--out", metavar="DIR", help="folder of the pages (default: see above)")
    add_resume_option(parser, "simulations that are there already")
    parser.set_defaults(run=run)


def _in_words(name: str) -> str:
    """Return what there is of a paper."""
    from lyra_opt.paper_figures.document import find_paper

    paper = find_paper(name)
    numbers = {
        kind: ", ".join(str(each.number) for each in paper.publications if each.kind == kind)
        for kind in ("table", "figure")
    }
    there = "; ".join(f"{kind}s {listed}" for kind, listed in numbers.items() if listed)
    return (
        f"{paper.name}: {paper.citation}.\n{there[0].upper()}{there[1:]}.\n"
        f"{paper.remarks.strip()}\n"
        f"By default --scale {paper.scale:g}, --seeds {paper.seeds}, --out {paper.folder}."
    )


def _scale(text: str) -> float:
    """Argument type: a number above 0 and at most 1."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0 and at most 1")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from lyra_opt.commands.output import output_folder, require_folder_path, stdout_kept_clean
    from lyra_opt.core.errors import UserError
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.settings import engine_of
    from lyra_opt.paper_figures.document import find_paper
    from lyra_opt.paper_figures.paper import OVERVIEW, report_of, run_paper, write_pages
    from lyra_opt.paper_figures.setting import Setting

    paper = find_paper(arguments.paper)
    chosen = _chosen(paper, {kind: getattr(arguments, kind) for kind in ("table", "figure")})
    if arguments.all and chosen:
        raise UserError("--all makes everything: leave out --table and --figure")
    folder = Path(paper.folder if arguments.out is None else arguments.out)
    require_folder_path("--out", folder)
    publications = chosen or list(paper.publications)
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
        page = write_pages(report, folder, command=arguments.command_line)
    for comparison in report.comparisons:
        print(f"{folder / comparison.name}.md: {comparison.counted()}")
    print(f"{folder / OVERVIEW}: verdicts counted, how it was run, and the rule")
    print(f"{page}: all of it, with plots")
    return status


def _chosen(paper: PaperTable, given: dict[str, Sequence[str] | None]) -> list[PublicationTable]:
    """Return the tables and figures that were asked for, in the order of the paper."""
    from lyra_opt.core.errors import UserError

    asked = set()
    for kind, numbers in given.items():
        known = [str(each.number) for each in paper.publications if each.kind == kind]
        for text in numbers or ():
            if text not in known:
                there = ", ".join(known) or "none"
                raise UserError(
                    f"--{kind} is {text!r}: no such {kind} here; there are {there} of {paper.name}"
                )
            asked.add((kind, int(text)))
    return [each for each in paper.publications if (each.kind, each.number) in asked]
