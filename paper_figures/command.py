"""``lyra-opt paper``: published tables and figures beside ours."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import HelpFormatter, integer_from, plain_text
from paper_figures.lyra import catalogue

if TYPE_CHECKING:
    from collections.abc import Sequence

PAPERS = ("lyra",)
DEFAULT_FOLDER = Path("results/figures")
DEFAULT_SCALE = 0.1
DEFAULT_SEEDS = 4
MOST_SEEDS = 100

DESCRIPTION = f"""\
Make published tables and figures again: the paper's number, ours, the ratio and a verdict by a
fixed rule, with the contradictions inside the paper in footnotes. DIR gets a page in Markdown for
each of them, plots and index.html, whose first page says what closing the gaps between heuristics
and optima changes for users.

Papers: lyra (Li et al., "Lyra: Elastic Scheduling for Deep Learning Clusters", EuroSys 2023), with
tables {", ".join(map(str, catalogue.TABLES))} and figures {", ".join(map(str, catalogue.FIGURES))}.

Simulated numbers come from a generated workload: the paper's trace is private. --scale is the size
of clusters and workload as a share of the paper's; at {DEFAULT_SCALE:g} everything takes about ten
minutes on two processors, at 1 many hours."""

EXAMPLES = """\
examples:
  lyra-opt paper lyra                       everything, at a tenth of the paper's size
  lyra-opt paper lyra --table 1 --figure 5  the worked example of reclaiming, at once
  lyra-opt paper lyra --gaps --seeds 10     does closing the gaps change what users feel?
  lyra-opt paper lyra --table 5 --scale 1   the paper's size

Exit code: 0; 1 if a simulation failed its checks; 2 for bad input or usage; 130 after Ctrl-C.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "paper",
        help="make published tables and figures again",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("paper", choices=PAPERS, metavar="PAPER", help=", ".join(PAPERS))
    parser.add_argument(
        "--table",
        type=_number_of("table", catalogue.TABLES),
        action="append",
        metavar="N",
        help="this table; may be repeated",
    )
    parser.add_argument(
        "--figure",
        type=_number_of("figure", catalogue.FIGURES),
        action="append",
        metavar="N",
        help="this figure; may be repeated",
    )
    parser.add_argument(
        "--gaps", action="store_true", help="what closing the gaps changes (no table of the paper)"
    )
    parser.add_argument("--all", action="store_true", help="everything (the default)")
    parser.add_argument(
        "--scale",
        type=_scale,
        default=DEFAULT_SCALE,
        metavar="S",
        help=f"share of the paper's size, above 0 and at most 1 (default: {DEFAULT_SCALE:g})",
    )
    parser.add_argument(
        "--seeds",
        type=integer_from(1, MOST_SEEDS),
        default=DEFAULT_SEEDS,
        metavar="N",
        help="workloads that the page on gaps is a mean over; table 5 and figures 10 and 13 take "
        f"three of them at most (default: {DEFAULT_SEEDS})",
    )
    parser.add_argument(
        "--processes",
        type=integer_from(1),
        metavar="N",
        help="simulations at the same time (default: one for each processor)",
    )
    parser.add_argument(
        "--out",
        type=plain_text,
        default=str(DEFAULT_FOLDER),
        metavar="DIR",
        help=f"folder of the pages (default: {DEFAULT_FOLDER})",
    )
    parser.set_defaults(run=run)


def _number_of(kind: str, known: Sequence[int]) -> Any:
    """Return an argument type: the number of a table or figure that there is."""

    def parse(text: str) -> int:
        if text not in map(str, known):
            listed = ", ".join(map(str, known))
            raise argparse.ArgumentTypeError(f"{text!r}: no such {kind} here; there are {listed}")
        return int(text)

    return parse


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
    from experiments.simulation.replay import SimulationError
    from lyra_opt.commands.output import stdout_kept_clean
    from lyra_opt.errors import UserError, one_line
    from paper_figures.page import make_folder, require_folder_path, write_pages
    from paper_figures.simulations import Setting

    chosen = [
        catalogue.Publication(kind, number)
        for kind in ("table", "figure")
        for number in getattr(arguments, kind) or ()
    ]
    is_part = bool(chosen) or arguments.gaps
    if arguments.all and is_part:
        raise UserError("--all makes everything: leave out --table, --figure and --gaps")
    folder = Path(arguments.out)
    require_folder_path("--out", folder)
    make_folder(folder)  # before the first simulation, so that no time is lost
    try:
        with stdout_kept_clean():
            report = catalogue.make_report(
                chosen if is_part else catalogue.ALL,
                Setting(scale=arguments.scale, seeds=arguments.seeds),
                gaps=arguments.gaps or not is_part,
                processes=arguments.processes or available_processors(),
            )
    except SimulationError as error:
        print(f"lyra-opt: error: {one_line(str(error))}", file=sys.stderr)
        return 1
    page = write_pages(report, folder)
    for comparison in report.comparisons:
        print(f"{folder / comparison.name}.md: {comparison.counted()}")
    if report.gaps is not None:
        for answer in report.gaps.answers():
            print(answer.question)
            for sentence in answer.sentences:
                print(f"  {sentence}")
    print(f"{page}: all of it, with plots")
    return 0
