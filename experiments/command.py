"""``lyra-opt study`` and ``lyra-opt report``: run a study, and show what came of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import HelpFormatter, integer_from, plain_text

if TYPE_CHECKING:
    import argparse

DEFAULT_RESULTS_FOLDER = Path("results")

STUDY_DESCRIPTION = """\
Run every solver of a study on every instance and store each run, failures too, as it
completes in DIR/results.sqlite. A study that was interrupted goes on with --resume: runs that
succeeded are kept, runs that failed are tried again.

Exit code: 0; 1 if a run failed or results contradict one another; 2 for bad input or usage;
130 after Ctrl-C or SIGTERM.
"""

STUDY_EXAMPLES = """\
examples:
  lyra-opt study experiments/studies/reclaim-gap.toml
  lyra-opt study experiments/studies/reclaim-gap.toml --resume
  lyra-opt study experiments/studies/reclaim-gap-snapshot.toml --trace TRACE.csv.gz --out philly

The head of experiments/study.py explains study files.
"""

REPORT_DESCRIPTION = """\
Read the store of a study and write into the same folder report.html (one page that needs no
other file), gap_table.csv, gap_table.md, overall_table.csv, overall_table.md and plots/*.svg;
print both tables. A study that is still running, or was interrupted, is reported as far as
it is.

Exit code: 0; 1 if results contradict one another; 2 for bad input or usage.
"""

REPORT_EXAMPLES = """\
example:
  lyra-opt report results/reclaim-gap
"""


def add_parsers(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add both sub-commands."""
    study = subparsers.add_parser(
        "study",
        help="run a study: many solvers on many instances",
        description=STUDY_DESCRIPTION,
        epilog=STUDY_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    study.add_argument("study", type=plain_text, metavar="STUDY.toml", help="the study file")
    study.add_argument(
        "--out", type=plain_text, metavar="DIR", help="folder of the results (default results/NAME)"
    )
    study.add_argument(
        "--processes",
        type=integer_from(1),
        metavar="N",
        help="runs at the same time (default: one for each processor)",
    )
    study.add_argument(
        "--trace",
        type=plain_text,
        metavar="FILE",
        help="job trace for the families that read one; looked up as given, then in the folder "
        "that the variable LYRA_OPT_TRACES names",
    )
    study.add_argument(
        "--resume", action="store_true", help="go on with the results that are there already"
    )
    study.set_defaults(run=run_study_command)

    report = subparsers.add_parser(
        "report",
        help="draw tables, plots and a page from the results of a study",
        description=REPORT_DESCRIPTION,
        epilog=REPORT_EXAMPLES,
        formatter_class=HelpFormatter,
    )
    report.add_argument("folder", type=plain_text, metavar="DIR", help="folder of the results")
    report.set_defaults(run=run_report_command)


def run_study_command(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt study``; return the exit code."""
    from experiments.runner import run_study
    from experiments.study import load_study
    from experiments.trace import find_trace

    trace = None if arguments.trace is None else find_trace(arguments.trace)
    study = load_study(arguments.study, trace)
    folder = DEFAULT_RESULTS_FOLDER / study.name if arguments.out is None else Path(arguments.out)
    processes = arguments.processes or available_processors()
    return run_study(study, folder, processes=processes, resume=arguments.resume)


def run_report_command(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt report``; return the exit code."""
    from experiments.report import write_report

    return write_report(Path(arguments.folder))


def available_processors() -> int:
    """Return how many processors this process may use, which can be less than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
