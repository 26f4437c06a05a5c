"""``lyra-opt paper``: published tables and figures beside ours."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.commands.arguments import HelpFormatter, integer_from, plain_text
from paper_figures.paper import PAPERS
from paper_figures.report import Publication

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MOST_SEEDS = 100

DESCRIPTION = """\
Make published tables and figures again: the paper's number, ours, the ratio and a verdict by a
fixed rule, with what stands against either in footnotes. DIR gets a page in Markdown for each of
them, plots and index.html, whose first page answers questions that the paper does not ask.
"""

EXAMPLES = """\
examples:
  lyra-opt paper lyra                       everything, at a tenth of the paper's size
  lyra-opt paper lyra --table 1 --figure 5  the worked example of reclaiming, at once
  lyra-opt paper lyra --gaps --seeds 10     does closing the gaps change what users feel?
  lyra-opt paper lyra --table 5 --scale 1   the paper's size
  lyra-opt paper hadar                      everything, with fewer jobs and GPUs than the paper's
  lyra-opt paper hadar --gaps               how far from optimal are Hadar, HadarE and Gavel?
  lyra-opt paper hadar --table 1 --scale 1  480 jobs on 60 GPUs
  lyra-opt paper dally                      everything, with half of the jobs and racks
  lyra-opt paper dally --table 4            the schemes of all papers on one cluster

Exit code: 0; 1 if a simulation failed its checks; 2 for bad input or usage; 130 after Ctrl-C.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    papers = "\n\n".join(paper.in_words() for paper in PAPERS.values())
    parser = subparsers.add_parser(
        "paper",
        help="make published tables and figures again",
        description=f"{DESCRIPTION}\n{papers}",
        epilog=EXAMPLES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("paper", choices=tuple(PAPERS), metavar="PAPER", help=", ".join(PAPERS))
    for kind in ("table", "figure"):
        parser.add_argument(
            f"--{kind}",
            type=plain_text,
            action="append",
            metavar="N",
            help=f"this {kind}; may be repeated",
        )
    parser.add_argument(
        "--gaps", action="store_true", help="questions of our own (no table of the paper)"
    )
    parser.add_argument("--all", action="store_true", help="everything (the default)")
    defaults = {
        name: ", ".join(f"{getattr(paper, name):g} of {paper.name}" for paper in PAPERS.values())
        for name in ("scale", "seeds")
    }
    parser.add_argument(
        "--scale",
        type=_scale,
        metavar="S",
        help=f"share of the paper's size, above 0 and at most 1 (default: {defaults['scale']})",
    )
    parser.add_argument(
        "--seeds",
        type=integer_from(1, MOST_SEEDS),
        metavar="N",
        help="workloads that means are over; of lyra, table 5 and figures 10 and 13 take three of "
        f"them at most, and other tables one (default: {defaults['seeds']})",
    )
    parser.add_argument(
        "--processes",
        type=integer_from(1),
        metavar="N",
        help="simulations at the same time (default: one for each processor)",
    )
    folders = ", ".join(f"{paper.folder} of {paper.name}" for paper in PAPERS.values())
    parser.add_argument(
        "--out",
        type=plain_text,
        metavar="DIR",
        help=f"folder of the pages (default: {folders})",
    )
    parser.set_defaults(run=run)


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
    import sys

    from experiments.command import available_processors
    from experiments.simulation.carried_out import SimulationError
    from lyra_opt.commands.output import stdout_kept_clean
    from lyra_opt.errors import UserError, one_line
    from paper_figures.page import make_folder, require_folder_path, write_pages

    paper = PAPERS[arguments.paper]
    chosen = [
        *_publications(paper.name, "table", arguments.table, paper.tables),
        *_publications(paper.name, "figure", arguments.figure, paper.figures),
    ]
    is_part = bool(chosen) or arguments.gaps
    if arguments.all and is_part:
        raise UserError("--all makes everything: leave out --table, --figure and --gaps")
    folder = Path(paper.folder if arguments.out is None else arguments.out)
    require_folder_path("--out", folder)
    make_folder(folder)  # before the first simulation, so that no time is lost
    catalogue = paper.catalogue
    try:
        with stdout_kept_clean():
            report = catalogue.make_report(
                chosen if is_part else catalogue.ALL,
                scale=arguments.scale or paper.scale,
                seeds=arguments.seeds or paper.seeds,
                gaps=arguments.gaps or not is_part,
                processes=arguments.processes or available_processors(),
            )
    except SimulationError as error:
        print(f"lyra-opt: error: {one_line(str(error))}", file=sys.stderr)
        return 1
    page = write_pages(report, catalogue.draw_plots(report), folder)
    for comparison in report.comparisons:
        print(f"{folder / comparison.name}.md: {comparison.counted()}")
    for own in report.pages:
        for answer in own.answers():
            print(answer.question)
            for sentence in answer.sentences:
                print(f"  {sentence}")
    print(f"{page}: all of it, with plots")
    return 0


def _publications(
    paper: str, kind: str, given: Sequence[str] | None, known: Sequence[int]
) -> list[Publication]:
    """Return the tables or figures that were asked for, if the paper has them."""
    from lyra_opt.errors import UserError

    for text in given or ():
        if text not in map(str, known):
            listed = ", ".join(map(str, known))
            raise UserError(
                f"--{kind} is {text!r}: no such {kind} here; there are {listed} of {paper}"
            )
    return [Publication(paper, kind, int(text)) for text in given or ()]
