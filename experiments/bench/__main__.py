"""Compare the measured speeds in DIR with the targets of experiments/bench/targets.csv.

Print each target with the measured value, and write the table into DIR/bench.md and
DIR/figures.csv.

"make bench" measures all parts. A part is a module of experiments/bench or a bundled study:
  pytest experiments/bench/NAME.py --benchmark-json=DIR/NAME.json
  lyra-opt study NAME --processes 1 --out DIR/NAME

Exit code: 0; 1 if a target was missed; 2 for bad input or usage.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lyra_opt.commands.output import print_table
from lyra_opt.core.csv_text import frame_text
from lyra_opt.core.documents import write_text
from lyra_opt.core.errors import UserError, one_line
from lyra_opt.experiments.analysis import Analysis
from lyra_opt.experiments.bench.targets import (
    benchmark_frame,
    figures_of,
    figures_table,
    read_targets,
    study_frame,
)
from lyra_opt.experiments.frames import stored_runs
from lyra_opt.experiments.records import current_environment

PAGE = "bench.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print and write the figures of a folder; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m lyra_opt.experiments.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the measurements")
    folder: Path = parser.parse_args(arguments).folder
    try:
        figures = [
            figure
            for part, targets in read_targets().groupby("part", sort=False)
            for target in targets.itertuples()
            for figure in figures_of(target, measured(folder, str(part)))
        ]
    except UserError as error:
        parser.exit(2, f"{parser.prog}: error: {one_line(str(error))}\n")
    table = figures_table(figures)
    machine = current_environment()
    write_text(
        folder / PAGE,
        f"# Speed\n\nMeasured on {machine.cpu}, {machine.cores} cores, "
        f"Python {machine.versions['python']}. Times are comparable only within this page.\n\n"
        f"{table.text('markdown')}",
    )
    write_text(folder / "figures.csv", frame_text(pd.DataFrame(figures)))
    print_table(table, None)
    print(f"{folder / PAGE}: this table")
    return int(any(figure.get("verdict") == "MISSED" for figure in figures))


def measured(folder: Path, part: str) -> pd.DataFrame:
    """Return the measurements of a part in a folder; an empty frame if it was not measured."""
    if (file := folder / f"{part}.json").is_file():
        return benchmark_frame(file)
    if (folder / part).is_dir():
        return study_frame(Analysis(stored_runs(folder / part)))
    return pd.DataFrame()


if __name__ == "__main__":
    sys.exit(main())
