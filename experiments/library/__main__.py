"""Make an edition of the instance library: catalogue, grades, certificates, record, pages."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.library.building import certify, grade, write_record
from lyra_opt.experiments.library.grading import GradingRuns
from lyra_opt.experiments.library.pages import write_pages
from lyra_opt.experiments.library.plan import read_plan, write_catalogue
from lyra_opt.instances.library.shelf import Library

STEPS = ("catalogue", "grade", "record", "certify", "pages")


def main() -> int:
    """Run the steps named on the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "steps",
        nargs="*",
        metavar="STEP",
        help=f"steps to run, from {', '.join(STEPS)} (default: all)",
    )
    parser.add_argument("--library", type=Path, required=True, help="folder of the library")
    parser.add_argument("--plan", type=Path, required=True, help="plan file of the edition")
    parser.add_argument(
        "--work", type=Path, required=True, help="folder for runs and other intermediate results"
    )
    parser.add_argument(
        "--docs", type=Path, default=Path("docs"), help="folder of the documentation"
    )
    parser.add_argument(
        "--time-limit", type=float, default=10.0, help="time limit of each run, in seconds"
    )
    parser.add_argument(
        "--date",
        default=datetime.now(tz=UTC).date().isoformat(),
        help="date of the record to write (default: today)",
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="use only instances whose ids begin with TEXT"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.steps) - set(STEPS)
    if unknown:
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    try:
        return _run(arguments)
    except UserError as error:
        print(f"library: error: {error}", file=sys.stderr)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    steps = arguments.steps or STEPS
    plan = read_plan(arguments.plan)
    if "catalogue" in steps:
        print(write_catalogue(plan, arguments.library, arguments.work))
    library = Library(arguments.library)
    runs = GradingRuns(arguments.work)
    (catalogue,) = (each for each in library.catalogues if each.name == plan.name)
    entries = [each for each in catalogue.instances if each.id.startswith(arguments.only)]
    limit_s = arguments.time_limit
    if "grade" in steps:
        for line in grade(plan, library, entries, runs, time_limit_s=limit_s):
            print(line, flush=True)
    if "record" in steps:
        print(write_record(plan, library, entries, runs, arguments.date))
    if "certify" in steps:
        library = Library(arguments.library)  # read the record that was just written
        for line in certify(library, entries, arguments.date, time_limit_s=limit_s):
            print(line, flush=True)
    if "pages" in steps:
        write_pages(plan, Library(arguments.library), arguments.docs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
